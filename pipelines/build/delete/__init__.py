"""Provable delete: removes all that a target names, then searches for every id, line and name of it.

The order makes a crash safe. What keeps it out of later builds is written first; hashes of all that is to be searched
for come next and stay until nothing of it is found, so a rerun finishes and proves what was begun.
"""

import datetime as dt
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import polars as pl

from palimpsest.build.delete.collect import Collected, collect
from palimpsest.build.delete.probes import Probes, remembered
from palimpsest.build.delete.proof import Proof, search_home
from palimpsest.build.delete.rewrite_builds import rewrite_build
from palimpsest.build.delete.run_history import forget_runs
from palimpsest.build.delete.target import Target, pending_path
from palimpsest.core.errors import PalimpsestError, Refused
from palimpsest.core.files import write_json
from palimpsest.core.progress import say
from palimpsest.memories.vector_store import embedding_store
from palimpsest.neo4j_graph.identity import served_id
from palimpsest.relations.classify.lm.ledger import Ledger
from palimpsest.sources.log_maintenance import apply_deletions, update_stored_documents
from palimpsest.store.builds import Build, kept, staged, sweep
from palimpsest.store.collection_config import load_collection
from palimpsest.store.decisions import append_decisions, append_erased, forget_overrides, read_decisions, tombstone
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog

_SHOWN = 5
_CANNOT = (
    "lines under 8 characters, names under 3, and what remaining documents also hold, are not searched for; "
    "compressed files are searched as they are"
)

__all__ = ["Target", "delete", "delete_target"]


def delete(
    home: Home,
    *,
    document: str | None = None,
    user: str | None = None,
    collection: str | None = None,
    session: str | None = None,
    project: str | None = None,
    tag: str | None = None,
    before: dt.datetime | None = None,
    memories: Iterable[str] = (),
    dry_run: bool = False,
) -> dict[str, Any]:
    """Deletes what the selectors name, all of them together, and proves that nothing of it is left.

    Args:
        home: the home.
        document: uri of a source, or `uri#session`.
        user: user id.
        collection: name of a collection.
        session: session id.
        project: project id.
        tag: a tag of memories.
        before: memories observed before this time.
        memories: memory ids.
        dry_run: say what would go, and do nothing.

    Returns:
        `{"documents", "memories", "vectors", "ledger", "runs", "graph_writes", "residue", "proof", "text"}`.

    Raises:
        PalimpsestError: nothing is named, or nothing matches.
        Refused: something was left; the message names the files.
    """
    names = (collection, document, user, session, project, tag, before, frozenset(memories))
    target = Target(*names)
    target.check()
    with home.lock():
        if target == Target(collection=collection, document=document):
            target = Target(_collection_of(home, str(document), collection) if document else collection, document)
        return delete_target(home, target, dry_run)


def delete_target(home: Home, target: Target, dry_run: bool = False) -> dict[str, Any]:
    """Deletes a target from a home whose lock is held; see `delete`."""
    sweep(home)
    if staged(home).path.is_dir() and not staged(home).manifest and not dry_run:
        shutil.rmtree(staged(home).path)  # begun by a run that was stopped; the next build begins it again
    builds = kept(home)
    found = collect(home, builds, target)
    _check_found(home, target, found, builds)
    if dry_run:
        return _would_go(found)
    _check_server(home)
    earlier, before = remembered(pending_path(home, target))
    counts = {
        "documents": max(before.get("documents", 0), len(found.documents)),
        "memories": max(before.get("memories", 0), len(found.memories)),
    }
    probes = found.probes(earlier)
    _keep_out(home, target, found)
    probes.remember(pending_path(home, target), counts)
    say(f"delete: {counts['documents']} documents, {counts['memories']} memories")
    done = _erase(home, target, found, probes)
    return _proved(home, target, probes, counts, done)


def _check_server(home: Home) -> None:
    if served_id(home.path) is None:
        return  # the driver takes a second to import
    from palimpsest.neo4j_graph.load.erase import check_server

    check_server(home)


def _forget_on_server(home: Home, probes: Callable[[bytes], bool]) -> int | None:
    if served_id(home.path) is None:
        return None
    from palimpsest.neo4j_graph.load.erase import forget

    return forget(home, probes)


@dataclass(frozen=True)
class _Erased:
    vectors: int
    ledger: int
    runs: int
    graph_writes: int | None
    graph_bytes: int


def _keep_out(home: Home, target: Target, found: Collected) -> None:
    """Writes the tombstones that keep what goes out of later builds."""
    places = pl.DataFrame(
        sorted(found.documents, key=str),
        orient="row",
        schema=dict.fromkeys(("collection", "user_id", "uri", "session_id", "project_id"), pl.String()),
    )
    append_erased(home.decisions, found.erased)
    append_decisions(home.decisions, "tombstone", sorted(target.tombstones(places)))


def _erase(home: Home, target: Target, found: Collected, probes: Probes) -> _Erased:
    _erase_log(home, target)
    for build in kept(home):
        rewrite_build(home, build, target, probes)
    for pattern in ("builds/*/report.*", "notes/*"):  # they quote texts and questions; the next build writes its own
        for path in home.path.glob(pattern):
            path.unlink()
    forget_overrides(home.decisions, probes)
    ledger = 0
    if home.lm_ledger.exists():
        answers = Ledger(home.lm_ledger)
        ledger = answers.forget(probes)
        answers.close()
    vectors = _sweep_vectors(home)
    runs = forget_runs(home, probes, target.collection if target.whole_collection else None)
    searched = 0

    def holds(data: bytes) -> bool:
        nonlocal searched
        searched += len(data)
        return probes.any_in(data)

    writes = _forget_on_server(home, holds)
    return _Erased(vectors, ledger, runs, writes, searched)


def _erase_log(home: Home, target: Target) -> None:
    """Takes the target out of the logs; a source that holds nothing any more is forgotten, by hash kept out."""
    decisions = read_decisions(home.decisions)
    for name in home.sources:
        log = IngestLog(home.log / name)
        if not target.covers(name):
            continue
        if target.whole_collection:
            shutil.rmtree(log.folder, ignore_errors=True)
            continue
        if target.denied:
            update_stored_documents(log, load_collection(home.sources[name]))
        if target.document is not None and decisions.hides_source(name, target.document, ""):
            log.forget({target.document})
        _, emptied = apply_deletions(log, name, decisions)
        append_decisions(home.decisions, "tombstone", (tombstone("source", name, *told) for told in emptied))
    if target.whole_collection:
        sources = {n: str(f) for n, f in home.sources.items() if n != target.collection}
        write_json(home.path / "home.json", {"collections": sources})


def _sweep_vectors(home: Home) -> int:
    tables = ("embed_inputs", "context_inputs")
    keep = {h for b in kept(home) for c in b.collections for t in tables for h in b.table(c, t)["text_hash"] if h}
    return embedding_store(home).compact(keep)


def _proved(home: Home, target: Target, probes: Probes, counts: dict[str, int], done: _Erased) -> dict[str, Any]:
    proof = search_home(home, probes, set(home.path.glob("pending-delete-*.json")))
    if proof.residue:
        shown = ", ".join(proof.residue[:_SHOWN])
        raise Refused(f"delete: still found in {shown}; run the same delete again")
    pending_path(home, target).unlink(missing_ok=True)
    return {
        **counts,
        "vectors": done.vectors,
        "ledger": done.ledger,
        "runs": done.runs,
        "graph_writes": done.graph_writes,
        "residue": [],
        "proof": {
            "strings": len(probes),
            "files": proof.files,
            "bytes": proof.bytes,
            "graph_bytes": done.graph_bytes,
            "too_short": probes.too_short,
            "elsewhere": probes.elsewhere,
            "unsearched": list(proof.unsearched),
            "cannot": _CANNOT,
        },
        "text": _told(counts, done, probes, proof),
    }


def _told(counts: dict[str, int], done: _Erased, probes: Probes, proof: Proof) -> str:
    graph = "" if done.graph_writes is None else f", or in Neo4j ({done.graph_bytes:,} bytes read)"
    lines = [
        f"deleted {counts['documents']} documents, {counts['memories']} memories, {done.vectors} vectors, "
        f"{done.ledger} answers of a language model, {done.runs} runs",
        f"proof: none of {len(probes)} ids, lines and names is in any of {proof.files} files{graph}",
    ]
    if probes.too_short or probes.elsewhere:
        lines.append(
            f"not searched for: {probes.elsewhere} that remaining documents hold too, {probes.too_short} too short"
        )
    return "\n".join([*lines, *(f"not searched: {told}" for told in proof.unsearched)])


def _would_go(found: Collected) -> dict[str, Any]:
    documents = [
        {"collection": c, "user_id": u, "uri": uri, "session_id": s}
        for c, u, uri, s, _ in sorted(found.documents, key=str)
    ]
    texts = [found.first_texts[m] for m in sorted(found.first_texts)[:_SHOWN]]
    shown = [f"  {d['collection']}/{d['uri']}{'#' + d['session_id'] if d['session_id'] else ''}" for d in documents]
    more = [f"  … and {len(shown) - 4 * _SHOWN} more"] if len(shown) > 4 * _SHOWN else []
    head = f"would delete {len(documents)} documents, {len(found.memories)} memories"
    return {
        "dry_run": True,
        "documents": len(documents),
        "memories": len(found.memories),
        "residue": [],
        "would_delete": {"documents": documents, "memories": sorted(found.memories), "texts": texts},
        "text": "\n".join([head, *shown[: 4 * _SHOWN], *more, *(f"  {t.splitlines()[0][:100]}" for t in texts if t)]),
    }


def _check_found(home: Home, target: Target, found: Collected, builds: list[Build]) -> None:
    """Raises PalimpsestError where the target names nothing, and no earlier run of the same delete did."""
    again = pending_path(home, target).exists() or _was_deleted(home, target)
    if target.memories and (unknown := sorted(target.memories - found.memories)) and not again:
        raise PalimpsestError(
            f"delete: no memory {unknown[0]!r} in home {home.path}; ids are in palimpsest query --json"
        )
    if not found.is_empty or again or (target.whole_collection and target.collection in home.sources):
        return
    if target.document is not None and any(
        (IngestLog(home.log / c).versions()["uri"] == target.document).any() for c in home.sources if target.covers(c)
    ):
        return  # a source that was only ever rejected
    documents = [b.table(c, "documents") for b in builds for c in b.collections]
    for column, value in (("user_id", target.user), ("session_id", target.session), ("project_id", target.project)):
        known = sorted({v for d in documents for v in d[column].drop_nulls()})
        if value is not None and value not in known:
            what = column.removesuffix("_id")
            raise PalimpsestError(f"delete: no {what} {value!r}; there is {', '.join(known[:8]) or 'none'}")
    if target.collection is not None and target.collection not in home.sources:
        raise PalimpsestError(
            f"delete: no collection {target.collection!r}; there is {', '.join(home.sources) or 'none'}"
        )
    raise PalimpsestError(f"delete: nothing in home {home.path} matches; look at palimpsest query --history")


def _was_deleted(home: Home, target: Target) -> bool:
    by_user = target == Target(collection=target.collection, user=target.user)
    by_document = target == Target(collection=target.collection, document=target.document)
    if not (by_user or by_document) or target.whole_collection:
        return False
    return not target.tombstones(pl.DataFrame()).isdisjoint(read_decisions(home.decisions).tombstones)


def _collection_of(home: Home, document: str, collection: str | None) -> str:
    names = [c for c in home.sources if collection in (None, c)]
    target = Target(document=document)
    in_log = {c for c in names if (IngestLog(home.log / c).versions()["uri"] == document).any()}
    in_builds = {c for b in kept(home) for c in b.collections if target.documents(b.table(c, "documents")).height}
    holding = sorted(in_log | (in_builds & set(names)))
    if len(holding) > 1:
        raise PalimpsestError(f"delete: {document} is in {' and '.join(holding)}; add --collection")
    if not holding:
        deleted = read_decisions(home.decisions).tombstones
        known = [c for c in names if tombstone("document", c, document) in deleted]
        if len(known) == 1:
            return known[0]
        raise PalimpsestError(
            f"delete: no source {document!r} in {', '.join(names) or 'this home'}; give its path inside the collection"
        )
    return holding[0]
