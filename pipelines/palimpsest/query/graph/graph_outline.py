"""The shape of a whole graph: its nodes, and of its links as many as a picture can show."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from palimpsest.core.errors import ArgumentError
from palimpsest.core.types import JsonObject, JsonValue
from palimpsest.query.request.types import Node
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
    ends: list[tuple[int, int]] = []
    total = 0
    for graph in graphs:
        ids = graph.visible_ids()
        total += len(ids)
        chosen = ids[: nodes - len(shown)]
        found = graph.nodes(chosen) if chosen else {}
        places = {node_id: len(shown) + n for n, node_id in enumerate(chosen)}
        shown += [found[i] for i in chosen]
        for part in graph.links_of(chosen) if chosen else ():
            ends += [(places[a], places[b]) for a, b in part if a in places and b in places]
    importance = np.array([n.importance or 0.0 for n in shown])
    pairs = _unordered(ends, len(shown))
    return GraphOutline(tuple(shown), _strongest(pairs, importance, links), total, len(pairs))


def _unordered(ends: list[tuple[int, int]], size: int) -> np.ndarray:
    """Returns each pair of two different ends once, the lower place first, ascending; shape (pairs, 2)."""
    pairs = np.sort(np.array(ends, np.int64).reshape(-1, 2), axis=1)
    codes = np.unique(pairs[pairs[:, 0] != pairs[:, 1]] @ np.array([size, 1]))
    return np.stack([codes // max(size, 1), codes % max(size, 1)], axis=1)


def _strongest(pairs: np.ndarray, importance: np.ndarray, most: int) -> tuple[tuple[int, int], ...]:
    """Returns at most so many pairs, ascending; see `graph_outline`."""
    if len(pairs) > most:
        order = np.argsort(-importance[pairs].sum(axis=1), kind="stable")
        kept: list[int] = []
        left: list[int] = []
        degree = [0] * len(importance)
        for place, (a, b) in zip(order.tolist(), pairs[order].tolist(), strict=True):
            (kept if min(degree[a], degree[b]) < _LINKS_OF_EACH else left).append(place)
            degree[a] += 1
            degree[b] += 1
        pairs = pairs[np.sort((kept + left)[:most])] if most else pairs[:0]
    return tuple((a, b) for a, b in pairs.tolist())
