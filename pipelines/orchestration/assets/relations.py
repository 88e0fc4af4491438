"""Group `relations`: which memories replace, extend or follow from which, and so what is latest."""

from typing import Any

import dagster as dg

from palimpsest.orchestration.assets.glue import OWNERS, materialize_stage, stage_asset
from palimpsest.orchestration.assets.memories import embeddings, entities, memories
from palimpsest.orchestration.assets.resources import HomeResource
from palimpsest.orchestration.assets.sources import documents
from palimpsest.relations.classify.model.model_cache import default_model
from palimpsest.relations.classify.offline_labeler import labeler_code


@stage_asset("candidate_pairs", group_name="relations", kinds={"parquet"}, deps=[memories, embeddings, entities])
def candidate_pairs(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """For each memory, the few older ones of its scope that it may update, extend or derive from."""
    return materialize_stage(context, home)


@dg.asset(group_name="labels", kinds={"scikitlearn", "numpy"}, owners=OWNERS, code_version=labeler_code())
def offline_labeler() -> dg.MaterializeResult:
    """The offline labeler, trained on the checked-in labels; the same labels and code train nothing again."""
    model = default_model()
    metadata: dict[str, Any] = {
        "labeler": model.key,
        "temperature": model.temperature,
        "least_update": model.least_update,
    }
    return dg.MaterializeResult(metadata=metadata | model.card, data_version=dg.DataVersion(model.key))


@stage_asset(
    "relations", group_name="relations", kinds={"parquet", "python"}, deps=[memories, candidate_pairs, offline_labeler]
)
def relations(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """Each candidate pair labelled UPDATE, EXTEND, DERIVE or NONE, with confidence and evidence."""
    return materialize_stage(context, home)


@stage_asset("versions", group_name="relations", kinds={"parquet"}, deps=[documents, memories, relations])
def versions(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """What is latest, from when until when each memory held, and what replaced it: derived, never edited."""
    return materialize_stage(context, home)
