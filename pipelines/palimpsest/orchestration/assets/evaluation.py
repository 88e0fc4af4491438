"""Group `evaluation`: every suite and golden set measured, one partition each, with its history of metrics."""

import datetime as dt
import os
from pathlib import Path

import dagster as dg

from palimpsest.core.code import code_hash
from palimpsest.core.errors import PalimpsestError
from palimpsest.orchestration.assets.resources import EMBEDDER, OWNERS, POOL, HomeResource, retried
from palimpsest.relations.classify.encoder.calibration import configured_lines, shipped_calibration
from palimpsest.relations.classify.offline_labeler import labeler_code, shipped_key
from palimpsest.store.home import data_folder

suites = dg.DynamicPartitionsDefinition(name="suites")
GOLDEN = "golden-"
_WEEK = dt.timedelta(days=7)


def known_suites() -> dict[str, Path]:
    """Returns what can be measured, by partition: golden sets of the project, and the folders of PALIMPSEST_SUITES."""
    data = data_folder()
    golden = {f"{GOLDEN}{p.stem}": p for p in sorted((data / "golden").glob("*.jsonl"))}
    found = {name: p for name, p in golden.items() if (data / "corpora" / p.stem).is_dir()}
    root = os.environ.get("PALIMPSEST_SUITES")
    folders = sorted(p for p in Path(root).iterdir() if (p / "queries.jsonl").is_file()) if root else []
    return found | {p.name: p for p in folders}


@dg.asset(
    group_name="evaluation",
    kinds={"python"},
    owners=OWNERS,
    tags={POOL: EMBEDDER},
    pool=EMBEDDER,
    partitions_def=suites,
    code_version=code_hash(("palimpsest_eval.runs.suite_runs",)),
    freshness_policy=dg.FreshnessPolicy.time_window(fail_window=2 * _WEEK, warn_window=_WEEK + dt.timedelta(days=1)),
)
def suite_metrics(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """R@5, nDCG@10, recall after packing and latency on one suite or golden set, built apart and cached by content."""  # noqa: DOC501 (the docstring is the description in the UI)
    from palimpsest_eval.runs.suite_runs import BUDGET_TOKENS, measure

    path = known_suites().get(context.partition_key)
    if path is None:
        raise PalimpsestError(
            f"suite {context.partition_key}: not found; set PALIMPSEST_SUITES to the folder of suites"
        )
    with retried(context):
        done = measure(path, None, "auto", BUDGET_TOKENS, None)
    context.log.info(f"{done.suite}: R@5 {done.metrics['R@5']:.3f} over {done.queries} queries")
    types = "\n".join(
        f"| {kind} | {means['queries']} | {means['R@5']:.3f} | {means['packed_recall']:.3f} |"
        for kind, means in done.by_type.items()
    )
    return dg.MaterializeResult(
        metadata={
            **{name: float(value) for name, value in sorted(done.metrics.items())},
            **{name: float(value) for name, value in sorted((done.quality or {}).items())},
            **{f"{p}_ms": float(v) for p, v in done.latency_ms.to_json().items()},
            "queries": done.queries,
            "memories": int(str((done.build or {})["memories"])),
            "by_type": dg.MetadataValue.md(f"| type | queries | R@5 | packed recall |\n|---|---|---|---|\n{types}"),
        }
    )


# Group `labels`: the labeler that stage `relations` uses.


@dg.asset(group_name="labels", kinds={"onnx", "numpy"}, owners=OWNERS, code_version=labeler_code())
def offline_labeler() -> dg.MaterializeResult:
    """The labeler that comes with Palimpsest, with the probabilities from which it retires and disputes."""
    lines = configured_lines(shipped_calibration())._asdict()
    return dg.MaterializeResult(metadata=lines, data_version=dg.DataVersion(shipped_key()))
