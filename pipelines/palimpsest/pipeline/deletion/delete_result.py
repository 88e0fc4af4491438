"""What a delete did or would do, as `palimpsest delete --json` prints it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from palimpsest.core.files import counted
from palimpsest.core.ids import JsonObject
from palimpsest.pipeline.deletion.collect import DeletionSet
from palimpsest.pipeline.deletion.proof import Probes, Proof
from palimpsest.store.remote_home import StoreProof

MAX_SHOWN = 5
_LIMITS = (
    "lines under 8 characters, names under 3, and what remaining documents also contain, are not searched for; what "
    "Palimpsest or Dagster write themselves is searched for only in columns that have texts and names; "
    "compressed files are searched as they are"
)


@dataclass(frozen=True)
class Erased:
    """What was removed next to tables: vectors, answers of a language model, runs, reads, and writes to Neo4j.

    `graph_writes` is None, and `graph_bytes` 0, where the home was never loaded into Neo4j. `reads` is how many
    memories were removed from the usage log, `operations` how many files were removed from the inbox, `pages` how many
    from the pages of the web.
    """

    vectors: int
    ledger: int
    runs: int
    graph_writes: int | None = None
    graph_bytes: int = 0
    reads: int = 0
    operations: int = 0
    pages: int = 0


@dataclass(frozen=True)
class DeleteResult:
    """What a delete removed, with its proof; or, for a dry run, what it would remove.

    Attributes:
        documents: how many documents were deleted whole.
        memories: how many memories were deleted.
        fields: the other fields of the JSON.
        text: the same for people.
    """

    documents: int
    memories: int
    fields: JsonObject
    text: str

    def to_json(self) -> JsonObject:
        """Returns the JSON that `delete --json` prints; `residue` is empty, for what is left is an error."""
        counts: JsonObject = {"documents": self.documents, "memories": self.memories, "residue": []}
        return {**counts, **self.fields, "text": self.text}


def proved_result(
    counts: Mapping[str, int],
    erased: Erased,
    probes: Probes,
    in_columns: int,
    proof: Proof,
    stored: StoreProof | None,
) -> DeleteResult:
    """Returns the result of a delete after which nothing was found.

    `in_columns` of the probes were searched for only in columns that have what people wrote; `stored` is of a home on
    object storage.
    """
    fields = asdict(erased)
    graph_bytes = fields.pop("graph_bytes")
    fields["proof"] = {
        "strings": len(probes),
        "files": proof.files,
        "bytes": proof.bytes,
        "graph_bytes": graph_bytes,
        "run_bytes": proof.run_bytes or 0,
        "too_short": probes.too_short,
        "elsewhere": probes.elsewhere,
        "in_columns": in_columns,
        "unsearched": [*proof.unsearched, *([stored.unsearched] if stored and stored.unsearched else [])],
        "cannot": _LIMITS,
    }
    lines = [_format_proof(counts, erased, probes, in_columns, proof)]
    if stored is not None:
        fields["store"] = {"objects": stored.objects, "versions": stored.versions}
        lines.append(
            f"object storage: {stored.objects} objects, none of an earlier tree; {stored.versions} versions, delete "
            "markers and unfinished uploads removed, none left"
            + (f"\nnot searched: {stored.unsearched}" * bool(stored.unsearched))
        )
    return DeleteResult(counts["documents"], counts["memories"], fields, "\n".join(lines))


def dry_run_result(found: DeletionSet) -> DeleteResult:
    """Returns the result of a dry run."""
    documents = [
        {"collection": c, "user_id": u, "uri": uri, "session_id": s}
        for c, u, uri, s, _ in sorted(found.documents, key=str)
    ]
    texts = [found.first_texts[m] for m in sorted(found.first_texts)[:MAX_SHOWN]]
    lines = [f"  {d['collection']}/{d['uri']}{'#' + d['session_id'] if d['session_id'] else ''}" for d in documents]
    more = [f"  … and {len(lines) - 4 * MAX_SHOWN} more"] if len(lines) > 4 * MAX_SHOWN else []
    head = f"would delete {count_deleted({'documents': len(documents), 'memories': len(found.memories)})}"
    heading = ["texts:"] if any(texts) else []
    begins = [f"  {t.splitlines()[0][:100]}" for t in texts if t]
    shown = [head, *lines[: 4 * MAX_SHOWN], *more, *heading, *begins]
    names: JsonObject = {"documents": documents, "memories": sorted(found.memories), "texts": texts}
    fields: JsonObject = {"dry_run": True, "would_delete": names}
    return DeleteResult(len(documents), len(found.memories), fields, "\n".join(shown))


def count_deleted(counts: Mapping[str, int]) -> str:
    """Returns how many documents and memories are deleted, in words."""
    return f"{counted(counts['documents'], 'document')}, {counted(counts['memories'], 'memory')}"


def _format_proof(counts: Mapping[str, int], erased: Erased, probes: Probes, in_columns: int, proof: Proof) -> str:
    graph = "" if erased.graph_writes is None else f", or in Neo4j ({erased.graph_bytes:,} bytes read)"
    if proof.run_bytes is not None:
        graph += f", or in the Postgres tables of Dagster's runs ({proof.run_bytes:,} bytes read)"
    lines = [
        f"deleted {count_deleted(counts)}, {counted(erased.vectors, 'vector')}, "
        f"{counted(erased.ledger, 'answer')} of a language model, {counted(erased.runs, 'run')}",
        f"proof: none of {len(probes)} ids, lines and names is in any of {counted(proof.files, 'file')}{graph}",
    ]
    if in_columns:
        lines.append(
            f"{in_columns} of them are words that Palimpsest or Dagster write themselves: searched for in the columns "
            "of tables that have texts and names"
        )
    if probes.too_short or probes.elsewhere:
        lines.append(
            f"not searched for: {probes.elsewhere} that remaining documents contain too, {probes.too_short} too short"
        )
    if counts["documents"]:
        lines.append(
            "source files outside the home are as they were: builds skip what was deleted; delete it there too"
        )
    return "\n".join([*lines, *(f"not searched: {path}" for path in proof.unsearched)])
