"""How a stage is run: made where its key is new, taken over from the published build where that has the same key.

The key is the hash of the stage's inputs, settings and code. Where only the inputs changed, the stage gets its earlier
tables and makes the difference. A table is used only where its checksum is that of when it was written; where the
published build's is damaged, an older build may have it, or what it can be made from. Dagster, the command line and
tests all run stages through `run_stage`.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict

from palimpsest.core.files import link, say
from palimpsest.core.ids import content_id
from palimpsest.pipeline.build_clock import timed_stage
from palimpsest.pipeline.stage import PreviousTable, Stage, StageContext
from palimpsest.pipeline.stages import STAGES, collection_stages, producer
from palimpsest.store.builds import ONCE, Build, kept_builds
from palimpsest.store.event_log import observed
from palimpsest.store.manifest import CacheStatus, StageRecord


def run_stage(context: StageContext, name: str, prepare: bool = True) -> StageRecord:
    """Runs one stage of a context, or links what the published build has; returns what was recorded.

    Args:
        context: what the stage runs on.
        name: of the stage.
        prepare: bring its input up to date first; otherwise it is made from the record as that is.
    """
    stage = STAGES[name]
    say(f"stage {name}")
    with observed(context.home.path, "stage", context.build.build_id, stage=name, collection=context.name) as event:
        with timed_stage(context.name, name):
            record = _run(context, stage, prepare)
        event |= {"cache": record.cache_status, "seconds": round(record.seconds, 3), **_figures(stage, record)}
    return record


def run_from_record(context: StageContext) -> None:
    """Runs every stage of a collection on its log as that is: its sources are not read, and may be gone."""
    for stage in collection_stages():
        run_stage(context, stage.name, prepare=False)


def _figures(stage: Stage, record: StageRecord) -> dict[str, float]:
    """Returns the rows of a stage's first table, and what of its work is not 0."""
    work = {**asdict(record.work), "cost": record.numbers.get("cost", 0.0)}
    figures = {"rows": record.numbers.get(f"{stage.tables[0]}_rows", 0.0)} if stage.tables else {}
    return figures | {name: n for name, n in work.items() if n and record.cache_status == "done"}


def _run(context: StageContext, stage: Stage, prepare: bool) -> StageRecord:
    started = time.perf_counter()
    if stage.prepare and prepare:
        stage.prepare(context)
    code_key = content_id(stage.code, repr(stage.settings(context)), repr(stage.environment()), *stage.schemas)
    key = content_id(code_key, *(h for t in stage.reads for h in _input_hashes(context, t)))
    found, status = _find_result(context, stage, key)
    if found is None:
        return _compute(context, stage, key, code_key, started)
    record = found.linked(status, time.perf_counter() - started)
    context.build.write_record(context.name, stage.name, record)
    return record


def _find_result(context: StageContext, stage: Stage, key: str) -> tuple[StageRecord | None, CacheStatus]:
    """Returns the record of the same result in this build, else in the published one, whose tables are then linked."""
    name, build = context.name, context.build
    if stage.is_intact and not stage.is_intact(context):
        return None, "done"
    if found := _matching(build, name, stage, key):
        return found, "kept"
    for base in _bases(context):
        if found := _matching(base, name, stage, key):
            build.remove_record(name, stage.name)
            for table in stage.tables:
                link(base.table_path(name, table), build.table_path(name, table))
            return found, "linked"
    return None, "done"


def _bases(context: StageContext) -> Iterator[Build]:
    """Yields the build that this one follows and, where a table of the collection is damaged there, older builds."""
    if (base := context.base) is None:
        return
    yield base
    if not _is_whole(base, context.name):
        yield from (b for b in reversed(kept_builds(context.home)) if b.build_id < base.build_id and b.is_finished)


def _is_whole(build: Build, name: str) -> bool:
    records = [build.record(name, s.name) for s in STAGES.values() if (s.runs == "once") == (name == ONCE)]
    return all(record is not None and build.has_outputs(name, record) for record in records)


def _matching(build: Build, name: str, stage: Stage, key: str) -> StageRecord | None:
    record = build.record(name, stage.name)
    if record is None or record.key != key or record.is_unpaid:
        return None
    return record if build.has_outputs(name, record) else None


def _compute(context: StageContext, stage: Stage, key: str, code_key: str, started: float) -> StageRecord:
    name, build = context.name, context.build
    previous = _previous_tables(context, stage, code_key)
    build.remove_record(name, stage.name)
    result = stage.run(context, previous)
    outputs = {t: build.write_table(name, t, result.tables[t]) for t in stage.tables}
    rows = {f"{t}_rows": float(result.tables[t].height) for t in stage.tables}
    record = StageRecord(
        key, code_key, outputs, result.work, rows | dict(result.numbers), time.perf_counter() - started, "done"
    )
    build.write_record(name, stage.name, record)
    return record


def _previous_tables(context: StageContext, stage: Stage, code_key: str) -> PreviousTable | None:
    """Returns a reader of earlier tables, where the same code made them and none is missing or damaged."""
    name = context.name
    for base in _bases(context):
        record = base.record(name, stage.name)
        # A difference to half a build would be wrong.
        if record is not None and record.code_key == code_key and _is_whole(base, name):
            return _reader(base, name)
    return None


def _reader(base: Build, name: str) -> PreviousTable:
    if name == ONCE:
        return lambda table: base.tables([table])[table]
    return lambda table: base.table(name, table)


def _input_hashes(context: StageContext, table: str) -> list[str]:
    stage, build = producer(table), context.build
    names = build.collections if context.name == ONCE and stage.runs == "by_collection" else [context.name]
    records = [build.record(name, stage.name) for name in names]
    if None in records:
        raise KeyError(f"{table}: stage {stage.name} has not run in build {build.build_id}")
    return [record.outputs[table] for record in records if record is not None]
