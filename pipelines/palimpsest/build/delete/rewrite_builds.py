"""Removes what a delete names from a kept build: rows of its tables are removed, and derived tables are made again.

Which rows those are, and which stages run again, is what the stages declare (`on_delete`, `removed_by`).
"""

import shutil
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import polars as pl

from palimpsest.build.delete.cut_texts import Frames, cut_texts
from palimpsest.build.delete.probes import Probes
from palimpsest.build.delete.target import MatchedRows, Target, match_rows, with_formed
from palimpsest.build.finish import finish_build, once_context
from palimpsest.build.run_stage import run_stage
from palimpsest.build.stage import Removed, Stage, StageContext
from palimpsest.build.stages import collection_stages, once_stages
from palimpsest.core.files import link
from palimpsest.memories.formed import stated_memories
from palimpsest.memories.vector_store import collection_spaces
from palimpsest.sources.filters.erased_texts import ErasedTexts
from palimpsest.store.builds import BEFORE_DELETE, ONCE, Build
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home
from palimpsest.store.manifest import BuildManifest

_REWRITTEN = "rewritten by delete"


def rewrite_build(home: Home, build: Build, target: Target, probes: Probes) -> None:
    """Rewrites one kept build; a build that has none of it keeps its tables.

    The tables as they were stay beside it until its manifest says what the new ones are: a delete that is killed
    between the two leaves no build that looks damaged.
    """
    manifest, edited = build.manifest, read_decisions(home.decisions).edited
    removed = [name for name in build.collections if target.whole_collection and target.covers(name)]
    others = [name for name in build.collections if name not in removed]
    matched = {name: rows for name in others if not (rows := match_rows(build, name, target, edited)).is_empty}
    before = _keep_before(build, [*removed, *matched, ONCE]) if removed or matched else None
    for name in removed:
        shutil.rmtree(build.path / name)
    for name, rows in matched.items():
        _rewrite_collection(home, build, name, rows, manifest)
    _finish(home, build, manifest, probes)
    if before is not None:
        aside = _aside(build)
        before.rename(aside)  # in one step: from here on the rewritten tables are the build's
        shutil.rmtree(aside)


def _finish(home: Home, build: Build, manifest: BuildManifest, probes: Probes) -> None:
    """Makes what all collections share again, and writes the manifest."""
    for stage in once_stages():
        if stage.on_delete != "keep" and build.record(ONCE, stage.name) is not None:
            run_stage(once_context(home, build, None), stage.name)
    if not build.is_finished:
        return
    rewritten = finish_build(replace(home, embedder=manifest.embedder or None), build, BuildManifest())
    gate = manifest.gate
    if probes.any_in(repr(gate).encode()):
        gate = {"status": "unjudged"}
    # No fingerprints, so that the next build reads the sources: it would make something else than was published.
    build.write_manifest(replace(rewritten, fingerprints={}, created_at=manifest.created_at, gate=gate))


def _keep_before(build: Build, folders: list[str]) -> Path:
    """Links the files of folders of a build into a folder beside them, whole as soon as it has its name."""
    before, aside = build.path / BEFORE_DELETE, _aside(build)
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    for name in folders:
        for path in sorted((build.path / name).glob("*")):
            link(path, aside / name / path.name)
    aside.rename(before)
    return before


def _aside(build: Build) -> Path:
    return build.path / f"{BEFORE_DELETE}.tmp"


def _rewrite_collection(home: Home, build: Build, name: str, matched: MatchedRows, manifest: BuildManifest) -> None:
    before = Build(build.path / BEFORE_DELETE)
    stages = {rule: [s for s in collection_stages() if s.on_delete == rule] for rule in ("remove_rows", "recompute")}
    _remove_rows(build, name, stages["remove_rows"], matched)
    config = CollectionConfig.model_validate(manifest.configs[name])  # its folder may be gone
    space = collection_spaces(build)[name]  # the home may have another embedder by now
    config = config.model_copy(update={"embedder": space.embedder})
    base = before if all(before.record(name, s.name) for s in collection_stages()) else None
    folder = home.sources.get(name, Path())
    context = StageContext(home, build, base, config, folder, read_decisions(home.decisions))
    for stage in stages["recompute"]:
        if build.record(name, stage.name) is not None:
            run_stage(context, stage.name)


def _remove_rows(build: Build, name: str, stages: list[Stage], matched: MatchedRows) -> None:
    frames, cut = _remove_matched(build, name, stages, matched)
    for stage in stages:
        record = build.record(name, stage.name)
        if record is None:
            continue
        outputs = {t: build.write_table(name, t, frames[t]) for t in stage.tables}
        rows = {f"{t}_rows": float(frames[t].height) for t in stage.tables}
        # After a cut, the next build cuts all chunks again: a neighbor may have lost a part.
        makes_chunks = any("chunk" in t.removed_by.values() for t in stage.writes)
        code_key = _REWRITTEN if cut and makes_chunks else record.code_key
        rewritten = replace(
            record,
            outputs={**record.outputs, **outputs},
            numbers={**record.numbers, **rows},
            key=_REWRITTEN,
            code_key=code_key,
        )
        build.write_record(name, stage.name, rewritten)


def _remove_matched(build: Build, name: str, stages: list[Stage], matched: MatchedRows) -> tuple[Frames, bool]:
    """Returns the tables of stages without what is deleted, and whether texts of retained documents were cut."""
    tables = [t for s in stages for t in s.writes]
    frames = {t.name: build.table(name, t.name) for t in tables}
    memories = matched.memories
    if matched.erased:
        frames, partial = cut_texts(name, frames, tables, ErasedTexts(matched.erased))
        memories = with_formed(pl.concat([memories, partial]).unique("memory_id"), build.table(name, "memories"))
    removed = _removed_ids(matched, memories, frames["documents"])
    for table in tables:
        frame = frames[table.name]
        rows = [_is_retained(frame, column, removed[what]) for column, what in table.removed_by.items()]
        frames[table.name] = frame.filter(*(row.fill_null(True) for row in rows))
    return frames, bool(matched.erased)


def _is_retained(frame: pl.DataFrame, column: str, ids: Collection[str]) -> pl.Expr:
    """Returns whether a column names none of the removed ids; of a list, no element may."""
    if isinstance(frame.schema[column], pl.List):
        named = pl.col(column).list.set_intersection(pl.lit(sorted(ids), dtype=pl.List(pl.String)))
        return named.list.len() == 0
    return ~pl.col(column).is_in(list(ids))


def _removed_ids(
    matched: MatchedRows, memories: pl.DataFrame, all_documents: pl.DataFrame
) -> dict[Removed, Collection[str]]:
    documents = matched.documents
    ids = set(documents["document_id"])
    left = set(all_documents.filter(~pl.col("document_id").is_in(list(ids)))["uri"])
    uris = set(documents["uri"]) - left
    sources = {u for uri in uris for u in (uri, uri.partition("#")[0])} - left
    return {
        "document": ids,
        "chunk": set(stated_memories(memories)["chunk_ids"].explode(empty_as_null=True).drop_nulls()),
        "memory": set(memories["memory_id"]),
        "uri": uris,
        "source": (sources - {uri.partition("#")[0] for uri in left}) | matched.rejected,
    }
