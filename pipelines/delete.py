"""Provable delete: removes all that came from a document, a user or a collection, then looks for what is left.

The order makes a crash safe: the tombstone is written first, so a rerun or a rebuild finishes what was begun, and
nothing deleted is read again from a source that is still on disk.
"""

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from pipelines.build import finish_build, partition
from pipelines.decisions import append_decisions, read_decisions, tombstone
from pipelines.errors import PalimpsestError, Refused
from pipelines.progress import say
from pipelines.stages import STAGES, embedding_store, run_stage
from pipelines.store.builds import Build, kept
from pipelines.store.files import write_json
from pipelines.store.home import Home
from pipelines.store.log import IngestLog

# Rewritten by filter; everything after them is derived anew from what is left.
_BY_DOCUMENT = ("documents", "document_texts", "chunks", "memories")
_BY_MEMORY = ("embed_inputs", "surfaces")
_DERIVED = ("embeddings", "entities", "topics", "candidate_pairs", "relations", "versions")
_MANY_PROBES = 400


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
            return documents.filter((uri == self.document) | uri.str.starts_with(self.document + "#"))
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
        if found.is_empty() and target.tombstone not in read_decisions(home.decisions).tombstones:
            raise PalimpsestError(f"delete: nothing in home {home.path} matches; look at palimpsest query --history")
        probes = _probes(builds, target)
        say(f"delete: {found['document_id'].n_unique() if found.height else 0} document versions")
        if target.document or target.user:
            append_decisions(home.decisions, "tombstone", [target.tombstone])
        _forget_in_log(home, target)
        for build in builds:
            _rewrite(home, build, target)
        vectors = _sweep_vectors(home)
        residue = _residue(home, probes)
    counts: dict[str, Any] = {
        "documents": found["document_id"].n_unique() if found.height else 0,
        "memories": probes.memories, "vectors": vectors, "residue": residue,
        "proof": {"strings": len(probes.strings), "files": sum(1 for p in home.path.rglob("*") if p.is_file())},
    }  # fmt: skip
    if residue:
        raise Refused(f"delete: still found in {', '.join(residue[:5])}; run the same delete again")
    text = (
        f"deleted {counts['documents']} document versions, {counts['memories']} memories, {vectors} vectors\n"
        f"proof: none of {counts['proof']['strings']} texts, ids and names is in any of {counts['proof']['files']} files"
    )
    return counts | {"text": text}


def _collection_of(home: Home, document: str, collection: str | None) -> str:
    names = [c for c in home.sources if collection in (None, c)]
    holding = [c for c in names if (IngestLog(home.log / c).versions()["uri"] == document).any()]
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
    for build in builds:
        for c in build.collections:
            memories = build.table(c, "memories")
            named = target.rows(build.table(c, "documents")) if target.collection in (None, c) else memories.clear()
            going = memories.join(named, on="document_id", how="semi") if named.height else memories.clear()
            gone |= set(going["memory_id"])
            texts |= set(going["text"])
            staying |= set(memories.join(going, on="memory_id", how="anti")["text"])
    lines = {t.strip().splitlines()[0] for t in texts - staying if t.strip()}
    body = "\n".join(staying)
    distinctive = sorted((t for t in lines if len(t) >= 12 and t not in body), key=lambda t: (-len(t), t))[
        :_MANY_PROBES
    ]
    return Probes((*sorted(gone)[:_MANY_PROBES], *distinctive), len(gone))


def _forget_in_log(home: Home, target: Target) -> None:
    for name in home.sources:
        log = IngestLog(home.log / name)
        if target.collection not in (None, name):
            continue
        versions = log.versions()
        if target.document is not None:
            log.forget({target.document})
        elif target.user is not None:
            for key in versions["text_key"].drop_nulls().unique().sort():
                rows = log.text(key)
                left = rows.filter(pl.col("user_id") != target.user)
                if left.height < rows.height:
                    log.write_text(key, left.to_dicts())
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
    folder = home.sources.get(name)
    if folder is None or not folder.is_dir():
        raise PalimpsestError(f"delete: the folder of collection {name} is gone; put it back, delete again ({folder})")
    part = replace(partition(home, name, folder), build=build, base=None)
    for stage in _DERIVED:
        if build.marker(name, stage) is not None:
            run_stage(part, stage)


def _sweep_vectors(home: Home) -> int:
    keep = {h for b in kept(home) for c in b.collections for h in b.table(c, "embed_inputs")["text_hash"]}
    return embedding_store(home).compact(keep)


def _residue(home: Home, probes: Probes) -> list[str]:
    """Files of the home that hold a probe: raw bytes, and decoded tables (Parquet compresses its pages)."""
    needles = [p.encode() for p in probes.strings]
    found = []
    for path in sorted(p for p in home.path.rglob("*") if p.is_file()):
        data = path.read_bytes()
        if path.suffix == ".parquet":
            frame = pl.read_parquet(path).drop("vector", strict=False)
            data += json.dumps(frame.to_dicts(), default=str, ensure_ascii=False).encode()
        elif path.suffix == ".duckdb":
            data += _index_text(path)
        if any(n in data for n in needles):
            found.append(str(path.relative_to(home.path)))
    return found


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
