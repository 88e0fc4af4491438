"""Stage `nodes`: the nodes of the graph, and the edges between them."""

from palimpsest.nodes.node_tables import READS, build_nodes
from palimpsest.pipeline.stage import Digest, PreviousTable, Reference, Stage, StageContext, StageResult, Table


def _run(context: StageContext, previous: PreviousTable | None) -> StageResult:
    decisions = [d for d in context.decisions.graph if d.scope[0] == context.name]
    return StageResult(build_nodes({name: context.table(name) for name in READS}, decisions))


_NODE = ("nodes",)

STAGE = Stage(
    name="nodes",
    description="People, places, projects, events and topics as nodes, and how they relate.",
    group="graph",
    kinds=("parquet", "python"),
    reads=READS,
    writes=(
        Table("nodes", key=("node_id",), digest=Digest(columns=("node_id", "type", "name"), unless_empty=True)),
        Table(
            "edges",
            key=("source_id", "target_id", "type"),
            references=(
                Reference("source_id", _NODE),
                Reference("target_id", _NODE),
                Reference("memory_ids", ("memories",)),
            ),
            digest=Digest(columns=("source_id", "target_id", "type"), unless_empty=True),
        ),
        Table(
            "node_memories",
            key=("node_id", "memory_id"),
            references=(Reference("node_id", _NODE), Reference("memory_id", ("memories",))),
        ),
    ),
    settings=lambda context: context.decisions.graph_key(context.name),
    run=_run,
)
