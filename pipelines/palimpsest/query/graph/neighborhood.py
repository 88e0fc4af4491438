"""What is near nodes: their facts, their edges, and the nodes that memories name with them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palimpsest.query.request.graph_types import Edge, Fact, Node
from palimpsest.query.scope.graph_scope import Ends
from palimpsest.query.scope.node_filter import NodeFilter
from palimpsest.query.scope.served_graph import ServedGraph

MENTIONED_WITH = "mentioned_with"
"""Type of the edge between nodes that a memory names together; made when it is read, not stored."""

MAX_NODES = 100
"""Nodes of a neighborhood."""

_MAX_WITH = 8  # nodes mentioned with one, those with most memories first
_ANY = NodeFilter()
_CITED = 3  # memories of such an edge


@dataclass(frozen=True)
class Neighborhood:
    """Nodes with what is between them.

    Attributes:
        nodes: by id, with how many steps away each is.
        edges: between them.
        facts: of which a step was made, and those between them.
    """

    nodes: dict[str, tuple[Node, int]]
    edges: tuple[Edge, ...]
    facts: tuple[Fact, ...]


def find_neighbors(
    graph: ServedGraph, ids: Sequence[str], depth: int, types: Sequence[str] = (), wanted: NodeFilter = _ANY
) -> Neighborhood:
    """Returns the nodes up to `depth` steps from some nodes, breadth first, and what is between them.

    Args:
        graph: of a scope.
        ids: the nodes to start from.
        depth: steps, 0 or more.
        types: predicates of facts and types of edges to follow, `mentioned_with` among them; none means all.
        wanted: what the nodes reached must be; others are neither shown nor followed.
    """
    found = {i: (node, 0) for i, node in graph.nodes(ids).items()}
    frontier, followed = sorted(found), list[Edge]()
    for step in range(1, depth + 1):
        if not frontier or len(found) >= MAX_NODES:
            break
        links, together = _around(graph, frontier, types)
        followed += together
        new = [i for i in dict.fromkeys(i for ends in links for i in ends) if i not in found]
        if wanted:
            new = list(wanted.matching(_in_order(graph.nodes(new), new)))
        new = new[: MAX_NODES - len(found)]
        nodes = _in_order(graph.nodes(new), new)
        found |= {i: (node, step) for i, node in nodes.items()}
        frontier = sorted(nodes)
    edges = [*graph.edges_of(sorted(found), types, within=True), *_heaviest(followed)]
    facts = [f for f in graph.facts_of(sorted(found), within=True) if not types or f.predicate in types]
    return Neighborhood(
        found,
        tuple(e for e in edges if e.source_id in found and e.target_id in found),
        tuple(f for f in facts if all(i in found for i in f.ends)),
    )


def _in_order(nodes: Mapping[str, Node], ids: Sequence[str]) -> dict[str, Node]:
    return {i: nodes[i] for i in ids if i in nodes}


def _around(graph: ServedGraph, ids: Sequence[str], types: Sequence[str]) -> tuple[list[Ends], list[Edge]]:
    """Returns the ends of what links some nodes to others, and those of the links that are not stored."""
    edges, facts = graph.links_of(ids, types)
    if types and MENTIONED_WITH not in types:
        return [*edges, *facts], []
    linked = {frozenset(ends) for ends in (*edges, *facts)}
    together = [e for e in mentioned_with(graph, ids) if frozenset((e.source_id, e.target_id)) not in linked]
    return [*edges, *((e.source_id, e.target_id) for e in together), *facts], together


def mentioned_with(graph: ServedGraph, ids: Sequence[str]) -> list[Edge]:
    """Returns for each of some nodes the nodes that most of its memories name too, as edges."""
    found = graph.named_together(ids, _MAX_WITH, _CITED)
    pairs = [(min(f.ends), max(f.ends), f) for f in found]
    return _heaviest([Edge(a, b, MENTIONED_WITH, f.share, "memories", f.memory_ids) for a, b, f in pairs])


def _heaviest(edges: Sequence[Edge]) -> list[Edge]:
    """Returns the edge with most weight of each pair, the first of equals: both ends of a pair may find it."""
    best: dict[Ends, Edge] = {}
    for edge in sorted(edges, key=lambda e: -(e.weight or 0.0)):
        best.setdefault((edge.source_id, edge.target_id), edge)
    return [best[pair] for pair in sorted(best)]


def find_subgraph(graph: ServedGraph, memory_ids: Sequence[str]) -> Neighborhood:
    """Returns the nodes that some memories name, the edges between them, and the facts that the memories state."""
    of_memory = graph.nodes_of_memories(memory_ids)
    counts: dict[str, int] = {}
    for ids in of_memory.values():
        for i in ids:
            counts[i] = counts.get(i, 0) + 1
    facts = graph.facts_of_memories(memory_ids)
    stated = dict.fromkeys(i for f in facts for i in f.ends)
    others = sorted((i for i in counts if i not in stated), key=lambda i: (-counts[i], i))
    nodes = graph.nodes([*stated, *others][:MAX_NODES])
    edges = graph.edges_of(sorted(nodes), within=True)
    shown = set(memory_ids)
    return Neighborhood(
        {i: (node, 0) for i, node in nodes.items()},
        tuple(edges),
        tuple(f for f in facts if all(i in nodes for i in f.ends) and shown & set(f.memory_ids)),
    )
