"""Stage `layout`: where the nodes of the graph are drawn."""

from palimpsest.nodes.layout import node_positions
from palimpsest.pipeline.stage import PreviousTable, Reference, Stage, StageContext, StageResult, Table


def _run(context: StageContext, previous: PreviousTable | None) -> StageResult:
    tables = (context.table(name) for name in ("nodes", "edges", "facts"))
    return StageResult({"node_positions": node_positions(*tables)})


STAGE = Stage(
    name="layout",
    description="A position in the plane for each node, so that a page draws the graph without computing one.",
    group="graph",
    reads=("nodes", "edges", "facts"),
    writes=(
        Table(
            "node_positions",
            key=("node_id",),
            references=(Reference("node_id", ("nodes",)),),
            is_indexed=False,
        ),
    ),
    run=_run,
)
