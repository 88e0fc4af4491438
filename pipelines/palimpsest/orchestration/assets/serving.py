"""Group `serving`: the index of a whole build, its report and gate, and the switch that readers see."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg

from palimpsest.build.finish import finish_staged
from palimpsest.build.publish import publish_build, refusal
from palimpsest.build.stages import last_stages
from palimpsest.core.errors import PalimpsestError
from palimpsest.orchestration.assets.freshness import freshness_of_builds
from palimpsest.orchestration.assets.resources import (
    HOME,
    LOCK_WAIT_S,
    OWNERS,
    POOL,
    HomeResource,
    retried,
    run_of,
    tag_run,
)
from palimpsest.store.builds import staged
from palimpsest.store.event_log import observed, run_scope
from palimpsest.store.manifest import BuildManifest

_MAX_VIOLATIONS, _MAX_REASONS = 50, 10
_INVARIANTS = dg.AssetCheckSpec(
    "invariants",
    asset="index",
    blocking=True,
    description="Nothing crosses a scope, every chain of updates has one latest, every span contains its text.",
)
_GATE = dg.AssetCheckSpec(
    "gate",
    asset="retrieval_report",
    blocking=True,
    description="Retrieval on the golden questions is no worse than the committed baseline.",
)


@dg.asset(
    group_name="serving",
    kinds={"duckdb"},
    owners=OWNERS,
    deps=last_stages(),
    check_specs=[_INVARIANTS],
    tags={POOL: HOME},
    pool=HOME,
)
def index(context: dg.AssetExecutionContext, home: HomeResource) -> Iterator[dg.MaterializeResult]:
    """One DuckDB file over all collections: vectors, words, graph and versions, staged next to the published one."""  # noqa: DOC402 (the docstring is the description in the UI)
    from palimpsest_eval.runs.judge_build import check_staged

    with run_scope(run_of(context.run)), retried(context), home.home().lock(LOCK_WAIT_S):
        finish_staged(home.home())
        found = check_staged(home.home())
        manifest = staged(home.home()).manifest
        tag_run(context, manifest.build_id)
    context.log.info(f"indexed {manifest.memories} memories, {len(found)} violations")
    lines = "\n".join(f"- {v.invariant} {v.name}: {v.message}" for v in found[:_MAX_VIOLATIONS]) or "none"
    violations, shown = manifest.violations or [], {"violations": dg.MetadataValue.md(lines)}
    yield dg.MaterializeResult(
        metadata={
            "dagster/row_count": manifest.memories,
            "documents": manifest.documents,
            "retired": manifest.retired,
            "rejects": manifest.rejects,
            "seconds": manifest.index["seconds"],
            "digest": manifest.digest,
            "build": manifest.build_id,
            **manifest.relations,
        },
        check_results=[_check_result("invariants", violations, shown)],
    )
    _stop_if(violations, manifest, shown)


@dg.asset(
    group_name="serving",
    kinds={"python"},
    owners=OWNERS,
    deps=[index],
    check_specs=[_GATE],
    tags={POOL: HOME},
    pool=HOME,
)
def retrieval_report(context: dg.AssetExecutionContext, home: HomeResource) -> Iterator[dg.MaterializeResult]:
    """Golden questions on the staged build: R@5, nDCG@10, stale@5 against the baseline, p95 against 400 ms."""  # noqa: DOC402 (the docstring is the description in the UI)
    from palimpsest_eval.runs.judge_build import PICTURE, REPORT, judge_staged

    with run_scope(run_of(context.run)), retried(context), home.home().lock(LOCK_WAIT_S):
        verdict = judge_staged(home.home())
        manifest, folder = staged(home.home()).manifest, staged(home.home()).path
    gate = manifest.gate
    found: dict[str, Any] = {
        "status": gate["status"],
        "verdict": dg.MetadataValue.md(verdict.markdown()),
        "report": dg.MetadataValue.url((folder / REPORT).resolve().as_uri()),
        "report_file": dg.MetadataValue.path(folder / REPORT),
    }
    reasons = dg.MetadataValue.md("\n".join(f"- {r}" for r in gate["reasons"]) or "none")
    yield dg.MaterializeResult(
        metadata={
            **gate["metrics"],
            **found,
            "seconds": manifest.tail_seconds["retrieval_report"],
            "picture": dg.MetadataValue.md(_image(folder / PICTURE)),
        },
        check_results=[_check_result("gate", refusal(manifest), found | {"reasons": reasons})],
    )
    _stop_if(refusal(manifest), manifest, found | {"reasons": reasons} | gate["metrics"])


@dg.asset(
    group_name="serving",
    kinds={"file"},
    owners=OWNERS,
    tags={POOL: HOME},
    pool=HOME,
    deps=[retrieval_report],
    freshness_policy=freshness_of_builds(),
)
def published(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """The build that readers see, switched in one rename; the five newest builds are kept."""  # noqa: DOC501 (the docstring is the description in the UI)
    with run_scope(run_of(context.run)), home.home().lock(LOCK_WAIT_S):
        manifest = staged(home.home()).manifest
        _stop_if(refusal(manifest), manifest, {})
        try:
            build_id = publish_build(home.home())
        except PalimpsestError as e:
            raise dg.Failure(str(e), allow_retries=False) from e
    return dg.MaterializeResult(metadata={"build": build_id, "how": "published"})


@dg.asset(group_name="serving", kinds={"python"}, owners=OWNERS, deps=[published], tags={POOL: HOME}, pool=HOME)
def memory_health(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """Growth, ages, confidence, disputes, orphans, use, cost and time of the published build."""
    from palimpsest_eval.runs.report_health import PAGE, record_health

    path = home.home().path
    with (
        run_scope(run_of(context.run)),
        home.home().lock(LOCK_WAIT_S),
        observed(path, "stage", stage="memory_health") as event,
    ):
        health = record_health(home.home())
        event["build_id"] = health.build_id
    page = path / PAGE
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": health.total["latest"],
            "build": health.build_id,
            **health.numbers,
            "report": dg.MetadataValue.url(page.resolve().as_uri()),
            "report_file": dg.MetadataValue.path(page),
        }
    )


def _stop_if(reasons: list[str], manifest: BuildManifest, metadata: dict[str, Any]) -> None:
    """Ends the run where there are reasons not to publish the staged build; the run's page shows this failure.

    Raises:
        dagster.Failure: with the reasons as its description.
    """
    if reasons:
        more = f"; and {len(reasons) - _MAX_REASONS} more" if len(reasons) > _MAX_REASONS else ""
        raise dg.Failure(
            f"build {manifest.build_id} is staged, not published: {'; '.join(reasons[:_MAX_REASONS])}{more}",
            metadata=metadata,
            allow_retries=False,
        )


def _image(path: Path) -> str:
    """Returns an SVG as markdown that needs no file: the UI cannot read the home."""
    return f"![recall by type of question](data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode()})"


def _check_result(check: str, reasons: list[str], metadata: dict[str, Any]) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=check,
        passed=not reasons,
        severity=dg.AssetCheckSeverity.ERROR,
        description="; ".join(reasons[:_MAX_REASONS]) or None,
        metadata=metadata,
    )
