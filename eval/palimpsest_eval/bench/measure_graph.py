"""Questions over the graph of one scope: a node, its neighbors, three hops, relations and timelines, by name."""

import random
import time
from collections.abc import Callable, Mapping

import numpy as np

from palimpsest.core.errors import ArgumentError, ComponentFailed
from palimpsest.query import Reader, Scope
from palimpsest.query.graph.graph_reader import GraphReader
from palimpsest.query.request.types import Filters, Node
from palimpsest.query.scope.served_graph import ServedGraph
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest_eval.metrics.latency import LatencyMs

QUESTIONS, WARM_UP = 60, 5
_NAMES = 400  # of which the questions name some
_SEED = 18
_PERCENTILES = (50, 95, 99)

Ask = Callable[[GraphReader, str, str], object]
_ASKS: Mapping[str, Ask] = {
    "node_ms": lambda graph, a, _: graph.node(a),
    "neighbours_ms": lambda graph, a, _: graph.neighbors(a, 2),
    "three_hops_ms": lambda graph, a, _: graph.neighbors(a, 3),
    "relations_ms": lambda graph, a, b: graph.relations(f"How does {a} relate to {b}?"),
    "timeline_ms": lambda graph, a, _: graph.timeline(a),
}


def measure_graph(reader: Reader, scope: Scope, questions: int = QUESTIONS) -> dict[str, LatencyMs]:
    """Returns the latency of each question over a scope: another one each time, on nodes drawn by a seed.

    Args:
        reader: of the home.
        scope: has nodes.
        questions: of each kind, after a few that warm up.

    Raises:
        ComponentFailed: the scope has no nodes, so there is nothing to measure.
    """
    names = _names(reader, scope)
    if len(names) < 2:
        raise ComponentFailed("bench: the scope has no nodes")
    drawn = random.Random(_SEED)  # noqa: S311 (no secret)
    found = {}
    for what, ask in _ASKS.items():
        took = [_timed(reader, scope, ask, *drawn.sample(names, 2)) for _ in range(WARM_UP + questions)]
        found[what] = LatencyMs(*(float(p) for p in np.percentile(took[WARM_UP:], _PERCENTILES)))
    return found


def _timed(reader: Reader, scope: Scope, ask: Ask, first: str, second: str) -> float:
    started = time.perf_counter()
    try:
        ask(reader.graph(scope), first, second)
    except ArgumentError as e:
        raise ComponentFailed(f"bench: no answer about {first!r}: {e}") from None
    return (time.perf_counter() - started) * 1000


def _names(reader: Reader, scope: Scope) -> list[str]:
    """Returns the names of the most important nodes, those alone that a single node has."""
    graph = ServedGraph.of(ServedScope(reader.backend, scope, Filters()))
    if graph is None:
        return []
    nodes: Mapping[str, Node] = graph.nodes(graph.graph.nodes_of_type((), _NAMES))
    return sorted({n.name for n in nodes.values()})
