"""Group `sources`: what was read, and the spans it is cut into."""

import dagster as dg

from palimpsest.orchestration.assets.glue import materialize_stage, stage_asset
from palimpsest.orchestration.assets.resources import HomeResource

_REJECTS = dg.AssetCheckSpec(
    "rejects",
    asset="documents",
    description="No more sources were rejected than max_rejected in collection.yaml allows (a tenth).",
)


@stage_asset("documents", group_name="sources", kinds={"parquet", "polars"}, check_specs=[_REJECTS])
def documents(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """Every version of every source that was read and not deleted; what cannot be read is a reject with its reason."""
    return materialize_stage(context, home)


@stage_asset("chunks", group_name="sources", kinds={"parquet"}, deps=[documents])
def chunks(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """Spans of the documents with exact offsets, heading, page and speaker: what citations point at."""
    return materialize_stage(context, home)
