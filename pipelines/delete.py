"""Provable delete: removes all that came from a document, a user or a collection, then looks for what is left.

The order makes a crash safe: the tombstone is written first, so a rerun or a rebuild finishes what was begun, and
nothing deleted is read again from a source that is still on disk.
"""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from palimpsest.build import finish_build
from palimpsest.config import CollectionConfig
from palimpsest.decisions import append_decisions, forget_decided, read_decisions, tombstone
from palimpsest.errors import PalimpsestError, Refused
from palimpsest.graph.erase import check_server, forget
from palimpsest.labels.lm.ledger import Ledger
from palimpsest.partition import Partition, embedding_store
from palimpsest.progress import say
from palimpsest.stages import STAGES, run_stage
from palimpsest.store.builds import Build, kept, staged, sweep
from palimpsest.store.files import read_json, write_json
from palimpsest.store.home import Home
from palimpsest.store.log import IngestLog

# Rewritten by filter; everything after them is derived anew from what is left.
_BY_DOCUMENT = ("documents", "document_texts", "chunks", "memories")
_BY_MEMORY = ("embed_inputs", "context_inputs", "surfaces")
_DERIVED = ("embeddings", "entities", "topics", "candidate_pairs", "relations", "versions")
_MANY_PROBES = 400
_TELLING = 8  # characters: a shorter string stands elsewhere by chance


@dataclass(frozen=True)
class Target:
    """What to delete: exactly one of document (in a collection), user, or whole collection."""

    collection: str | None
    document: str | None
    user: str | None

    def rows(self, documents: pl.DataFrame) -> pl.DataFrame:
        """Returns the rows of a documents table that the target names."""
        if self.user is not None:
            return documents.filter(pl.col("user_id") == self.user)
        if self.document is not None:
            uri = pl.col("uri")
            session = pl.format("{}#{}", uri, pl.col("session_id").fill_null(""))
            within = uri.str.starts_with(self.document + "#") | (session == self.document)
            return documents.filter((uri == self.document) | within)
        return documents

    @property
    def tombstone(self) -> str:
        """The hash that keeps the target out of later builds."""
        if self.user is not None:
            return tombstone("user", self.user)
        return tombstone("document", str(self.collection), str(self.document))


def delete(home: Home, *, document: str | None, user: str | None, collection: str | None) -> dict[str, Any]:
    """Deletes from the log, the vectors and every kept build, and proves that nothing is left.

    Returns:
        `{"documents", "memories", "vectors", "residue", "proof", "text"}`: what went, and what was searched.

    Raises:
        PalimpsestError: no or several targets are named, or nothing matches.
        Refused: something was left; the message names the files.
    """
    if sum(x is not None for x in (document, user)) > 1 or not (document or user or collection):
        raise PalimpsestError("delete: name one of --document URI, --user U or --collection C")
    with home.lock():
        target = Target(_collection_of(home, document, collection) if document else collection, document, user)
        sweep(home)
        if staged(home).path.is_dir() and not staged(home).manifest:
            shutil.rmtree(staged(home).path)  # begun by a run that was stopped; the next build begins it again
        builds = kept(home)
        found = pl.concat(
            [
                target.rows(b.table(c, "documents"))
                for b in builds
                for c in b.collections
                if target.collection in (None, c)
            ]
            or [pl.DataFrame()],
            how="diagonal_relaxed",
        )
        again = target.tombstone in read_decisions(home.decisions).tombstones or _pending(home, target).exists()
        if found.is_empty() and not again and not _in_log(home, target):
            raise PalimpsestError(f"delete: nothing in home {home.path} matches; look at palimpsest query --history")
        check_server(home)
        probes = _remembered(home, target, _probes(builds, target))
        say(f"delete: {found['document_id'].n_unique() if found.height else 0} document versions")
        if target.document or target.user:
            append_decisions(home.decisions, "tombstone", [target.tombstone])
        _forget_in_log(home, target)
        for build in builds:
            _rewrite(home, build, target)
        _forget_reports(home)
        forget_decided(home.decisions, probes.strings)
        _forget_answers(home, probes)
        vectors = _sweep_vectors(home)
        _forget_runs(home, probes)
        writes = forget(home, probes.strings)
        residue = _residue(home, probes)
        if not residue:
            _pending(home, target).unlink(missing_ok=True)
    counts: dict[str, Any] = {
        "documents": found["document_id"].n_unique() if found.height else 0,
        "memories": probes.memories, "vectors": vectors, "graph_writes": writes, "residue": residue,
        "proof": {"strings": len(probes.strings), "files": sum(1 for p in home.path.rglob("*") if p.is_file())},
    }  # fmt: skip
    if residue:
        raise Refused(f"delete: still found in {', '.join(residue[:5])}; run the same delete again")
    return counts | {"text": _told(counts, vectors)}


def _told(counts: dict[str, Any], vectors: int) -> str:
    searched = counts["proof"]
    if not searched["strings"]:
        return f"nothing of it was in the builds; swept the log and {searched['files']} files"
    return (
        f"deleted {counts['documents']} document versions, {counts['memories']} memories, {vectors} vectors\n"
        f"proof: none of {searched['strings']} texts, ids and names is in any of {searched['files']} files"
        + ("" if counts["graph_writes"] is None else ", or in Neo4j")
    )


def _in_log(home: Home, target: Target) -> bool:
    """Tells whether a source that was only ever rejected is meant."""
    names = [c for c in home.sources if target.collection in (None, c)]
    if target.document is None:
        return target.user is None and bool(names)
    return any((IngestLog(home.log / c).versions()["uri"] == target.document).any() for c in names)


def _pending(home: Home, target: Target) -> Path:
    return home.path / f"pending-delete-{target.tombstone}.json"


def _remembered(home: Home, target: Target, probes: "Probes") -> "Probes":
    """Keeps the probes of a delete until it is proved, so that one that was stopped is proved by all of them."""
    path = _pending(home, target)
    before = read_json(path) or {"strings": [], "memories": 0}
    strings = sorted({*before["strings"], *probes.strings})
    write_json(path, {"strings": strings, "memories": max(before["memories"], probes.memories)})
    path.chmod(0o600)
    return Probes(tuple(strings), max(before["memories"], probes.memories))


def _forget_runs(home: Home, probes: "Probes") -> None:
    """Removes Dagster's history of runs where it names what goes: its rows cannot be rewritten one by one."""
    needles = [p.encode() for p in probes.strings]
    kept_files = {"dagster.yaml"}
    files = [p for p in home.dagster.rglob("*") if p.is_file() and p.name not in kept_files]
    if any(n in path.read_bytes() for path in files for n in needles):
        for path in home.dagster.iterdir():
            if path.name not in kept_files:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _collection_of(home: Home, document: str, collection: str | None) -> str:
    names = [c for c in home.sources if collection in (None, c)]
    target = Target(None, document, None)
    holding = [c for c in names if _in_log(home, Target(c, document, None))]
    in_builds = {c for b in kept(home) for c in b.collections if target.rows(b.table(c, "documents")).height}
    holding = sorted({*holding, *(in_builds & set(names))})
    if len(holding) > 1:
        raise PalimpsestError(f"delete: {document} is in {' and '.join(holding)}; add --collection")
    if not holding:
        raise PalimpsestError(
            f"delete: no source {document!r} in {', '.join(names) or 'this home'}; give its path inside the collection"
        )
    return holding[0]


@dataclass(frozen=True)
class Probes:
    """Strings that must not be found afterwards."""

    strings: tuple[str, ...]
    memories: int


def _probes(builds: Iterable[Build], target: Target) -> Probes:
    """Ids and whole texts of what goes, unless the same text stays somewhere else."""
    gone: set[str] = set()
    texts: set[str] = set()
    staying: set[str] = set()
    names: set[str] = {target.user} if target.user else set()
    other_names: set[str] = set()
    for build in builds:
        for c in build.collections:
            documents = build.table(c, "documents")
            leaving = target.rows(documents) if target.collection in (None, c) else documents.clear()
            names |= {n for column in ("uri", "title", "session_id") for n in leaving[column] if n}
            rest = documents.join(leaving, on="document_id", how="anti")
            other_names |= {n for column in ("uri", "title", "session_id", "user_id") for n in rest[column] if n}
            memories = build.table(c, "memories")
            named = target.rows(build.table(c, "documents")) if target.collection in (None, c) else memories.clear()
            going = memories.join(named, on="document_id", how="semi") if named.height else memories.clear()
            gone |= set(going["memory_id"])
            texts |= set(going["text"])
            staying |= set(memories.join(going, on="memory_id", how="anti")["text"])
    lines = {line.strip() for t in texts - staying for line in t.splitlines()}
    body = "\n".join([*staying, *other_names])
    told = sorted((t for t in lines | names if len(t) >= _TELLING and t not in body), key=lambda t: (-len(t), t))
    return Probes((*sorted(gone)[:_MANY_PROBES], *told[:_MANY_PROBES]), len(gone))


def _forget_in_log(home: Home, target: Target) -> None:
    for name in home.sources:
        log = IngestLog(home.log / name)
        if target.collection not in (None, name):
            continue
        versions = log.versions()
        if target.document is not None and (versions["uri"] == target.document).any():
            log.forget({target.document})  # sweeps too
        elif target.document is not None or target.user is not None:
            for key in versions["text_key"].drop_nulls().unique().sort():
                rows = log.text(key)
                left = rows.join(target.rows(rows), on=rows.columns, how="anti", nulls_equal=True)
                if left.height < rows.height:
                    log.write_text(key, left.to_dicts())
            log.sweep()
        else:
            shutil.rmtree(log.folder, ignore_errors=True)
    if target.document is None and target.user is None:
        sources = {n: str(f) for n, f in home.sources.items() if n != target.collection}
        write_json(home.path / "home.json", {"collections": sources})


def _rewrite(home: Home, build: Build, target: Target) -> None:
    for name in build.collections:
        documents = build.table(name, "documents")
        going = target.rows(documents) if target.collection in (None, name) else documents.clear()
        if target.document is None and target.user is None and name == target.collection:
            shutil.rmtree(build.path / name)
        elif going.height:
            _rewrite_collection(home, build, name, going)
    if not (build.path / "manifest.json").exists():
        return
    old = build.manifest
    manifest = finish_build(home, build, {})
    # The next build must look again: what it would make is no longer what was published.
    build.write_manifest(manifest | {"fingerprints": {}, "created_at": old["created_at"], "gate": old["gate"]})


def _forget_reports(home: Home) -> None:
    """Removes the pages and notes of the home, which quote documents and questions; the next build writes its own."""
    for pattern in ("builds/*/report.*", "notes/*"):
        for path in home.path.glob(pattern):
            path.unlink()


def _rewrite_collection(home: Home, build: Build, name: str, going: pl.DataFrame) -> None:
    memories = build.table(name, "memories").join(going, on="document_id", how="semi")
    for stage in ("documents", "chunks", "memories", "entities"):
        marker = build.marker(name, stage)
        if marker is None:
            continue
        for table in STAGES[stage].writes:
            frame = build.table(name, table)
            if table in _BY_DOCUMENT:
                frame = frame.join(going, on="document_id", how="anti")
            elif table in _BY_MEMORY:
                frame = frame.join(memories, on="memory_id", how="anti")
            elif table == "document_relations":
                uris = going["uri"].to_list()
                frame = frame.filter(~pl.col("newer_uri").is_in(uris) & ~pl.col("older_uri").is_in(uris))
            elif table == "rejects":
                frame = frame.filter(~pl.col("uri").is_in([u.split("#")[0] for u in going["uri"]]))
            marker["outputs"][table] = build.write_table(name, table, frame)
        build.write_marker(name, stage, marker | {"key": "rewritten by delete"})
    config = CollectionConfig(**build.manifest["configs"][name])  # its folder may be gone
    part = Partition(home, build, None, config, home.sources.get(name, Path()), read_decisions(home.decisions))
    for stage in _DERIVED:
        if build.marker(name, stage) is not None:
            run_stage(part, stage)


def _forget_answers(home: Home, probes: "Probes") -> None:
    """Removes what a language model answered about what goes: its quotes are the texts' own words."""
    if home.lm_ledger.exists():
        ledger = Ledger(home.lm_ledger)
        ledger.forget(probes.strings)
        ledger.close()


def _sweep_vectors(home: Home) -> int:
    tables = ("embed_inputs", "context_inputs")
    keep = {h for b in kept(home) for c in b.collections for t in tables for h in b.table(c, t)["text_hash"] if h}
    return embedding_store(home).compact(keep)


def _residue(home: Home, probes: Probes) -> list[str]:
    """Files of the home that hold a probe: raw bytes, and decoded tables (Parquet compresses its pages).

    Not `home.json`: it says where collections are read from, and the path of a folder may hold the name of a user.
    """
    needles = [p.encode() for p in probes.strings]
    found = []
    files = (p for p in home.path.rglob("*") if p.is_file() and p != home.path / "home.json")
    for path in sorted(p for p in files if not p.name.startswith("pending-delete-")):
        data = path.read_bytes()
        if path.suffix == ".parquet":
            data += _table_text(pl.read_parquet(path))
        elif path.suffix == ".duckdb":
            data += _index_text(path)
        if any(n in data for n in needles):
            found.append(str(path.relative_to(home.path)))
    return found


def _table_text(frame: pl.DataFrame) -> bytes:
    """Returns every string of a table, in lists too."""
    columns = [c for c, t in frame.schema.items() if t in (pl.String, pl.List(pl.String))]
    strings = (frame[c].explode() if frame.schema[c] == pl.List(pl.String) else frame[c] for c in columns)
    return "\n".join(x for series in strings for x in series.drop_nulls().unique()).encode()


def _index_text(path: Path) -> bytes:
    import duckdb

    with duckdb.connect(str(path), read_only=True) as connection:
        tables = [r[0] for r in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        parts = []
        for table in tables:
            names = connection.execute(
                "SELECT column_name FROM duckdb_columns() WHERE table_name = ? AND data_type LIKE '%VARCHAR%'", [table]
            ).fetchall()
            for (column,) in names:
                quoted = [f'"{x.replace(chr(34), chr(34) * 2)}"' for x in (column, table)]
                rows = connection.execute(f"SELECT DISTINCT {quoted[0]}::VARCHAR FROM {quoted[1]}").fetchall()
                parts += [str(r[0]).encode() for r in rows]
    return b"\n".join(parts)
