"""Group `graph`: the published build as Neo4j serves it."""

from collections.abc import Iterator

import dagster as dg

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.neo4j_graph.check_names import CHECKS, WARNINGS
from palimpsest.neo4j_graph.identity import is_served
from palimpsest.orchestration.assets.resources import LOCK_WAIT_S, NEO4J, OWNERS, POOL, HomeResource, run_of
from palimpsest.orchestration.assets.serving import published
from palimpsest.store.event_log import observed, run_scope

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
