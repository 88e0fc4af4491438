"""The whole graph of some scopes, page by page."""

from collections.abc import Sequence
from dataclasses import dataclass

from palimpsest.core.errors import ArgumentError
from palimpsest.core.types import JsonObject
from palimpsest.query.graph.graph_answer import GraphAnswer
from palimpsest.query.request.types import Edge, Fact, Node
from palimpsest.query.scope.served_graph import ServedGraph

MAX_NODES = 5_000
"""Of a page."""


@dataclass(frozen=True)
class GraphPage:
    """Nodes of a graph, and the edges and facts that lead from or to them.

    Attributes:
        graph: nodes, edges and facts.
        total: visible nodes of the whole graph.
        next_offset: of the next page; None after the last.
    """

    graph: GraphAnswer
    total: int
    next_offset: int | None

    def to_json(self) -> JsonObject:
        """Returns `nodes`, `edges`, `facts`, `total` and `next_offset`."""
        fields = self.graph.to_json()
        shown: JsonObject = {name: fields[name] for name in ("nodes", "edges", "facts")}
        return shown | {"total": self.total, "next_offset": self.next_offset}


def graph_page(graphs: Sequence[ServedGraph], offset: int, limit: int) -> GraphPage:
    """Returns a page of the nodes of some scopes, most important first in each scope.

    Args:
        graphs: of the scopes, in the order of the pages.
        offset: nodes to skip.
        limit: nodes of the page, 1 to `MAX_NODES`.

    Raises:
        ArgumentError: an argument is out of range.
    """
    if offset < 0:
        raise ArgumentError("offset", "must be 0 or more", offset)
    if not 1 <= limit <= MAX_NODES:
        raise ArgumentError("limit", f"must be 1 to {MAX_NODES:,}", limit)
    nodes: list[Node] = []
    edges: list[Edge] = []
    facts: list[Fact] = []
    total = 0
    for graph in graphs:
        ids = graph.visible_ids()
        chosen = ids[max(0, offset - total) : max(0, offset + limit - total)]
        total += len(ids)
        if chosen:
            shown = graph.nodes(chosen)
            nodes += [shown[i] for i in chosen]
            edges += [e for e in graph.edges_of(chosen) if {e.source_id, e.target_id} & shown.keys()]
            facts += [f for f in graph.facts_of(chosen) if set(f.ends) & shown.keys()]
    answer = GraphAnswer(tuple(nodes), tuple(edges), tuple(facts))
    return GraphPage(answer, total, offset + limit if offset + limit < total else None)
