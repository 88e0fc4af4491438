"""Group `labels`: the labeler that stage `relations` uses."""

import dagster as dg

from palimpsest.orchestration.assets.resources import OWNERS
from palimpsest.relations.classify.encoder.calibration import configured_lines, shipped_calibration
from palimpsest.relations.classify.offline_labeler import labeler_code, shipped_key


@dg.asset(group_name="labels", kinds={"onnx", "numpy"}, owners=OWNERS, code_version=labeler_code())
def offline_labeler() -> dg.MaterializeResult:
    """The labeler that comes with Palimpsest, with the probabilities from which it retires and disputes."""
    lines = configured_lines(shipped_calibration())._asdict()
    return dg.MaterializeResult(metadata=lines, data_version=dg.DataVersion(shipped_key()))
