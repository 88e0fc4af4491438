"""Group `memories`: the units of retrieval, their vectors, and the entities and topics that connect them."""

import dagster as dg

from palimpsest.orchestration.assets.glue import materialize_stage, stage_asset
from palimpsest.orchestration.assets.resources import HomeResource
from palimpsest.orchestration.assets.sources import chunks, documents


@stage_asset("memories", group_name="memories", kinds={"parquet", "polars"}, deps=[documents, chunks])
def memories(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """One memory for each chunk, turn or statement: what is embedded, searched by words, related and versioned."""
    return materialize_stage(context, home)


@stage_asset("embeddings", group_name="memories", kinds={"parquet", "huggingface"}, deps=[memories])
def embeddings(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """A vector for each text not seen before; texts with a vector in the shared store are not computed again."""
    return materialize_stage(context, home)


@stage_asset("entities", group_name="memories", kinds={"parquet"}, deps=[documents, memories])
def entities(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """Names of people, places, projects and products, and where each is mentioned, resolved inside a scope."""
    return materialize_stage(context, home)


@stage_asset("topics", group_name="memories", kinds={"parquet"}, deps=[documents, memories, embeddings, entities])
def topics(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """Phrases that the texts use and that cover what they mean, broad ones above others, and what each memory holds."""
    return materialize_stage(context, home)
