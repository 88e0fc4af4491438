"""The assets of the stages, made from their declarations: what they depend on, their columns, checks and figures."""

import datetime as dt
from typing import Any

import dagster as dg
import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.orchestration.resources import (
    FIRST_STAGE,
    OWNERS,
    HomeResource,
    check_readable,
    collections,
    log_warnings,
    pool_of,
    pooled,
    rounded,
    step,
    tag_run,
    unreadable_collections,
)
from palimpsest.pipeline.build_clock import BuildClock, folder_size
from palimpsest.pipeline.build_warnings import (
    KINDS,
    REJECTED,
    Kind,
    Warned,
    collection_warnings,
    warning_lines,
)
from palimpsest.pipeline.deletion.target import delete_due
from palimpsest.pipeline.finish import complete_collections, once_context
from palimpsest.pipeline.plan import stage_context
from palimpsest.pipeline.run_stage import run_stage
from palimpsest.pipeline.stage import Stage, StageContext
from palimpsest.pipeline.stages import STAGES, upstream
from palimpsest.pipeline.summary import CollectionFreshness, collection_freshness, overdue_hours
from palimpsest.relations.labelers.calibration import configured_lines, shipped_calibration
from palimpsest.relations.labelers.offline_labeler import labeler_code, shipped_key
from palimpsest.store.builds import published, staged
from palimpsest.store.home import Home
from palimpsest.store.manifest import StageRecord
from palimpsest.store.tables import SCHEMAS, description

_MAX_ROWS = 200
_MAX_FIGURES = 4  # beside rows, seconds, build and how
_TYPES: dict[object, str] = {pl.String: "string", pl.Int64: "int", pl.Float64: "float", pl.Boolean: "bool"}


def stage_asset(stage: Stage) -> dg.AssetsDefinition:
    """Returns the asset of a stage: partitioned by collection unless the stage runs once, versioned by its code."""

    @dg.asset(
        name=stage.name,
        description=stage.description,
        group_name=stage.group,
        kinds=set(stage.kinds),
        **pooled(pool_of(stage.name)),
        deps=[*upstream(stage), *(["web_pages"] if stage.prepare else [])],
        partitions_def=collections if stage.runs == "by_collection" else None,
        code_version=stage.code,
        metadata={f"schema of {t}": dg.MetadataValue.table_schema(table_schema(t)) for t in stage.tables[1:]},
        check_specs=[
            dg.AssetCheckSpec(k.check, asset=stage.name, description=k.passes) for k in KINDS if k.stage == stage.name
        ],
    )
    def run(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
        return _materialize(context, home, stage)

    return run


def table_schema(table: str) -> dg.TableSchema:
    """Returns a table's columns for the UI, each with its meaning."""
    return dg.TableSchema(
        [dg.TableColumn(c, _TYPES.get(t, str(t)), description(table, c)) for c, t in SCHEMAS[table].items()]
    )


def _materialize(context: dg.AssetExecutionContext, resource: HomeResource, stage: Stage) -> dg.MaterializeResult:
    with step(context, resource) as home:
        stage_on = _stage_context(context, resource, home, stage)
        tag_run(context, stage_on.build.build_id, "" if stage.runs == "once" else stage_on.name)
        record = run_stage(stage_on, stage.name)
    place = "" if stage.runs == "once" else _clock(home, stage_on).place(stage_on.name, stage.name, 1.0, record.seconds)
    context.log.info(f"{stage.name}: {record.cache_status} in {record.seconds:.2f} s; {place}".removesuffix("; "))
    checks = [_warn(context, stage_on, kind) for kind in KINDS if kind.stage == stage.name]
    return dg.MaterializeResult(
        metadata=_metadata(stage, stage_on, record), data_version=dg.DataVersion(record.key), check_results=checks
    )


def _warn(context: dg.AssetExecutionContext, stage_on: StageContext, kind: Kind) -> dg.AssetCheckResult:
    """Returns a check that warns, of all collections, and writes what this one has to the run's log and tags."""
    home, base, name = stage_on.home, stage_on.base, stage_on.name
    found = kind.of(home, stage_on.build, name)
    log_warnings(context, warning_lines(found), collection_warnings(home, stage_on.build, name) if found else [])
    others = [kind.of(home, base, other) for other in base.collections if other != name] if base else []
    every = [*found, *(warned for of_other in others for warned in of_other)]
    return dg.AssetCheckResult(
        check_name=kind.check,
        passed=not every,
        severity=dg.AssetCheckSeverity.ERROR if _is_too_many(stage_on, kind, found) else dg.AssetCheckSeverity.WARN,
        description="\n".join(warning_lines(every)) or None,
        metadata={"number": len(every)},
    )


def _is_too_many(stage_on: StageContext, kind: Kind, found: list[Warned]) -> bool:
    """Returns whether a larger share of the sources is rejected than `max_rejected` of collection.yaml allows."""
    rejected = {warned.source for warned in found} if kind is REJECTED else set()
    return len(rejected) > stage_on.config.max_rejected * max(stage_on.log.current().height, len(rejected))


def _clock(home: Home, context: StageContext) -> BuildClock:
    """Returns the clock of a run, which makes one collection."""
    return BuildClock(home, {context.name: folder_size(context.folder)})


def _stage_context(context: dg.AssetExecutionContext, resource: HomeResource, home: Home, stage: Stage) -> StageContext:
    if stage.runs == "once":
        complete_collections(home)
        return once_context(home, staged(home), published(home))
    name = context.partition_key
    folder = home.sources.get(name)
    if folder is None:
        raise PalimpsestError(f"collection {name}: this home does not know its folder; run palimpsest build")
    if stage.prepare:
        check_readable(name, folder)
        delete_due(home)  # what is past its retention is deleted before sources are read
    return stage_context(home, name, folder, resource.money, resource.allow_removals)


def _metadata(stage: Stage, context: StageContext, record: StageRecord) -> dict[str, Any]:
    rows = f"{stage.tables[0]}_rows" if stage.tables else ""
    others = {**record.work.__dict__, **record.numbers}
    shown = [name for name, n in others.items() if n and name != rows][:_MAX_FIGURES]
    metadata: dict[str, Any] = {"how": record.cache_status, "build": context.build.build_id}
    metadata |= rounded({"seconds": record.seconds} | {name: others[name] for name in shown})
    if rows:
        metadata["dagster/row_count"] = int(record.numbers[rows])
        metadata["dagster/column_schema"] = table_schema(stage.tables[0])
    return metadata | {t: _table_rows(t, context.table(t)) for t in stage.shown_tables}


def _table_rows(table: str, frame: pl.DataFrame) -> dg.TableMetadataValue:
    """Returns a small table for the UI, the first 200 rows."""
    records = [dg.TableRecord(row) for row in frame.head(_MAX_ROWS).to_dicts()]
    return dg.MetadataValue.table(records, schema=table_schema(table))


stage_assets = [stage_asset(stage) for stage in STAGES.values()]


# How old what is published may be: a policy that Dagster evaluates, and a check of each collection.

_FAIL_AFTER = 3  # times the hours after which it warns


def freshness_of_builds() -> dg.FreshnessPolicy:
    """Returns the policy of the published build: it warns after PALIMPSEST_OVERDUE_HOURS, and fails after three times.

    Raises:
        PalimpsestError: PALIMPSEST_OVERDUE_HOURS is no whole number.
    """
    warn = dt.timedelta(hours=overdue_hours())
    return dg.FreshnessPolicy.time_window(fail_window=_FAIL_AFTER * warn, warn_window=warn)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dg.asset_check(asset="published", description="Every collection was confirmed within its `overdue_hours`.")
def fresh_collections(home: HomeResource) -> dg.AssetCheckResult:
    """Warns where a collection was neither built nor found unchanged for longer than it may be."""
    found = collection_freshness(home.home(), _now())
    overdue = [f.collection for f in found if f.is_overdue]
    return dg.AssetCheckResult(
        passed=not overdue,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"overdue: {', '.join(overdue)}" if overdue else None,
        metadata={"collections": len(found), "overdue": len(overdue), "hours": dg.MetadataValue.md(_table(found))},
    )


@dg.asset_check(asset=FIRST_STAGE, description="Folder, settings and questions of every collection can be read.")
def readable(home: HomeResource) -> dg.AssetCheckResult:
    """Fails where a collection cannot be read; the sensor `unreadable_collections` reports it too."""
    causes = unreadable_collections(home.home())
    return dg.AssetCheckResult(passed=not causes, description="\n".join(causes) or None)


def _table(found: list[CollectionFreshness]) -> str:
    rows = [f"| {f.collection} | {'-' if f.hours is None else f'{f.hours:.1f}'} | {f.most_hours} |" for f in found]
    return "\n".join(["| collection | hours since it was confirmed | at most |", "|---|---|---|", *rows])


# What stages read that no build makes: the pages that `crawl_sites` stores, and the labeler that is installed.

web_pages = dg.AssetSpec(
    "web_pages",
    group_name="sources",
    kinds={"python"},
    owners=OWNERS,
    description="Pages of the sites of sources.yaml, as the job `crawl_sites` stored them where they were due.",
)
offline_labeler = dg.AssetSpec(
    "offline_labeler",
    group_name="labels",
    kinds={"onnx", "numpy"},
    owners=OWNERS,
    code_version=labeler_code(),
    description="The labeler of relations where no language model is set: its files are part of the installation.",
    metadata=configured_lines(shipped_calibration())._asdict() | {"version": shipped_key()},
)


# The asset `month_figures`: what the published build has of each collection and month.


@dg.asset(group_name="serving", kinds={"polars"}, owners=OWNERS, deps=["published"])
def month_figures(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """Memories of each collection and month of the published build, how many are superseded, R@5 of their questions."""  # noqa: DOC501 (the docstring is the description in the UI)
    from palimpsest_eval.runs.home_metrics import month_figures as figures_of

    build = published(home.home())
    if build is None:
        raise dg.Failure("nothing is published; run the job rebuild, or palimpsest build", allow_retries=False)
    tag_run(context, build.build_id)
    found = {name: figures_of(build, name) for name in build.collections}
    columns = "| collection | month | memories | latest | superseded | questions | R@5 |\n|---|---|---|---|---|---|---|"
    rows = [
        f"| {name} | {month:%Y-%m} | {f.memories} | {f.latest} | {f.superseded} | {f.questions} |"
        f" {'' if f.recall is None else f'{f.recall:.3f}'} |"
        for name, months in found.items()
        for month, f in months.items()
    ]
    return dg.MaterializeResult(
        metadata={
            "months": dg.MetadataValue.md("\n".join([columns, *rows])),
            "dagster/row_count": len(rows),
            "build": build.build_id,
        }
    )
