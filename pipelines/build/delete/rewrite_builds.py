"""Takes what a delete names out of a kept build: its tables are rewritten and what derives from them is made anew."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import polars as pl

from palimpsest.build.delete.probes import Probes
from palimpsest.build.delete.target import Going, Target, going
from palimpsest.build.partition import Partition
from palimpsest.build.plan import finish_build
from palimpsest.build.stages import STAGES, run_stage
from palimpsest.core.files import link
from palimpsest.core.ids import text_hash
from palimpsest.memories.documents import version_id
from palimpsest.sources.filters.erased_texts import ErasedTexts
from palimpsest.sources.filters.span_removal import TextRemoval
from palimpsest.sources.records.document_row import TextRow
from palimpsest.store.builds import BEFORE_DELETE, Build
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home

_REWRITTEN = ("documents", "chunks", "memories")
_DERIVED = ("embeddings", "entities", "topics", "candidate_pairs", "relations", "versions")
_BY_MEMORY = ("memories", "embed_inputs", "context_inputs")
_REWRITTEN_BY = "rewritten by delete"

Frames = dict[str, pl.DataFrame]


def rewrite_build(home: Home, build: Build, target: Target, probes: Probes) -> None:
    """Rewrites one kept build; a build that does not hold what goes keeps its tables."""
    for name in build.collections:
        if target.whole_collection and target.covers(name):
            shutil.rmtree(build.path / name)
        elif (parts := going(build, name, target)).documents.height or parts.memories.height:
            _rewrite_collection(home, build, name, parts)
    if not (build.path / "manifest.json").exists():
        return
    old = build.manifest
    manifest = finish_build(home, build, {})
    gate = {"status": "unjudged"} if probes.any_in(repr(old["gate"]).encode()) else old["gate"]
    # The next build must look again: what it would make is no longer what was published.
    build.write_manifest(manifest | {"fingerprints": {}, "created_at": old["created_at"], "gate": gate})


def _rewrite_collection(home: Home, build: Build, name: str, parts: Going) -> None:
    before = Build(build.path / BEFORE_DELETE)
    aside = build.path / f"{BEFORE_DELETE}.tmp"
    shutil.rmtree(aside, ignore_errors=True)
    for path in sorted((build.path / name).iterdir()):
        link(path, aside / name / path.name)
    aside.rename(before.path)
    frames = _without(build, name, parts)
    for stage in _REWRITTEN:
        marker = build.marker(name, stage)
        if marker is None:
            continue
        for table in STAGES[stage].writes:
            marker["outputs"][table] = build.write_table(name, table, frames[table])
        changed = {"key": _REWRITTEN_BY}
        if stage == "chunks" and parts.erased:
            changed["logic"] = _REWRITTEN_BY  # the next build cuts all anew: a neighbour may have lost a part
        build.write_marker(name, stage, marker | changed)
    config = CollectionConfig(**build.manifest["configs"][name])  # its folder may be gone
    base = before if all(before.marker(name, s) for s in STAGES) else None
    part = Partition(home, build, base, config, home.sources.get(name, Path()), read_decisions(home.decisions))
    for stage in _DERIVED:
        if build.marker(name, stage) is not None:
            run_stage(part, stage)
    before.path.rename(aside)  # in one step: the rewritten tables hold from here on
    shutil.rmtree(aside)


def _without(build: Build, name: str, parts: Going) -> Frames:
    """Returns the tables of the first three stages without what goes."""
    tables = [t for s in _REWRITTEN for t in STAGES[s].writes]
    frames = {t: build.table(name, t) for t in tables}
    memories = parts.memories
    if parts.erased:
        frames, cut = _blanked(name, frames, ErasedTexts(parts.erased))
        memories = pl.concat([memories, cut]).unique("memory_id")
    for table in ("documents", "document_texts", "chunks", "redactions"):
        frames[table] = frames[table].join(parts.documents, on="document_id", how="anti")
    chunk_ids = memories["chunk_ids"].explode().drop_nulls().to_list()
    frames["chunks"] = frames["chunks"].filter(~pl.col("chunk_id").is_in(chunk_ids))
    for table in _BY_MEMORY:
        frames[table] = frames[table].join(memories, on="memory_id", how="anti")
    left = set(frames["documents"]["uri"])
    sources = left | {uri.partition("#")[0] for uri in left}
    gone = [u for u in parts.documents["uri"].unique() if u not in left]
    stated = frames["document_relations"]
    frames["document_relations"] = stated.filter(~pl.col("newer_uri").is_in(gone) & ~pl.col("older_uri").is_in(gone))
    dropped = {u for uri in gone for u in (uri, uri.partition("#")[0])} - sources
    frames["rejects"] = frames["rejects"].filter(~pl.col("uri").is_in(list(dropped)))
    return frames


def _blanked(name: str, frames: Frames, erased: ErasedTexts) -> tuple[Frames, pl.DataFrame]:
    """Takes erased texts out of documents that stay; spans behind them move.

    Returns the tables, and the memories of which only a part went, or what their pronoun stands for: the next build
    cuts them anew.
    """
    columns = ("document_id", "user_id", "project_id", "uri", "session_id", "title", "text", "metadata", "segments")
    rows = frames["documents"].join(frames["document_texts"], on="document_id", how="inner")
    changed: dict[str, TextRemoval | None] = {}
    texts = {}
    for row in rows.select(columns).iter_rows(named=True):
        removal = erased.remove_from(name, cast(TextRow, row))
        if removal is None or removal.spans:
            changed[row["document_id"]] = removal
        if removal is not None and removal.spans:
            texts[row["document_id"]] = row | {"text": removal.text, "segments": removal.segments}
    ids = {old: version_id(name, row) for old, row in texts.items()}
    gone = [old for old, removal in changed.items() if removal is None]
    out = dict(frames)
    out["document_texts"] = _with(frames["document_texts"], texts, ("text", "segments"))
    hashes = {old: {"content_hash": text_hash(row["text"])} for old, row in texts.items()}
    out["documents"] = _with(frames["documents"], hashes, ("content_hash",))
    cut: set[str] = set()
    for table in ("chunks", "memories"):
        spans = {}
        key = "chunk_id" if table == "chunks" else "memory_id"
        affected = frames[table].filter(pl.col("document_id").is_in(list(ids)))
        fields = affected.select(key, "document_id", "char_start", "char_end", "refers_to")
        for item, old, start, end, refers_to in fields.iter_rows():
            removal = changed[old]
            assert removal is not None
            moved = removal.new_offset(start), removal.new_offset(end)
            spans[item] = {"char_start": moved[0], "char_end": moved[1]}
            unsaid = refers_to is not None and refers_to not in removal.text
            if table == "memories" and (unsaid or moved[1] - moved[0] != end - start):
                cut.add(item)
        out[table] = _with(frames[table], spans, ("char_start", "char_end"), key)
    renamed = ids | dict.fromkeys(gone)
    for table, column in (
        ("document_texts", "document_id"),
        ("documents", "document_id"),
        ("documents", "superseded_by"),
        ("chunks", "document_id"),
        ("memories", "document_id"),
        ("redactions", "document_id"),
    ):
        if renamed:
            out[table] = out[table].with_columns(pl.col(column).replace(renamed))
    out["redactions"] = _redactions(out["redactions"], frames["redactions"], changed)
    for table in ("document_texts", "documents", "chunks", "memories", "redactions"):
        out[table] = out[table].filter(pl.col("document_id").is_not_null())
    order = ["document_id", "is_current", "seq"]
    out["documents"] = out["documents"].sort(order).unique("document_id", keep="last", maintain_order=True)
    out["document_texts"] = out["document_texts"].unique("document_id", keep="first").sort("document_id")
    return out, frames["memories"].filter(pl.col("memory_id").is_in(list(cut)))


def _redactions(renamed: pl.DataFrame, before: pl.DataFrame, changed: dict[str, TextRemoval | None]) -> pl.DataFrame:
    """Moves what was redacted of texts; where its document lost that span, it goes too."""
    rows = []
    for row, old in zip(renamed.to_dicts(), before["document_id"], strict=True):
        removal, start = changed.get(old), row["char_start"]
        if removal is not None and start is not None:
            if any(a <= start < b for a, b in removal.spans):
                continue
            row["char_start"] = removal.new_offset(start)
            row["line"] = removal.text.count("\n", 0, row["char_start"]) + 1
        rows.append(row)
    return pl.DataFrame(rows, schema=renamed.schema)


def _with(
    frame: pl.DataFrame, values: Mapping[str, Mapping[str, object]], columns: tuple[str, ...], key: str = "document_id"
) -> pl.DataFrame:
    """Returns a table in which the columns of some rows have other values; `values` maps the key to them."""
    if not values:
        return frame
    schema = {key: frame.schema[key], **{c: frame.schema[c] for c in columns}}
    rows = [{key: k, **{c: v[c] for c in columns}} for k, v in values.items()]
    return frame.update(pl.DataFrame(rows, schema=schema), on=key, how="left")
