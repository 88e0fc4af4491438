"""Erases what a delete names from log, builds, decisions, ledger, vectors, usage log, run history and Neo4j."""

import json
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import polars as pl

from palimpsest.core.files import link
from palimpsest.core.ids import text_hash
from palimpsest.lm.client import Ledger
from palimpsest.memories.documents import version_id
from palimpsest.memories.embedders import collection_spaces
from palimpsest.memories.formed import stated_memories
from palimpsest.neo4j_graph.identity import served_id
from palimpsest.pipeline.backup import remove_restores
from palimpsest.pipeline.deletion.collect import DeletionSet, erase_inbox, erase_pages, erase_settings
from palimpsest.pipeline.deletion.delete_result import Erased
from palimpsest.pipeline.deletion.proof import Probes
from palimpsest.pipeline.deletion.run_history import delete_runs
from palimpsest.pipeline.deletion.target import MatchedRows, Target, is_named, match_rows, with_formed
from palimpsest.pipeline.finish import finish_build, once_context
from palimpsest.pipeline.housekeeping import sweep_vectors
from palimpsest.pipeline.repair_home import remove_damaged
from palimpsest.pipeline.run_stage import run_stage
from palimpsest.pipeline.stage import Removed, Stage, StageContext, Table
from palimpsest.pipeline.stages import collection_stages, once_stages
from palimpsest.query.readings import READINGS_FILE
from palimpsest.sources.deletions import ErasedTexts
from palimpsest.sources.extracted import TextRow
from palimpsest.sources.ingest import apply_deletions, update_stored_documents
from palimpsest.sources.text_edits import TextRemoval
from palimpsest.store.builds import BEFORE_DELETE, ONCE, Build, count_decisions_again, kept_builds
from palimpsest.store.collection_config import CollectionConfig, load_collection
from palimpsest.store.decisions import append_decisions, append_erased, forget_overrides, read_decisions, tombstone
from palimpsest.store.event_log import erase_events
from palimpsest.store.graph_decisions import forget_graph_decisions
from palimpsest.store.home import Home, erase_service_logs
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.manifest import BuildManifest
from palimpsest.store.proposals import forget_proposals
from palimpsest.store.usage_log import keep_reads

# Cuts erased texts out of retained documents: their ids change with their text, and spans after the cut move.

Frames = dict[str, pl.DataFrame]
_FIELDS = ("document_id", "user_id", "project_id", "uri", "session_id", "title", "text", "metadata", "segments")


def cut_texts(
    collection: str, frames: Frames, tables: Sequence[Table], erased: ErasedTexts
) -> tuple[Frames, pl.DataFrame]:
    """Removes erased texts from retained documents.

    Args:
        collection: the collection's name.
        frames: the tables by name.
        tables: their declarations.
        erased: what was erased.

    Returns:
        The tables, and the memories that lost a part of their text, or the text that their pronoun refers to: the next
        build forms them again.
    """
    rows = frames["documents"].join(frames["document_texts"], on="document_id", how="inner")
    changed: dict[str, TextRemoval | None] = {}
    texts: dict[str, dict[str, Any]] = {}
    for row in rows.select(_FIELDS).iter_rows(named=True):
        removal = erased.remove_from(collection, cast(TextRow, row))
        if removal is None or removal.spans:
            changed[row["document_id"]] = removal
        if removal is not None and removal.spans:
            texts[row["document_id"]] = row | {"text": removal.text, "segments": removal.segments}
    hashes = {old: {"content_hash": text_hash(row["text"])} for old, row in texts.items()}
    out = frames | {
        "document_texts": _update(frames["document_texts"], texts, ("text", "segments")),
        "documents": _update(frames["documents"], hashes, ("content_hash",)),
    }
    partial: set[str] = set()
    for table in tables:
        if table.has_spans:
            spans, cut = _moved_spans(frames[table.name], table.key[0], changed)
            out[table.name] = _update(frames[table.name], spans, ("char_start", "char_end"), table.key[0])
            partial |= cut if table.key == ("memory_id",) else set()
    ids = {old: version_id(collection, texts[old]) if old in texts else None for old in changed}
    _rename_documents(out, tables, ids)
    out["redactions"] = _move_redactions(out["redactions"], frames["redactions"], changed)
    for table in tables:
        if "document_id" in out[table.name].columns:
            out[table.name] = out[table.name].filter(pl.col("document_id").is_not_null())
    order = ["document_id", "is_current", "seq"]
    out["documents"] = out["documents"].sort(order).unique("document_id", keep="last", maintain_order=True)
    out["document_texts"] = out["document_texts"].unique("document_id", keep="first").sort("document_id")
    return out, frames["memories"].filter(pl.col("memory_id").is_in(list(partial)))


def _moved_spans(
    frame: pl.DataFrame, key: str, changed: Mapping[str, TextRemoval | None]
) -> tuple[dict[str, dict[str, int]], set[str]]:
    """Returns the spans of rows of cut documents where they are now, and the ids of rows that lost a part."""
    spans: dict[str, dict[str, int]] = {}
    partial: set[str] = set()
    if "refers_to" not in frame.columns:
        frame = frame.with_columns(refers_to=pl.lit(None, dtype=pl.String))
    fields = frame.select(key, "document_id", "char_start", "char_end", "refers_to")
    for row_id, document_id, start, end, refers_to in fields.iter_rows():
        if (removal := changed.get(document_id)) is None:
            continue
        moved = removal.new_offset(start), removal.new_offset(end)
        spans[row_id] = {"char_start": moved[0], "char_end": moved[1]}
        lost_referent = refers_to is not None and refers_to not in removal.text
        if lost_referent or moved[1] - moved[0] != end - start:
            partial.add(row_id)
    return spans, partial


def _rename_documents(frames: Frames, tables: Sequence[Table], ids: dict[str, str | None]) -> None:
    """Gives changed documents their new ids wherever a table names them; the ids of removed ones become null.

    A version that a removed one superseded names the next that is left.
    """
    if not ids:
        return
    following = dict(frames["documents"].select("document_id", "superseded_by").iter_rows())

    def next_left(document_id: str | None) -> str | None:
        while document_id in ids and ids[document_id] is None:
            document_id = following.get(document_id)
        return ids.get(document_id, document_id) if document_id is not None else None

    later = {old: next_left(old) for old in ids}
    for table in tables:
        named = {r.column for r in table.references if r.tables == ("documents",)}
        if table.key == ("document_id",):
            named.add("document_id")
        frames[table.name] = frames[table.name].with_columns(
            pl.col(c).replace(later if c == "superseded_by" else ids) for c in sorted(named)
        )


def _move_redactions(
    renamed: pl.DataFrame, before: pl.DataFrame, changed: Mapping[str, TextRemoval | None]
) -> pl.DataFrame:
    """Moves redactions with their texts; one whose span was cut is removed."""
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


def _update(
    frame: pl.DataFrame, values: Mapping[str, Mapping[str, object]], columns: tuple[str, ...], key: str = "document_id"
) -> pl.DataFrame:
    """Returns a table in which the columns of some rows have other values; `values` maps the key to them."""
    if not values:
        return frame
    schema = {key: frame.schema[key], **{c: frame.schema[c] for c in columns}}
    rows = [{key: k, **{c: v[c] for c in columns}} for k, v in values.items()]
    return frame.update(pl.DataFrame(rows, schema=schema), on=key, how="left")


# Removes what a delete names from a kept build: rows of its tables are removed, and derived tables are made again.
#
# Which rows those are, and which stages run again, is what the stages declare (`on_delete`, `removed_by`).

_REWRITTEN = "rewritten by delete"


def rewrite_build(home: Home, build: Build, target: Target, probes: Probes) -> None:
    """Rewrites one kept build; a build that has none of it keeps its tables.

    The tables as they were stay beside it until its manifest says what the new ones are: a delete that is killed
    between the two leaves no build that looks damaged.
    """
    manifest, decisions = build.manifest, read_decisions(home.decisions)
    removed = [name for name in build.collections if target.whole_collection and target.covers(name)]
    others = [name for name in build.collections if name not in removed]
    matched = {name: rows for name in others if not (rows := match_rows(build, name, target, decisions)).is_empty}
    before = _keep_before(build, [*removed, *matched, ONCE]) if removed or matched else None
    for name in removed:
        shutil.rmtree(build.path / name)
    for name, rows in matched.items():
        _rewrite_collection(home, build, name, rows, manifest)
    _finish(home, build, manifest, [name for name in others if name not in matched], probes)
    if before is not None:
        aside = _aside(build)
        before.rename(aside)  # in one step: from here on the rewritten tables are the build's
        shutil.rmtree(aside)


def _finish(home: Home, build: Build, manifest: BuildManifest, unchanged: list[str], probes: Probes) -> None:
    """Makes what all collections share again, and writes the manifest."""
    for stage in once_stages():
        if stage.on_delete != "keep" and build.record(ONCE, stage.name) is not None:
            run_stage(once_context(home, build, None), stage.name)
    if not build.is_finished:
        return
    same_embedder = replace(home, embedder=manifest.embedder or None)
    rewritten = finish_build(same_embedder, build, manifest, unchanged=unchanged)
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


# They quote texts and questions, or name users; the next build, or a notebook, writes its own.
_QUOTING_FILES = ("builds/*/report.*", f"builds/*/{READINGS_FILE}", "notes/*", "programs/*/*", "health/report.html")


def check_server(home: Home) -> None:
    """Checks, before anything is deleted, that the home can be deleted from Neo4j as well.

    Raises:
        PalimpsestError: the home was loaded into Neo4j, and no server answers.
    """
    if served_id(home.path) is not None:  # the driver takes a second to import
        from palimpsest.neo4j_graph.loader import check_server

        check_server(home)


def write_tombstones(home: Home, target: Target, found: DeletionSet) -> None:
    """Writes the tombstones that exclude what is deleted from later builds."""
    places = pl.DataFrame(
        sorted(found.documents, key=str),
        orient="row",
        schema=dict.fromkeys(("collection", "user_id", "uri", "session_id", "project_id"), pl.String()),
    )
    append_erased(home.decisions, found.erased)
    append_decisions(home.decisions, "tombstone", sorted(target.tombstones(places)))


def erase(home: Home, target: Target, found: DeletionSet, probes: Probes) -> Erased:
    """Removes a target from a home; returns what was removed next to tables."""
    remove_restores(home.path)
    operations = erase_inbox(home, target, found.inbox, found.pending)
    pages = erase_pages(home, target, found.pages, found.parted_pages)
    erase_settings(home, target, probes)
    _erase_from_logs(home, target)
    # Before the builds are written again: their nodes apply these decisions.
    scope = (target.collection, target.user, target.project)
    forget_graph_decisions(home.decisions, probes, *scope, target.whole_scope)
    for path in (p for pattern in _QUOTING_FILES for p in home.path.glob(pattern)):
        path.unlink()  # before the manifests of the builds list their files again
    for build in kept_builds(home):
        rewrite_build(home, build, target, probes)
    forget_overrides(home.decisions, probes)
    count_decisions_again(home)
    remove_damaged(home)
    forget_proposals(home.path, probes, *scope, target.whole_scope)
    ledger = 0
    if home.lm_ledger.exists():
        answers = Ledger(home.lm_ledger)
        ledger = answers.forget(probes)
        answers.close()
    vectors = sweep_vectors(home)
    runs = delete_runs(home, probes, target.collection if target.whole_collection else None)
    reads = keep_reads(home.path, _memory_ids(home))
    erase_events(home.path, lambda lines: _events_of(lines, target, probes))
    erase_service_logs(home.path, probes.rows_in)
    return Erased(
        vectors, ledger, runs, *_erase_from_server(home, probes), reads=reads, operations=operations, pages=pages
    )


def _erase_from_server(home: Home, probes: Probes) -> tuple[int | None, int]:
    """Returns the writes to Neo4j, None where the home was never loaded, and how many bytes were searched there."""
    if served_id(home.path) is None:
        return None, 0
    from palimpsest.neo4j_graph.loader import forget

    searched = 0

    def has_probe(data: bytes) -> bool:
        nonlocal searched
        searched += len(data)
        return probes.any_in(data)

    return forget(home, has_probe), searched


def _erase_from_logs(home: Home, target: Target) -> None:
    """Removes the target from the logs; a source of which nothing is left is removed, and its hash excluded."""
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
        emptied = _erase_former(log, target)
        emptied += apply_deletions(log, name, decisions)[1]
        append_decisions(home.decisions, "tombstone", (tombstone("source", name, *source) for source in emptied))
    if target.whole_collection:
        home.forget_source(str(target.collection))


def _erase_former(log: IngestLog, target: Target) -> list[tuple[str, str]]:
    """Removes what has a former name of the document, which no tombstone names: another may be called that now.

    Returns:
        (uri, content hash) of the sources of which nothing is left.
    """
    if target != Target(target.collection, target.document) or not (former := target.document_names[1:]):
        return []

    def without_former(row: Mapping[str, object]) -> Mapping[str, object] | None:
        return None if is_named(former, str(row["uri"]), cast("str | None", row["session_id"])) else row

    return log.rewrite(without_former)


def _events_of(lines: list[str], target: Target, probes: Probes) -> list[int]:
    """Returns which lines of the event log contain a name of what is deleted: collections are the only names in it."""
    name = f'"collection": {json.dumps(target.collection)}' if target.whole_collection else None
    named = {i for i, line in enumerate(lines) if name is not None and name in line}
    return sorted(named.union(probes.rows_in(lines)))


def _memory_ids(home: Home) -> set[str]:
    """Returns the ids of the memories of all kept builds."""
    return {
        i
        for build in kept_builds(home)
        for name in build.collections
        for i in build.table(name, "memories")["memory_id"]
    }
