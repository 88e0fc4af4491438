"""Group `labels`: the labeler that stage `relations` uses."""

from dataclasses import asdict
from typing import Any

import dagster as dg

from palimpsest.orchestration.assets.resources import OWNERS
from palimpsest.relations.classify.model.shipped_model import default_model
from palimpsest.relations.classify.offline_labeler import labeler_code


@dg.asset(group_name="labels", kinds={"onnx", "numpy"}, owners=OWNERS, code_version=labeler_code())
def offline_labeler() -> dg.MaterializeResult:
    """The trained labeler that comes with Palimpsest, with its figures on pairs that were held out."""
    model = default_model()
    figures: dict[str, Any] = {
        "labeler": model.key,
        "temperature": model.temperature,
        "least_update": model.update_threshold,
    }
    return dg.MaterializeResult(metadata=figures | asdict(model.held_out), data_version=dg.DataVersion(model.key))
