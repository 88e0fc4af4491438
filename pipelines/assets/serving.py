"""Group `serving`: the index of a whole build, its report and gate, and the switch that readers see."""

import base64
import datetime as dt
from pathlib import Path
from typing import Any

import dagster as dg

from palimpsest.assets.glue import LOCK_WAIT_S, OWNERS
from palimpsest.assets.memories import topics
from palimpsest.assets.relations import versions
from palimpsest.build import index_build, publish_build
from palimpsest.resources import HomeResource
from palimpsest.store.builds import staged

_DAY = dt.timedelta(days=1)
_INVARIANTS = dg.AssetCheckSpec(
    "invariants",
    asset="index",
    blocking=True,
    description="Nothing crosses a scope, every chain of updates has one latest, every span holds its text.",
)
_GATE = dg.AssetCheckSpec(
    "gate",
    asset="retrieval_report",
    blocking=True,
    description="Retrieval on the golden questions is no worse than the committed baseline.",
)


@dg.asset(group_name="serving", kinds={"duckdb"}, owners=OWNERS, deps=[versions, topics], check_specs=[_INVARIANTS])
def index(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """One DuckDB file over all collections: vectors, words, graph and versions, staged beside the published one."""
    from palimpsest.eval.judge import check_staged

    with home.home().lock(LOCK_WAIT_S):
        manifest = index_build(home.home())
        violations = check_staged(home.home())
    context.log.info(f"indexed {manifest['memories']} memories, {len(violations)} violations")
    told = "\n".join(f"- {v.invariant} {v.name}: {v.message}" for v in violations[:50]) or "none"
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": manifest["memories"],
            "documents": manifest["documents"],
            "retired": manifest["retired"],
            "rejects": manifest["rejects"],
            "seconds": manifest["index"]["seconds"],
            "digest": manifest["digest"],
            "build": manifest["build_id"],
            **manifest["relations"],
        },
        check_results=[_answer("invariants", not violations, {"violations": dg.MetadataValue.md(told)})],
    )


@dg.asset(
    group_name="serving", kinds={"python"}, owners=OWNERS, deps=[index], check_specs=[_GATE],
    freshness_policy=dg.FreshnessPolicy.time_window(fail_window=3 * _DAY, warn_window=_DAY + dt.timedelta(hours=2)),
)  # fmt: skip
def retrieval_report(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """Golden questions asked of the staged build: R@5, nDCG@10, stale@5 against the baseline, p95 against 400 ms."""
    from palimpsest.eval.judge import PICTURE, REPORT, judge_staged

    with home.home().lock(LOCK_WAIT_S):
        verdict = judge_staged(home.home())
        gate, folder = staged(home.home()).manifest["gate"], staged(home.home()).path
    reasons = "\n".join(f"- {r}" for r in gate["reasons"]) or "none"
    return dg.MaterializeResult(
        metadata={
            **gate["metrics"],
            "status": gate["status"],
            "seconds": staged(home.home()).manifest["tail_seconds"]["retrieval_report"],
            "verdict": dg.MetadataValue.md(verdict.markdown()),
            "report": dg.MetadataValue.url((folder / REPORT).resolve().as_uri()),
            "report_file": dg.MetadataValue.path(folder / REPORT),
            "picture": dg.MetadataValue.md(_image(folder / PICTURE)),
        },
        check_results=[_answer("gate", verdict.publishable, {"status": gate["status"], "reasons": reasons})],
    )


@dg.asset(group_name="serving", kinds={"file"}, owners=OWNERS, deps=[retrieval_report])
def published(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """The build that readers see, switched in one rename; the five newest builds are kept."""
    with home.home().lock(LOCK_WAIT_S):
        build_id = publish_build(home.home())
    return dg.MaterializeResult(metadata={"build": build_id})


def _image(path: Path) -> str:
    """Returns an SVG as markdown that needs no file: the UI cannot read the home."""
    return f"![recall by type of question](data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode()})"


def _answer(check: str, passed: bool, metadata: dict[str, Any]) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(check_name=check, passed=passed, severity=dg.AssetCheckSeverity.ERROR, metadata=metadata)
