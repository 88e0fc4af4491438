"""The end of a build: unchanged collections taken over, stages that run once, the index, and the manifest."""

import datetime as dt
import hashlib
import shutil
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from palimpsest.core.code import code_hash
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import say
from palimpsest.core.ids import GENERAL, SCOPE, JsonObject
from palimpsest.entities.collection_shape import strategy_for
from palimpsest.memories.embedders import collection_spaces, indexed_spaces, minilm_space
from palimpsest.memories.languages import other_languages
from palimpsest.memories.recency import is_undated
from palimpsest.pipeline.plan import Plan, logged_fingerprint, stage_context, tail_code_key
from palimpsest.pipeline.run_stage import run_stage
from palimpsest.pipeline.stage import Digest, StageContext
from palimpsest.pipeline.stages import STAGES, collection_stages, indexed_tables, once_stages
from palimpsest.pipeline.stages import tables as declared_tables
from palimpsest.query.reader import Reader, open_index
from palimpsest.query.request.types import Scope
from palimpsest.query.standing import StoredAnswer, read_stored, write_stored
from palimpsest.relations.labelers.choose_labeler import configured_labeler, labeler_key
from palimpsest.store.builds import ONCE, Build, BuildTables, publish, published, staged, sweep
from palimpsest.store.collection_config import schema_fields, settings_or_none
from palimpsest.store.decisions import Decisions, MemoryDecision, count_decisions, read_decisions
from palimpsest.store.embeddings import recorded_embedder
from palimpsest.store.event_log import observed
from palimpsest.store.home import Home
from palimpsest.store.manifest import BuildManifest, ChangesRecord, CollectionSettings, IndexSettings, StageRecord
from palimpsest.store.standing_questions import StandingQuestion, load_standing_questions

# The digest of a build: what its tables say, comparable between machines, runs and versions of Palimpsest.

_SLICE_ROWS = 65_536


def digest(tables: Mapping[str, pl.DataFrame]) -> str:
    """Returns 32 hex digits over the sorted rows of a build: no floats, times, build numbers, usage or vectors."""
    h = hashlib.blake2b(digest_size=16)
    for table in declared_tables():
        if table.digest is None:
            continue
        whole = tables[table.name]
        if table.digest.unless_empty and whole.is_empty():
            continue
        frame = _digested(whole, table.digest).sort(pl.all(), nulls_last=True)
        del whole
        h.update(table.name.encode() + b"\0")
        # As one CSV file, a slice at a time: that of a million memories is 400 MB.
        for number, rows in enumerate(frame.iter_slices(_SLICE_ROWS) if frame.height else [frame]):
            h.update(rows.write_csv(null_value="\x00", include_header=not number).encode())
    return h.hexdigest()


def _digested(frame: pl.DataFrame, digest: Digest) -> pl.DataFrame:
    columns = [c for c, dtype in frame.schema.items() if not (dtype.is_float() or dtype.is_temporal())]
    columns = [c for c in columns if c not in digest.skipped and (not digest.columns or c in digest.columns)]
    columns = [c for c in columns if c not in digest.unless or not _is_always(frame[c], digest.unless[c])]
    if not digest.with_project:
        columns = [c for c in columns if c != "project_id"]
    elif "project_id" in columns:  # the general memory was null before projects were scopes
        frame = frame.with_columns(pl.col("project_id").replace({GENERAL: None}))
    return frame.select(columns).with_columns(
        pl.col(c).list.join("\x1f") for c in columns if frame.schema[c] == pl.List(pl.String)
    )


def _is_always(column: pl.Series, value: bool) -> bool:
    return bool((column.fill_null(value) == value).all())


# What a build changed since the published one, by document.

Tables = Mapping[str, pl.DataFrame]

_DOCUMENT = [*SCOPE, "uri"]
COMPARED = ("documents", "memories", "versions")
"""The tables that two builds are compared by."""
_MAX_NAMED = 1_000  # documents that the manifest names; the rest are counted


def changes_by_document(before: Tables, after: Tables) -> pl.DataFrame:
    """Returns a row for each document whose content or whose current memories differ, sorted by document.

    Columns: the scope's, uri; `change` is added, edited, removed, or related where only other documents' words
    changed what is true of it; `gained` and `lost` count memories that became latest and ceased to be.

    Args:
        before: documents, memories and versions of the published build.
        after: the same of the build that follows it.
    """
    old, new = (_current(t) for t in (before, after))
    both = old.join(new, on=_DOCUMENT, how="full", coalesce=True, suffix="_new")
    gained = _latest(after).join(_latest(before), on="memory_id", how="anti").group_by(_DOCUMENT).len("gained")
    lost = _latest(before).join(_latest(after), on="memory_id", how="anti").group_by(_DOCUMENT).len("lost")
    change = (
        pl.when(pl.col("versions_new").is_null())
        .then(pl.lit("removed"))
        .when(pl.col("versions").is_null())
        .then(pl.lit("added"))
        .when(pl.col("versions") != pl.col("versions_new"))
        .then(pl.lit("edited"))
        .otherwise(pl.lit("related"))
    )
    return (
        both.join(gained, on=_DOCUMENT, how="full", coalesce=True)
        .join(lost, on=_DOCUMENT, how="full", coalesce=True)
        .select(*_DOCUMENT, change.alias("change"), pl.col("gained", "lost").fill_null(0).cast(pl.Int64))
        .filter((pl.col("change") != "related") | (pl.col("gained") > 0) | (pl.col("lost") > 0))
        .sort(_DOCUMENT)
    )


def changes_record(before: Tables, after: Tables) -> ChangesRecord:
    """Returns the changes as the manifest keeps them: counts of each kind, and the first 1,000 documents."""
    rows = changes_by_document(before, after)
    counts = dict(sorted(rows["change"].value_counts().iter_rows()))
    return {"counts": counts, "documents": rows.head(_MAX_NAMED).to_dicts()}


def _current(tables: Tables) -> pl.DataFrame:
    """Returns the current versions of each document, as one text that differs when any of its sessions does."""
    return (
        tables["documents"]
        .filter("is_current")
        .group_by(_DOCUMENT)
        .agg(versions=pl.col("document_id").sort().str.join(" "))
    )


def _latest(tables: Tables) -> pl.DataFrame:
    source = tables["documents"].select("document_id", "uri")
    latest = tables["versions"].filter("is_latest").select("memory_id")
    memories = tables["memories"].join(latest, on="memory_id", how="semi")
    return memories.join(source, on="document_id", how="left").select("memory_id", *_DOCUMENT)


_INDEX_MODULES = ("palimpsest.index.write_index",)
_QUERY_MODULES = ("palimpsest.query.reader",)
_LABELS = ("UPDATE", "EXTEND", "DERIVE", "NONE")
_NOT_STORED = "not_stored_"


def finish_staged(home: Home) -> BuildManifest:
    """Completes the staged build: takes unchanged collections over, writes the index and the manifest; returns it."""
    say("stage index")
    complete_collections(home)
    base = published(home)
    for stage in once_stages():
        run_stage(once_context(home, staged(home), base), stage.name)
    if base is None:
        _check_something_was_read(staged(home))
    with observed(home.path, "stage", staged(home).build_id, stage="index") as event:
        manifest = finish_build(home, staged(home), base.manifest if base else BuildManifest(), base)
        event |= {"documents": manifest.documents, "memories": manifest.memories, "rejects": manifest.rejects}
    return manifest


def complete_collections(home: Home) -> None:
    """Takes the collections that the staged build does not make again over from the published build."""
    build, base = staged(home), published(home)
    sweep(home)
    build.drop_unfinished()
    for name in build.collections:
        if any(build.record(name, stage.name) is None for stage in collection_stages()):
            shutil.rmtree(build.path / name)  # begun by a run that was stopped, and not wanted since
    if base is None:
        return
    for name in base.collections:
        if name not in build.collections:
            build.adopt(base, name)
            for stage in collection_stages():
                if record := base.record(name, stage.name):
                    build.write_record(name, stage.name, record.linked("adopted"))


def is_adopted(records: Iterable[StageRecord]) -> bool:
    """Returns whether a collection with these records was taken over whole from the build before."""
    return {record.cache_status for record in records} == {"adopted"}


def once_context(home: Home, build: Build, base: Build | None) -> StageContext:
    """Returns what a stage that runs once runs on: all collections of a build."""
    return StageContext(home, build, base, None, Path(), read_decisions(home.decisions))


def _check_something_was_read(build: Build) -> None:
    """Checks that a first build has more than rejects.

    Raises:
        PalimpsestError: it has rejects and nothing else.
    """
    tables = build.tables(["documents", "rejects"])
    if tables["documents"].is_empty() and tables["rejects"].height:
        first = tables["rejects"].row(0, named=True)
        raise PalimpsestError(
            f"none of the sources could be read, so nothing is published; first {first['uri']}: {first['reason'][:120]}"
        )


def finish_build(
    home: Home,
    build: Build,
    earlier: BuildManifest,
    base: Build | None = None,
    unchanged: Collection[str] | None = None,
) -> BuildManifest:
    """Writes the index and the manifest of a build whose tables are complete; returns the manifest.

    Args:
        home: the home.
        build: the build.
        earlier: has the fingerprints of collections that are adopted or whose folder is gone.
        base: the build that this one follows; the manifest lists the changes from it.
        unchanged: collections whose tables follow from the decisions that `earlier` lists; by default those that are
            adopted from `base`.
    """
    from palimpsest.index.write_index import write_index

    started = time.perf_counter()
    tables = BuildTables(build, indexed_tables())
    settings = index_settings(home, build)
    vectors = indexed_spaces(home, build)
    index_code = code_hash(_INDEX_MODULES)
    earlier_index = base.index if base is not None and base.manifest.code.get("index") == index_code else None
    stats = write_index(tables, vectors, build.index, {"build_id": build.build_id, **settings}, earlier_index)
    answer_standing_questions(home, build, base)
    decisions = read_decisions(home.decisions)
    records = _records(build)
    adopted = {c for c in build.collections if base is not None and is_adopted(records[c].values())}
    compared, relations = build.tables(COMPARED), tables["relations"].select("relation_id", "collection", "label")
    memories = compared["memories"]
    applied = _applied_decisions(decisions, earlier, adopted if unchanged is None else unchanged, relations, memories)
    labels = Counter(relations["label"])
    manifest = BuildManifest(
        build_id=build.build_id,
        created_at=dt.datetime.now(dt.UTC).isoformat(),
        fingerprints={
            c: None  # so that the next build labels the rest
            if any(r.is_unpaid for r in records[c].values())
            else earlier.fingerprints.get(c)
            if c in adopted  # whatever sources and settings are by now
            else logged_fingerprint(home, c, decisions) or earlier.fingerprints.get(c)
            for c in build.collections
        },
        tail_code_key=tail_code_key(build.collections),
        digest=digest(tables),
        documents=compared["documents"].filter("is_current").height,
        chunks=tables["chunks"].height,
        memories=memories.height,
        relations={label: labels.get(label, 0) for label in _LABELS},
        retired=compared["versions"].filter(~pl.col("is_latest")).height,
        decisions=count_decisions(home.decisions)[0],
        undone=applied[0],
        decided=applied[1],
        rejects=tables["rejects"].height,
        undated=memories.filter(is_undated()).height,
        languages=other_languages(tables["memories"]),
        redactions=tables["redactions"].height,
        not_stored=_not_stored(records),
        stages=records,
        settings=settings,
        configs=_configs(home, build),
        labeler=f"{configured_labeler()} {labeler_key()}",
        embedder=recorded_embedder(home),
        code={name: stage.code for name, stage in STAGES.items()}
        | {"index": index_code, "query": code_hash(_QUERY_MODULES)},
        index={"seconds": time.perf_counter() - started, **stats.__dict__},
        gate={"status": "unjudged"},
        changes=changes_record(base.tables(COMPARED), compared) if base and _is_comparable(base) else None,
    )
    build.write_manifest(manifest)
    return manifest


def _is_comparable(base: Build) -> bool:
    """Returns whether no table that builds are compared by was damaged, and removed, in the build before."""
    return all(base.table_path(name, table).exists() for name in base.collections for table in COMPARED)


def _applied_decisions(
    decisions: Decisions,
    earlier: BuildManifest,
    unchanged: Collection[str],
    relations: pl.DataFrame,
    memories: pl.DataFrame,
) -> tuple[list[str], list[list[str]]]:
    """Returns which relations are undone in a build, and what is decided of its memories.

    What was decided since `earlier` takes effect in the collections that were made since, not in those `unchanged`.
    """
    then = pl.col("collection").is_in(list(unchanged)) & pl.lit(earlier.undone is not None)
    old, new = set(relations.filter(then)["relation_id"]), set(relations.filter(~then)["relation_id"])
    undone = decisions.undone & new | old.intersection(earlier.undone or ())
    known, old = set(memories["memory_id"]), set(memories.filter(then)["memory_id"])
    of_memories = [d for d in decisions.memories if d.memory_id not in old]
    of_memories += [d for d in map(MemoryDecision.from_list, earlier.decided or ()) if d.memory_id in old]
    return sorted(undone), [d.to_list() for d in of_memories if {d.memory_id, *filter(None, [d.by])} <= known]


def _records(build: Build) -> dict[str, dict[str, StageRecord]]:
    names = [*build.collections, *([ONCE] if once_stages() else [])]
    found = {n: {s: build.record(n, s) for s in STAGES} for n in names}
    return {n: {s: r for s, r in records.items() if r is not None} for n, records in found.items()}


def index_settings(home: Home, build: Build) -> IndexSettings:
    """Returns what the index must know of each collection: unit, default user, strategy, weights, which is default."""
    current = published(home)
    known = current.manifest.settings if current else IndexSettings()
    collections: dict[str, CollectionSettings] = {}
    weights: dict[str, dict[str, float]] = {}
    for name in build.collections:
        if config := settings_or_none(home.folder_of(name)):
            collections[name] = {"user_id": config.user_id, "default": config.default, "unit": config.unit}
            if config.reflects:
                collections[name]["has_formed"] = True
            if fields := schema_fields(config.metadata_schema):
                collections[name]["fields"] = fields
            weights[name] = config.weights.model_dump(exclude_none=True)
        else:
            collections[name] = known.get("collections", {}).get(name, {})
            weights[name] = known.get("weights", {}).get(name, {})
    strategies = {name: strategy_for(build.table(name, "memories")) for name in collections}
    spaces = collection_spaces(build)
    return {
        "model_id": ", ".join(sorted({s.name for s in spaces.values()})) or minilm_space().name,
        "collections": collections,
        "strategies": strategies,
        "weights": weights,
        "spaces": {name: space.to_json() for name, space in sorted(spaces.items())},
    }


def _configs(home: Home, build: Build) -> dict[str, JsonObject]:
    """Returns the settings that each collection was built with, so that a build outlives their folders."""
    current = published(home)
    known = {**(current.manifest.configs if current else {}), **build.manifest.configs}
    for name in build.collections:
        if config := settings_or_none(home.folder_of(name)):
            known[name] = config.model_dump()
    return {name: known[name] for name in build.collections}


def _not_stored(records: dict[str, dict[str, StageRecord]]) -> dict[str, int]:
    """Returns how many turns the sources have that are not stored, by reason."""
    counts: Counter[str] = Counter()
    for stages in records.values():
        for record in stages.values():
            for name, n in record.numbers.items():
                if name.startswith(_NOT_STORED):
                    counts[name.removeprefix(_NOT_STORED)] += int(n)
    return dict(sorted(counts.items()))


# Whether a staged build may be published, what its tail recorded, and the switch that readers see.


def publish_build(home: Home) -> str:
    """Makes the staged build the published one; returns its id.

    Raises:
        PalimpsestError: nothing is staged or the staged build is unfinished.
    """
    say("stage published")
    build = staged(home)
    if not build.is_finished:
        current = published(home)
        raise PalimpsestError(
            f"home {home.path}: no finished build is staged, so there is nothing to publish "
            f"({f'readers see build {current.build_id}' if current else 'nothing was published yet'}); "
            "run palimpsest build, or the job rebuild"
        )
    with observed(home.path, "publish", build.build_id):
        publish(home, build)
    return build.build_id


def refusal(manifest: BuildManifest) -> list[str]:
    """Returns why a staged build may not be published: the invariants it breaks, else the gate's reasons."""
    if manifest.violations:
        return list(manifest.violations)
    return list(manifest.gate.get("reasons", [])) if manifest.gate.get("status") == "failed" else []


def record_tail(build: Build, name: str, seconds: float, **fields: Any) -> None:
    """Adds the wall time of a step after the index, and fields, to the manifest of the build."""
    manifest = build.manifest
    build.write_manifest(replace(manifest, tail_seconds={**manifest.tail_seconds, name: seconds}, **fields))


def drop_unplanned(home: Home, plan: Plan) -> None:
    """Removes from the staged build what the plan does not make again: it was begun from other sources."""
    sweep(home)
    for name in staged(home).collections:
        if name not in plan.changed:
            shutil.rmtree(staged(home).path / name)


def stage_build(home: Home, plan: Plan, max_cost: float | None = None) -> None:
    """Runs every stage of a plan in plain calls and finishes the build; nothing is judged or published.

    `max_cost` is the money that a language model may cost; None means no limit.

    Raises:
        PalimpsestError: a collection cannot be built.
    """
    for error in plan.broken.values():
        raise error
    home.create()
    home.remember_sources(plan.collections)
    drop_unplanned(home, plan)
    for name in plan.changed:
        for stage in collection_stages():
            run_stage(stage_context(home, name, plan.collections[name], max_cost), stage.name)
    finish_staged(home)


def run_without_dagster(home: Home, plan: Plan) -> Build:
    """Builds and publishes in plain calls, without the gate: for throw-away homes of suites, benches and tests."""
    stage_build(home, plan)
    publish_build(home)
    current = published(home)
    assert current is not None
    return current


# Answers the standing questions of the collections of a build, from its index.


class _Owned(NamedTuple):
    """A question to be answered for one user."""

    collection: str
    user_id: str
    question: StandingQuestion


def answer_standing_questions(home: Home, build: Build, base: Build | None) -> int:
    """Searches the standing questions of every collection for every user, and stores which memories answer them.

    A build that has answers already, which a delete rewrites, answers the same questions again; so does one whose
    folder of a collection is gone, with those of the build before.

    Args:
        home: the home, whose `sources` are the folders.
        build: the build; its index is written.
        base: the build that this one follows.

    Returns:
        The number of answers.
    """
    rewritten = read_stored(build.path)
    known = rewritten or (read_stored(base.path) if base else {})
    folders = {} if rewritten else {n: f for n in build.collections if (f := home.sources.get(n)) and f.is_dir()}
    loaded = {}
    for name, folder in folders.items():
        with suppress(PalimpsestError):  # the plan says why; the questions of the build before are answered
            loaded[name] = load_standing_questions(folder)
    if not known and not any(loaded.values()):
        return 0
    with open_index(build.index) as reader:
        scopes: dict[tuple[str, str], list[Scope]] = {}
        for scope in reader.scopes():
            scopes.setdefault((scope.collection, scope.user_id), []).append(scope)
        owned = [_Owned(*owner, q) for owner in scopes for q in loaded.get(owner[0], ()) if q.user in (None, owner[1])]
        owned += [
            _Owned(a.collection, a.user_id, StandingQuestion(id=a.question_id, question=a.question, k=a.k))
            for a in known.values()
            if a.collection not in loaded and (a.collection, a.user_id) in scopes
        ]
        answers = [_answer(reader, o, scopes[o.collection, o.user_id]) for o in owned]
    write_stored(build.path, answers)
    return len(answers)


def _answer(reader: Reader, owned: _Owned, scopes: list[Scope]) -> StoredAnswer:
    question = owned.question
    found = reader.search(question.question, scopes, k=question.k)
    return StoredAnswer(
        collection=owned.collection,
        user_id=owned.user_id,
        question_id=question.id,
        question=question.question,
        k=question.k,
        memory_ids=tuple(m.memory_id for m in found.memories),
        relevance=round(max((m.relevance for m in found.memories), default=0.0), 6),
    )
