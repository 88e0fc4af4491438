"""The assets after the stages: index, report and gate, the switch that readers see, graph, evaluation, proposals."""

import base64
import datetime as dt
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from palimpsest.core.code import code_hash
from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.files import counted, logged_to
from palimpsest.neo4j_graph.identity import is_served
from palimpsest.neo4j_graph.model import CHECKS, WARNINGS
from palimpsest.orchestration.build_assets import freshness_of_builds
from palimpsest.orchestration.resources import (
    EMBEDDER,
    HOME,
    NEO4J,
    OWNERS,
    POOL,
    HomeResource,
    log_warnings,
    pooled,
    retried,
    rounded,
    step,
    tag_run,
)
from palimpsest.pipeline.build_warnings import build_warnings, warning_lines, warning_summary
from palimpsest.pipeline.finish import finish_staged, publish_build, refusal
from palimpsest.pipeline.stages import indexed_tables, last_stages, producer
from palimpsest.store.builds import staged
from palimpsest.store.event_log import observed
from palimpsest.store.home import data_folder
from palimpsest.store.manifest import BuildManifest

if TYPE_CHECKING:
    from palimpsest_eval.suites.suite_result import SuiteResult

_MAX_VIOLATIONS, _MAX_REASONS = 50, 10
_HEALTH = ("retired", "undated", "duplicates", "to_review", "disputes_open")
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
    deps=sorted({producer(t).name for t in indexed_tables()}.union(last_stages(), ["embeddings"])),
    check_specs=[_INVARIANTS],
    **pooled(HOME),
)
def index(context: dg.AssetExecutionContext, home: HomeResource) -> Iterator[dg.MaterializeResult]:
    """One DuckDB file over all collections: vectors, words, graph and versions, staged next to the published one."""  # noqa: DOC402 (the docstring is the description in the UI)
    from palimpsest_eval.runs.judge_build import check_staged

    with step(context, home) as current:
        finish_staged(current)
        found = check_staged(current)
        manifest = staged(current).manifest
        tag_run(context, manifest.build_id)
        warned = build_warnings(current, staged(current))
        log_warnings(context, [warning_summary(warned)] if warned else [], warned)  # the stages wrote each
        context.log.info(f"indexed {counted(manifest.memories, 'memory')}, {counted(len(found), 'violation')}")
        lines = "\n".join(f"- {v.invariant} {v.name}: {v.message}" for v in found[:_MAX_VIOLATIONS]) or "none"
        violations, shown = manifest.violations or [], {"violations": dg.MetadataValue.md(lines)}
        yield dg.MaterializeResult(
            metadata={
                "build": manifest.build_id,
                "dagster/row_count": manifest.memories,
                "documents": manifest.documents,
                "retired": manifest.retired,
                "rejects": manifest.rejects,
                "warnings": dg.MetadataValue.md("\n".join(f"- {w}" for w in warning_lines(warned)) or "none"),
                "updates": manifest.relations["UPDATE"],
                **rounded({"seconds": manifest.index["seconds"]}),
            },
            check_results=[_check_result("invariants", violations, shown)],
        )
        _stop_if(violations, manifest, shown)


@dg.asset(group_name="serving", kinds={"python"}, deps=[index], check_specs=[_GATE], **pooled(HOME))
def retrieval_report(context: dg.AssetExecutionContext, home: HomeResource) -> Iterator[dg.MaterializeResult]:
    """Golden questions on the staged build: R@5, nDCG@10, stale@5 against the baseline, p95 against 400 ms."""  # noqa: DOC402 (the docstring is the description in the UI)
    from palimpsest_eval.runs.judge_build import PICTURE, REPORT, judge_staged

    with step(context, home) as current:
        verdict = judge_staged(current)
        manifest, folder = staged(current).manifest, staged(current).path
        shown: dict[str, Any] = {
            "verdict": _verdict(manifest),
            "details": dg.MetadataValue.md(f"{verdict.markdown()}\n\n{_image(folder / PICTURE)}"),
            "report_file": dg.MetadataValue.path(folder / REPORT),
        }
        yield dg.MaterializeResult(
            metadata=shown | rounded(verdict.figures()),
            check_results=[_check_result("gate", refusal(manifest), shown)],
        )
        _stop_if(refusal(manifest), manifest, shown)


@dg.asset(
    group_name="serving",
    kinds={"file"},
    deps=[retrieval_report],
    freshness_policy=freshness_of_builds(),
    **pooled(HOME),
)
def published(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """The build that readers see, switched in one rename; the five newest builds are kept."""
    with step(context, home) as current:
        manifest = staged(current).manifest
        _stop_if(refusal(manifest), manifest, {})
        build_id = publish_build(current)
    return dg.MaterializeResult(metadata={"build": build_id, "how": "published"})


@dg.asset(group_name="serving", kinds={"python"}, deps=[published], **pooled(HOME))
def memory_health(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """Growth, ages, confidence, disputes, orphans, use, cost and time of the published build."""
    from palimpsest_eval.runs.home_metrics import PAGE, record_health

    with (
        step(context, home) as current,
        observed(current.path, "stage", stage="memory_health") as event,
    ):
        health = record_health(current)
        event["build_id"] = health.build_id
    return dg.MaterializeResult(
        metadata={
            "build": health.build_id,
            "dagster/row_count": health.total["latest"],
            **rounded({name: n for name, n in health.numbers.items() if name in _HEALTH}),
            "report_file": dg.MetadataValue.path(current.path / PAGE),
        }
    )


def _verdict(manifest: BuildManifest) -> str:
    """Returns the gate's answer in a line: what closed it first."""
    status, reasons = str(manifest.gate["status"]), refusal(manifest)
    more = f"; and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return f"{status}: {reasons[0]}{more}" if reasons else status


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


# The published build as Neo4j serves it.

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
            group_name="serving",
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
        # Without a materialization a backfill of all assets would be a failure.
        yield dg.MaterializeResult(asset_key="neo4j_graph", metadata={"how": f"skipped: {reason}"})
        return
    with step(context, home) as current, observed(current.path, "stage", stage="neo4j_graph") as event:
        try:
            stats, violations = load_published(current, report=context.log.info)
        except ComponentFailed as e:  # also in a run of the command line
            raise dg.Failure(str(e), allow_retries=True) from e
        event |= {"graph_writes": stats.writes, "violations": sum(map(len, violations.values()))}
    yield dg.MaterializeResult(
        asset_key="neo4j_graph",
        metadata={
            "dagster/row_count": sum(stats.nodes.values()),
            "edges": sum(stats.relationships.values()),
            "writes": stats.writes,
            "created": stats.created,
            **rounded({"nodes_per_s": stats.nodes_per_s, "seconds": stats.seconds["total"]}),
            "number": stats.number,
            "kinds": dg.MetadataValue.md(_kinds(stats.nodes, "node") + "\n" + _kinds(stats.relationships, "edge")),
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


def _kinds(counts: Mapping[str, int], what: str) -> str:
    return "\n".join([f"\n| {what} | number |\n|---|---|", *(f"| {name} | {n} |" for name, n in counts.items())])


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
_MEANS = ("R@5", "nDCG@10", "packed_recall")


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
    backfill_policy=dg.BackfillPolicy.single_run(),
    code_version=code_hash(("palimpsest_eval.runs.suite_runs",)),
    freshness_policy=dg.FreshnessPolicy.time_window(fail_window=2 * _WEEK, warn_window=_WEEK + dt.timedelta(days=1)),
    **pooled(EMBEDDER),
)
def suite_metrics(context: dg.AssetExecutionContext, home: HomeResource) -> None:
    """R@5, nDCG@10, recall after packing and latency on one suite or golden set, built apart and cached by content."""  # noqa: DOC501 (the docstring is the description in the UI)
    from palimpsest_eval.runs.suite_runs import BUDGET_TOKENS, measure

    known = known_suites()
    for name in context.partition_keys:
        if name not in known:
            raise PalimpsestError(f"suite {name}: not found; set PALIMPSEST_SUITES to the folder of suites")
        with logged_to(context.log.info, name), retried(context):
            done = measure(known[name], None, "auto", BUDGET_TOKENS, None)
        context.log.info(f"{done.suite}: R@5 {done.metrics['R@5']:.3f} over {counted(done.queries, 'query')}")
        context.add_asset_metadata(_suite_figures(done), partition_key=name)


def _suite_figures(done: "SuiteResult") -> dict[str, Any]:
    means = {**done.metrics, **(done.quality or {})}
    shown = {name: means[name] for name in _MEANS if name in means} | {"p95_ms": done.latency_ms.p95}
    types = (f"| {k} | {v['queries']} | {v['R@5']:.3f} | {v['packed_recall']:.3f} |" for k, v in done.by_type.items())
    metrics = (f"| {name} | {value:.3f} |" for name, value in sorted(means.items()))
    by_type = "\n".join(["| type | queries | R@5 | packed recall |\n|---|---|---|---|", *types])
    return {
        **rounded({name: float(value) for name, value in shown.items()}),
        "queries": done.queries,
        "memories": int(str((done.build or {})["memories"])),
        "by_type": dg.MetadataValue.md(by_type),
        "metrics": dg.MetadataValue.md("\n".join(["| metric | value |\n|---|---|", *metrics])),
    }


# Group `consolidation`: what the night shift proposes of the published build.

proposals = dg.AssetSpec(
    "proposals",
    group_name="consolidation",
    kinds={"python"},
    owners=OWNERS,
    deps=["published"],
    description="Contradictions, duplicates, what to prune, confidence, connections and notes, for a person to "
    "confirm; the job `consolidate_home` makes them.",
)
