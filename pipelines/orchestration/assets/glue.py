"""Between Dagster and `build.stages`: runs a stage for a partition and reports it, the same numbers every run."""

from typing import Any

import dagster as dg
import polars as pl

from palimpsest.build.delete.due import delete_due
from palimpsest.build.plan import partition
from palimpsest.build.stages import STAGES, run_stage
from palimpsest.core.code import code_hash
from palimpsest.core.errors import PalimpsestError
from palimpsest.orchestration.assets.resources import HomeResource
from palimpsest.store.column_descriptions import description
from palimpsest.store.tables import SCHEMAS

OWNERS = ["team:palimpsest"]
LOCK_WAIT_S = 3600.0
_SHOWN_REJECTS = 200
_TYPES: dict[object, str] = {pl.String: "string", pl.Int64: "int", pl.Float64: "float", pl.Boolean: "bool"}

collections = dg.DynamicPartitionsDefinition(name="collections")


def stage_asset(name: str, **options: Any) -> Any:
    """Returns the decorator of a stage's asset: partitioned by collection, versioned by its code."""
    stage = STAGES[name]
    return dg.asset(
        name=name,
        partitions_def=collections,
        owners=OWNERS,
        code_version=code_hash(stage.modules),
        metadata={f"schema of {t}": dg.MetadataValue.table_schema(table_schema(t)) for t in stage.writes[1:]},
        **options,
    )


def table_schema(table: str) -> dg.TableSchema:
    """Returns a table's columns for the UI, each with what it holds."""
    return dg.TableSchema(
        [dg.TableColumn(c, _TYPES.get(t, str(t)), description(table, c)) for c, t in SCHEMAS[table].items()]
    )


def materialize_stage(context: dg.AssetExecutionContext, resource: HomeResource) -> dg.MaterializeResult:
    """Runs the stage that the asset is named after and reports rows, columns, seconds and work."""
    name = context.asset_key.path[-1]
    home = resource.home()
    folder = home.sources.get(context.partition_key)
    if folder is None:
        raise PalimpsestError(
            f"collection {context.partition_key}: this home does not know its folder; run palimpsest build"
        )
    with home.lock(LOCK_WAIT_S):
        if name == next(iter(STAGES)):
            delete_due(home)
        part = partition(home, context.partition_key, folder, resource.money, resource.allow_removals)
        marker = run_stage(part, name)
    context.log.info(f"{name}: {marker['how']} in {marker['seconds']:.2f} s")
    metadata: dict[str, Any] = {
        **marker["numbers"],
        **marker["work"],
        "seconds": marker["seconds"],
        "how": marker["how"],
        "build": part.build.build_id,
    }
    if writes := STAGES[name].writes:
        metadata["dagster/row_count"] = int(marker["numbers"][f"{writes[0]}_rows"])
        metadata["dagster/column_schema"] = table_schema(writes[0])
    checks = []
    if "rejects" in writes:
        metadata["rejects"] = rejects_table(part.table("rejects"))
        checks = [rejects_check(part.table("rejects"), part.log.current().height, part.config.max_rejected)]
    return dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(marker["key"]), check_results=checks)


def rejects_check(rejects: pl.DataFrame, sources: int, limit: float) -> dg.AssetCheckResult:
    """Returns the check that at most a share of `limit` of the sources has a reject."""
    rejected = rejects["uri"].n_unique()
    return dg.AssetCheckResult(
        check_name="rejects",
        passed=rejected <= limit * max(sources, rejected),
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"rejected": rejected, "sources": sources, "max_rejected": limit},
    )


def rejects_table(rejects: pl.DataFrame) -> dg.TableMetadataValue:
    """Returns the rejected sources as a table for the UI, the first 200."""
    records = [dg.TableRecord(r) for r in rejects.head(_SHOWN_REJECTS).to_dicts()]
    return dg.MetadataValue.table(records, schema=table_schema("rejects"))
