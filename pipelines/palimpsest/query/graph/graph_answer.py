"""An answer over the graph: nodes, edges, facts, paths, and lines that cite the memories they rest on."""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from palimpsest.core.errors import ArgumentError
from palimpsest.core.files import counted
from palimpsest.core.ids import JsonObject, JsonRecord, JsonValue
from palimpsest.query.request.types import Edge, Fact, Node
from palimpsest.query.scope.served_graph import ServedGraph


@dataclass(frozen=True)
class GraphLine(JsonRecord):
    """A line of an answer.

    Attributes:
        text: what it says, without citations.
        memory_ids: what it rests on.
        kind: `fact`, `memory`, `path` or `event`.
        time: when it happened or was stated; None where that is unknown.
        score: lines of one answer are ranked by it.
    """

    json_decimals = 6

    text: str
    memory_ids: tuple[str, ...]
    kind: str
    time: dt.date | None = None
    score: float = 0.0

    @property
    def cited(self) -> str:
        """The line with its citations."""
        return " ".join([self.text, *(f"[memory:{i}]" for i in self.memory_ids)])


@dataclass(frozen=True)
class PathStep(JsonRecord):
    """A step of a path.

    Attributes:
        source_id: the node it leads from.
        target_id: the node it leads to.
        type: the predicate of a fact, the type of an edge, or `mentioned_with` for a memory that names both.
        memory_ids: the memories that show it.
    """

    json_names: ClassVar = {"source_id": "source", "target_id": "target"}

    source_id: str
    target_id: str
    type: str
    memory_ids: tuple[str, ...]


@dataclass(frozen=True)
class GraphAnswer(JsonRecord):
    """An answer over the graph.

    Attributes:
        nodes: every node that it names.
        edges: between them.
        facts: of them.
        paths: from the first thing that the question names to the second, best first.
        lines: the answer in words, in order.
        names: what the question was understood to be about.
    """

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    facts: tuple[Fact, ...] = ()
    paths: tuple[tuple[PathStep, ...], ...] = ()
    lines: tuple[GraphLine, ...] = ()
    names: tuple[str, ...] = ()

    def to_json(self) -> JsonObject:
        """Returns a JSON object: `nodes`, `edges`, `facts`, `paths`, `lines` and `names`; dates are ISO 8601.

        A fact whose object is a node is an edge too: `type` is its predicate and `fact_id` names it.
        """
        answer = super().to_json()
        edges = [e.to_json() for e in self.edges] + [_fact_edge(f) for f in self.facts if f.object_id]
        return answer | {"edges": edges}


def _fact_edge(fact: Fact) -> JsonObject:
    fields = fact.to_json()
    edge = {"source": fact.subject_id, "target": fact.object_id, "type": fact.predicate, "provenance": "fact"}
    shown = ("fact_id", "memory_ids", "valid_from", "valid_until", "is_latest", "is_negated")
    return edge | {"weight": fields["confidence"], **{name: fields[name] for name in shown}}


def unique_nodes(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Returns nodes without repeats, by id."""
    return tuple(node for _, node in sorted({n.node_id: n for n in nodes}.items()))


# An answer over the graph as text for people.

_MAX_LINES = 60  # of an answer; JSON has all
_MAX_DESCRIPTION = 300


def answer_text(answer: GraphAnswer) -> str:
    """Returns the lines of an answer, each with its day and its citations; of a node, what it is first."""
    if not answer.lines and not answer.nodes:
        return "nothing found in this scope; palimpsest scopes lists whose memories there are"
    lines = []
    if not answer.names:  # a neighborhood, not a question
        first = answer.nodes[0]
        also = f", also {', '.join(first.aliases)}" if first.aliases else ""
        read = "" if first.access_count is None else f", read {counted(first.access_count, 'time')}"
        lines.append(
            f"{first.name} ({first.type}{also}): {counted(first.memory_count, 'memory')}{read}, "
            f"{counted(len(answer.nodes), 'node')} here"
        )
        if first.description:
            lines.append(f"  {' '.join(first.description.split())[:_MAX_DESCRIPTION]}")
    for line in answer.lines[:_MAX_LINES]:
        day = "" if line.time is None or (line.kind == "fact" and not answer.names) else f"{line.time.isoformat()}  "
        lines.append(f"{day}{line.cited}")
    if len(answer.lines) > _MAX_LINES:
        lines.append(f"and {len(answer.lines) - _MAX_LINES} more; --json has all")
    return "\n".join(lines)


# The shape of a whole graph: its nodes, and of its links as many as a picture can show.

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
