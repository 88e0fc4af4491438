"""The shape of a whole graph: its nodes, and of its links as many as a picture can show."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from palimpsest.core.errors import ArgumentError
from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.query.request.graph_types import Node
from palimpsest.query.scope.served_graph import ServedGraph

MAX_NODES, MAX_LINKS = 20_000, 100_000
_LINKS_OF_EACH = 2  # that a node keeps whatever else is left out
_FIELDS = ("id", "name", "type", "importance", "memory_count")


@dataclass(frozen=True)
class GraphOutline:
    """The most important nodes of a graph, and links between them.

    Attributes:
        nodes: most important first in each scope.
        links: places of both ends among the nodes, ascending; an edge and a fact between two nodes are one link.
        total_nodes: visible nodes of the whole graph.
        total_links: links between the nodes of the outline.
    """

    nodes: tuple[Node, ...]
    links: tuple[tuple[int, int], ...]
    total_nodes: int
    total_links: int

    def to_json(self) -> JsonObject:
        """Returns nodes with a few fields each, links as pairs of places, and both totals."""
        nodes: list[JsonValue] = [
            dict(zip(_FIELDS, (n.node_id, n.name, n.type, n.importance, n.memory_count), strict=True))
            for n in self.nodes
        ]
        links: list[JsonValue] = [list(pair) for pair in self.links]
        return {"nodes": nodes, "links": links, "total_nodes": self.total_nodes, "total_links": self.total_links}


def graph_outline(graphs: Sequence[ServedGraph], nodes: int, links: int) -> GraphOutline:
    """Returns the outline of some scopes.

    Of more links than `links` each node keeps the two to its most important neighbors, and then those between the most
    important nodes stay.

    Args:
        graphs: of the scopes.
        nodes: how many at most, 1 to `MAX_NODES`.
        links: how many at most, 0 to `MAX_LINKS`.

    Raises:
        ArgumentError: an argument is out of range.
    """
    if not 1 <= nodes <= MAX_NODES:
        raise ArgumentError("nodes", f"must be 1 to {MAX_NODES:,}", nodes)
    if not 0 <= links <= MAX_LINKS:
        raise ArgumentError("links", f"must be 0 to {MAX_LINKS:,}", links)
    shown: list[Node] = []
    pairs: set[tuple[int, int]] = set()
    total = 0
    for graph in graphs:
        ids = graph.visible_ids()
        total += len(ids)
        chosen = ids[: nodes - len(shown)]
        found = graph.nodes(chosen) if chosen else {}
        places = {node_id: len(shown) + n for n, node_id in enumerate(chosen)}
        shown += [found[i] for i in chosen]
        for source, target in (pair for part in graph.links_of(chosen) for pair in part) if chosen else ():
            if source != target and source in places and target in places:
                pairs.add((min(places[source], places[target]), max(places[source], places[target])))
    importance = np.array([n.importance or 0.0 for n in shown])
    return GraphOutline(tuple(shown), _strongest(sorted(pairs), importance, links), total, len(pairs))


def _strongest(pairs: list[tuple[int, int]], importance: np.ndarray, most: int) -> tuple[tuple[int, int], ...]:
    if len(pairs) <= most:
        return tuple(pairs)
    ends = np.array(pairs)
    order = np.argsort(-importance[ends].sum(axis=1), kind="stable")
    kept: list[int] = []
    left: list[int] = []
    degree = np.zeros(len(importance), np.int64)
    for place in order.tolist():
        a, b = pairs[place]
        (kept if min(degree[a], degree[b]) < _LINKS_OF_EACH else left).append(place)
        degree[[a, b]] += 1
    return tuple(pairs[p] for p in sorted((kept + left)[:most]))
