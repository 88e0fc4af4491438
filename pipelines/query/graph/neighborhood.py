"""What is near nodes: their facts, their edges, and the nodes that memories name with them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palimpsest.query.request.graph_types import Edge, Fact, Node
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
    frontier, followed = sorted(found), set[Edge]()
    for step in range(1, depth + 1):
        if not frontier or len(found) >= MAX_NODES:
            break
        edges, facts = _around(graph, frontier, types)
        followed |= set(edges)
        reached = [i for e in edges for i in (e.source_id, e.target_id)] + [i for f in facts for i in f.ends]
        new, room = [i for i in dict.fromkeys(reached) if i not in found], MAX_NODES - len(found)
        if wanted:
            new = list(wanted.matching(_in_order(graph.nodes(new), new)))
        new = new[:room]
        nodes = graph.nodes(new)
        found |= {i: (nodes[i], step) for i in new if i in nodes}
        frontier = sorted(nodes)
    followed |= set(graph.edges_of(sorted(found), types, within=True))
    edges = sorted(followed, key=lambda e: (e.type == MENTIONED_WITH, e.source_id, e.target_id, e.type))
    facts = [f for f in graph.facts_of(sorted(found), within=True) if not types or f.predicate in types]
    return Neighborhood(
        found,
        tuple(e for e in edges if e.source_id in found and e.target_id in found),
        tuple(f for f in facts if all(i in found for i in f.ends)),
    )


def _in_order(nodes: Mapping[str, Node], ids: Sequence[str]) -> dict[str, Node]:
    return {i: nodes[i] for i in ids if i in nodes}


def _around(graph: ServedGraph, ids: Sequence[str], types: Sequence[str]) -> tuple[list[Edge], list[Fact]]:
    """Returns the edges and the facts of some nodes, of some types."""
    edges = graph.edges_of(ids, types)
    facts = [f for f in graph.facts_of(ids) if not types or f.predicate in types]
    if not types or MENTIONED_WITH in types:
        linked = {frozenset((e.source_id, e.target_id)) for e in edges} | {frozenset(f.ends) for f in facts}
        edges += [e for e in mentioned_with(graph, ids) if frozenset((e.source_id, e.target_id)) not in linked]
    return edges, facts


def mentioned_with(graph: ServedGraph, ids: Sequence[str]) -> list[Edge]:
    """Returns for each of some nodes the nodes that most of its memories name too, as edges."""
    members = graph.members_of(ids)
    of_memory = graph.nodes_of_memories(sorted({m for found in members.values() for m in found}))
    edges: dict[tuple[str, str], Edge] = {}
    for node_id, found in sorted(members.items()):
        shared: dict[str, list[str]] = {}
        for memory_id in sorted(found):
            for other in of_memory.get(memory_id, ()):
                if other != node_id:
                    shared.setdefault(other, []).append(memory_id)
        for other, memories in sorted(shared.items(), key=lambda kept: (-len(kept[1]), kept[0]))[:_MAX_WITH]:
            source, target = sorted((node_id, other))
            weight = len(memories) / len(found)
            known = edges.get((source, target))
            if known is None or (known.weight or 0) < weight:
                cited = tuple(memories[:_CITED])
                edges[source, target] = Edge(source, target, MENTIONED_WITH, weight, "memories", cited)
    return [edges[pair] for pair in sorted(edges)]


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
