"""The assets of the stages, made from their declarations: what they depend on, their columns, checks and figures."""

from typing import Any

import dagster as dg
import polars as pl

from palimpsest.build.delete.due import delete_due
from palimpsest.build.finish import complete_collections, once_context
from palimpsest.build.plan import check_collection, stage_context
from palimpsest.build.run_stage import run_stage
from palimpsest.build.stage import Stage, StageContext
from palimpsest.build.stages import STAGES, upstream
from palimpsest.core.errors import PalimpsestError
from palimpsest.orchestration.assets.resources import (
    LOCK_WAIT_S,
    OWNERS,
    POOL,
    HomeResource,
    collections,
    pool_of,
    retried,
    run_of,
    tag_run,
)
from palimpsest.store.builds import published, staged
from palimpsest.store.event_log import run_scope
from palimpsest.store.home import Home
from palimpsest.store.manifest import StageRecord
from palimpsest.store.tables import SCHEMAS, description

_MAX_ROWS = 200
_TYPES: dict[object, str] = {pl.String: "string", pl.Int64: "int", pl.Float64: "float", pl.Boolean: "bool"}


def stage_asset(stage: Stage) -> dg.AssetsDefinition:
    """Returns the asset of a stage: partitioned by collection unless the stage runs once, versioned by its code."""

    @dg.asset(
        name=stage.name,
        description=stage.description,
        group_name=stage.group,
        kinds=set(stage.kinds),
        owners=OWNERS,
        tags={POOL: pool_of(stage.name)},
        pool=pool_of(stage.name),
        deps=upstream(stage),
        partitions_def=collections if stage.runs == "by_collection" else None,
        code_version=stage.code,
        metadata={f"schema of {t}": dg.MetadataValue.table_schema(table_schema(t)) for t in stage.tables[1:]},
        check_specs=[dg.AssetCheckSpec(c.name, asset=stage.name, description=c.description) for c in stage.checks],
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
    home = resource.home()
    with run_scope(run_of(context.run)), retried(context), home.lock(LOCK_WAIT_S):
        stage_on = _stage_context(context, resource, home, stage)
        tag_run(context, stage_on.build.build_id, "" if stage.runs == "once" else stage_on.name)
        record = run_stage(stage_on, stage.name)
    context.log.info(f"{stage.name}: {record.cache_status} in {record.seconds:.2f} s")
    checks = [
        dg.AssetCheckResult(
            check_name=check.name,
            passed=(result := check.run(stage_on)).passed,
            severity=dg.AssetCheckSeverity.WARN,
            metadata=dict(result.figures),
        )
        for check in stage.checks
    ]
    return dg.MaterializeResult(
        metadata=_metadata(stage, stage_on, record), data_version=dg.DataVersion(record.key), check_results=checks
    )


def _stage_context(context: dg.AssetExecutionContext, resource: HomeResource, home: Home, stage: Stage) -> StageContext:
    if stage.runs == "once":
        complete_collections(home)
        return once_context(home, staged(home), published(home))
    name = context.partition_key
    folder = home.sources.get(name)
    if folder is None:
        raise PalimpsestError(f"collection {name}: this home does not know its folder; run palimpsest build")
    if stage.prepare:
        check_collection(folder)
        delete_due(home)  # what is past its retention is deleted before sources are read
    return stage_context(home, name, folder, resource.money, resource.allow_removals)


def _metadata(stage: Stage, context: StageContext, record: StageRecord) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        **record.numbers,
        **record.work.__dict__,
        "seconds": record.seconds,
        "how": record.cache_status,
        "build": context.build.build_id,
    }
    if stage.tables:
        metadata["dagster/row_count"] = int(record.numbers[f"{stage.tables[0]}_rows"])
        metadata["dagster/column_schema"] = table_schema(stage.tables[0])
    return metadata | {t: _table_rows(t, context.table(t)) for t in stage.shown_tables}


def _table_rows(table: str, frame: pl.DataFrame) -> dg.TableMetadataValue:
    """Returns a small table for the UI, the first 200 rows."""
    records = [dg.TableRecord(row) for row in frame.head(_MAX_ROWS).to_dicts()]
    return dg.MetadataValue.table(records, schema=table_schema(table))


stage_assets = [stage_asset(stage) for stage in STAGES.values()]
