"""The assets after the stages: index, report and gate, the switch that readers see, graph, evaluation, proposals."""

import base64
import datetime as dt
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg

from palimpsest.core.code import code_hash
from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.files import counted
from palimpsest.neo4j_graph.identity import is_served
from palimpsest.neo4j_graph.model import CHECKS, WARNINGS
from palimpsest.orchestration.build_assets import freshness_of_builds
from palimpsest.orchestration.resources import (
    EMBEDDER,
    HOME,
    LM,
    LOCK_WAIT_S,
    NEO4J,
    OWNERS,
    POOL,
    HomeResource,
    log_warnings,
    pooled,
    retried,
    run_of,
    tag_run,
)
from palimpsest.pipeline.build_warnings import build_warnings
from palimpsest.pipeline.finish import finish_staged, publish_build, refusal
from palimpsest.pipeline.stages import last_stages
from palimpsest.relations.labelers.calibration import configured_lines, shipped_calibration
from palimpsest.relations.labelers.offline_labeler import labeler_code, shipped_key
from palimpsest.store.builds import staged
from palimpsest.store.event_log import observed, run_scope
from palimpsest.store.home import data_folder
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


@dg.asset(group_name="serving", kinds={"duckdb"}, deps=last_stages(), check_specs=[_INVARIANTS], **pooled(HOME))
def index(context: dg.AssetExecutionContext, home: HomeResource) -> Iterator[dg.MaterializeResult]:
    """One DuckDB file over all collections: vectors, words, graph and versions, staged next to the published one."""  # noqa: DOC402 (the docstring is the description in the UI)
    from palimpsest_eval.runs.judge_build import check_staged

    with run_scope(run_of(context.run)), retried(context), home.home().lock(LOCK_WAIT_S):
        finish_staged(home.home())
        found = check_staged(home.home())
        manifest = staged(home.home()).manifest
        tag_run(context, manifest.build_id)
        warned = build_warnings(home.home(), staged(home.home()))
    lines_of_warnings = log_warnings(context, warned, warned)
    context.log.info(f"indexed {counted(manifest.memories, 'memory')}, {counted(len(found), 'violation')}")
    lines = "\n".join(f"- {v.invariant} {v.name}: {v.message}" for v in found[:_MAX_VIOLATIONS]) or "none"
    violations, shown = manifest.violations or [], {"violations": dg.MetadataValue.md(lines)}
    yield dg.MaterializeResult(
        metadata={
            "dagster/row_count": manifest.memories,
            "documents": manifest.documents,
            "retired": manifest.retired,
            "rejects": manifest.rejects,
            "warnings": dg.MetadataValue.md("\n".join(f"- {w}" for w in lines_of_warnings) or "none"),
            "seconds": manifest.index["seconds"],
            "digest": manifest.digest,
            "build": manifest.build_id,
            **manifest.relations,
        },
        check_results=[_check_result("invariants", violations, shown)],
    )
    _stop_if(violations, manifest, shown)


@dg.asset(group_name="serving", kinds={"python"}, deps=[index], check_specs=[_GATE], **pooled(HOME))
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
    deps=[retrieval_report],
    freshness_policy=freshness_of_builds(),
    **pooled(HOME),
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


@dg.asset(group_name="serving", kinds={"python"}, deps=[published], **pooled(HOME))
def memory_health(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """Growth, ages, confidence, disputes, orphans, use, cost and time of the published build."""
    from palimpsest_eval.runs.home_metrics import PAGE, record_health

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


# Group `graph`: the published build as Neo4j serves it.

_SPECS = [
    dg.AssetCheckSpec(name, asset="neo4j_graph", blocking=name not in WARNINGS, description=text)
    for name, text in CHECKS.items()
]


@dg.multi_asset(
    name="neo4j_graph",
    check_specs=_SPECS,
    pool=NEO4J,
    can_subset=True,  # so that it may be skipped
    specs=[
        dg.AssetSpec(
            "neo4j_graph",
            group_name="graph",
            kinds={"neo4j"},
            owners=OWNERS,
            tags={POOL: NEO4J},
            deps=[published],
            skippable=True,
            description="The published build in Neo4j: only the difference is written, and readers move to it in one "
            "step. Skipped where no server is set or running, unless the home was loaded before.",
        )
    ],
    retry_policy=dg.RetryPolicy(max_retries=2, delay=5, backoff=dg.Backoff.EXPONENTIAL),
)
def neo4j_graph(context: dg.AssetExecutionContext, home: HomeResource) -> Iterator[dg.MaterializeResult]:
    """Yields the figures and checks of loading the published build; see the description of the asset.

    Raises:
        dagster.Failure: the load failed; retried only where no person must fix something.
    """
    from palimpsest.neo4j_graph.published_graph import load_published

    if not is_served(home.home()) and (reason := _no_server()):
        context.log.warning(f"skipped: {reason}")
        return
    try:
        with (
            run_scope(run_of(context.run)),
            home.home().lock(LOCK_WAIT_S),
            observed(home.home().path, "stage", stage="neo4j_graph") as event,
        ):
            stats, violations = load_published(home.home(), report=context.log.info)
            event |= {"graph_writes": stats.writes, "violations": sum(map(len, violations.values()))}
    except PalimpsestError as e:
        # A fault that a person must fix is not retried.
        raise dg.Failure(str(e), allow_retries=isinstance(e, ComponentFailed)) from e
    yield dg.MaterializeResult(
        asset_key="neo4j_graph",
        metadata={
            "dagster/row_count": sum(stats.nodes.values()),
            "writes": stats.writes,
            "created": stats.created,
            "nodes_per_s": stats.nodes_per_s,
            "seconds": stats.seconds["total"],
            "number": stats.number,
            **{f"nodes/{n}": c for n, c in stats.nodes.items()},
            **{f"edges/{n}": c for n, c in stats.relationships.items()},
        },
        check_results=[
            dg.AssetCheckResult(
                check_name=name,
                passed=not (found := violations.get(name, [])),
                severity=dg.AssetCheckSeverity.WARN if name in WARNINGS else dg.AssetCheckSeverity.ERROR,
                metadata={"violations": dg.MetadataValue.md("\n".join(f"- {v}" for v in found[:50]) or "none")},
            )
            for name in CHECKS
        ],
    )


def _no_server() -> str:
    """Returns why there is no Neo4j to load into; empty where one answers."""
    from palimpsest.neo4j_graph.connect import connect

    try:
        connect().close()
    except PalimpsestError as e:
        return str(e)
    return ""


# Group `evaluation`: every suite and golden set measured, one partition each, with its history of metrics.

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
    partitions_def=suites,
    code_version=code_hash(("palimpsest_eval.runs.suite_runs",)),
    freshness_policy=dg.FreshnessPolicy.time_window(fail_window=2 * _WEEK, warn_window=_WEEK + dt.timedelta(days=1)),
    **pooled(EMBEDDER),
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
    context.log.info(f"{done.suite}: R@5 {done.metrics['R@5']:.3f} over {counted(done.queries, 'query')}")
    types = "\n".join(
        f"| {kind} | {means['queries']} | {means['R@5']:.3f} | {means['packed_recall']:.3f} |"
        for kind, means in done.by_type.items()
    )
    return dg.MaterializeResult(
        metadata={
            **{name: float(value) for name, value in sorted(done.metrics.items())},
            **{name: float(value) for name, value in sorted((done.quality or {}).items())},
            **{f"{p}_ms": round(v, 3) for p, v in vars(done.latency_ms).items()},
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


# Group `consolidation`: what the night shift proposes of the published build.


@dg.asset(group_name="consolidation", kinds={"python"}, deps=["published"], **pooled(LM))
def proposals(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """Contradictions, duplicates, what to prune, confidence, connections and notes, for a person to confirm."""
    from palimpsest.consolidation.consolidate import consolidate

    with retried(context), home.home().lock(LOCK_WAIT_S):
        done = consolidate(home.home())
    context.log.info(f"{len(done.proposals)} open proposals, {done.new} new, {done.expired} no longer hold")
    counts: dict[str, int | str] = dict(sorted(Counter(str(p.kind) for p in done.proposals).items()))
    counts |= {"build": done.build_id, "open": len(done.proposals), "new": done.new, "expired": done.expired}
    return dg.MaterializeResult(metadata=counts)


@dg.asset(group_name="consolidation", kinds={"python"}, deps=[proposals], **pooled(LM))
def applied_proposals(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """The kinds of proposals that settings name, confirmed where no golden question gets worse; none by default."""
    from palimpsest_eval.runs.apply_proposals import apply_proposals

    with retried(context), home.home().lock(LOCK_WAIT_S):
        done = apply_proposals(home.home(), max_cost=home.money)
    for proposal_id, why in sorted(done.refused.items()):
        context.log.warning(f"proposal {proposal_id} is refused: {why}")
    if done.waiting:
        context.log.info(done.waiting)
    counts = {"confirmed": len(done.confirmed), "refused": len(done.refused), "trials": done.trials}
    return dg.MaterializeResult(metadata=counts)


@dg.asset(group_name="consolidation", kinds={"python"}, deps=[applied_proposals], **pooled(HOME))
def housekeeping(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """What the policies do not keep is removed: closed logs, orphaned vectors, old runs of Dagster, leftovers."""
    from palimpsest.pipeline.housekeeping import keep_house

    with home.home().lock(LOCK_WAIT_S):
        done = keep_house(home.home())
    context.log.info(", ".join(f"{r.part}: {r.items}" for r in done.removed))
    return dg.MaterializeResult(metadata={f"{r.part}_removed": r.items for r in done.removed} | done.sizes)


@dg.asset(group_name="consolidation", kinds={"python"}, deps=[housekeeping], **pooled(HOME))
def backup_file(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """A dated backup of the home in the folder that a variable names, and no more of them than policy; none without."""
    from palimpsest.pipeline.backup import FOLDER_VARIABLE, backup_dated, series_from_environment
    from palimpsest.store.backup_archive import PASSWORD_VARIABLE, read_password

    if (series := series_from_environment()) is None:
        context.log.info(f"{FOLDER_VARIABLE} is not set: no backup")
        return dg.MaterializeResult(metadata={"files": 0})
    done = backup_dated(home.home(), *series, read_password(None, PASSWORD_VARIABLE))
    context.log.info(
        f"{done.backup.file}: {counted(done.backup.files, 'file')}; {counted(len(done.removed), 'older one')} removed"
    )
    size = {"bytes": done.backup.bytes, "files": done.backup.files, "removed": len(done.removed)}
    return dg.MaterializeResult(metadata={"file": done.backup.file, **size})
