"""The strategy `hierarchical`: nodes first, then the memories under them.

A question is compared with the nodes of the scope, entities and topics among them; the best are found, then what edges
reach from them. Their memories are lifted, or with `narrow` they alone are scored.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np

from palimpsest.query.ranking.experimental.node_search import ReachedMemories, find_nodes, join_reached, reach_memories
from palimpsest.query.ranking.fusion import fuse, score_stats
from palimpsest.query.ranking.layout import RowLayout
from palimpsest.query.ranking.scoring import Scored, rescale, score_alone
from palimpsest.query.request.types import Filters, Link
from palimpsest.query.scope.graph_scope import GraphScope
from palimpsest.query.scope.scope_arrays import Flags, word_sums
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.served_graph import NodeFilter, ServedGraph
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.query.scope.view import ScopeView

TOP_NODES = 5
LIFT = 0.2  # of a node's score, by the memory's relevance to it


def score_nodes(view: ScopeView, query: ScopeQuery) -> Scored:
    """Scores candidates by themselves and by the best node that has them; as `hybrid` where no node fits."""
    graph = query.served.backend.graph(query.scope)
    if graph is None:
        return score_alone(view, query)
    reached = reached_memories(view, graph, query)
    narrowed = _score_only(view, query, reached.rows) if query.nodes.narrow else None
    scored = narrowed or score_alone(view, query)
    lift, number = np.zeros(len(view.ids)), np.full(len(view.ids), -1)
    lift[reached.rows], number[reached.rows] = LIFT * reached.gains, reached.nodes
    total = scored.base
    if lift[scored.rows].any():
        total = rescale(scored.base + lift, scored.base, scored.layout)

    def path(row: int) -> tuple[Link, ...]:
        """The node that lifted it."""
        if number[row] < 0:
            return ()
        kind = "topic" if reached.types[number[row]] == "topic" else "about"
        return (Link("question", str(view.ids[row]), kind, float(lift[row]), reached.names[number[row]]),)

    return replace(scored, total=total, path=path)


def reached_memories(view: ScopeView, graph: GraphScope, query: ScopeQuery) -> ReachedMemories:
    """Returns the memories under the nodes that a question finds and reaches; what a node reaches is cached."""
    depth = query.nodes.depth
    found = find_nodes(graph, query.text, query.vector, query.nodes.types, TOP_NODES, _node_filter(graph, query))

    read = cache(lambda: reach_memories(graph, view.ids, sorted(found), depth))  # once, where any is not cached
    reached = [
        (score, view.cached(f"reached {depth} {i}", partial(lambda node_id: read()[node_id], i)))
        for i, score in found.items()
    ]
    return join_reached(reached)


def _node_filter(graph: GraphScope, query: ScopeQuery) -> Callable[[Sequence[str]], Collection[str]] | None:
    """Returns which of some nodes satisfy `node_where`, by what the question may see of them; None without it."""
    if query.nodes.where is None:
        return None
    filters = query.filters
    visible = Filters(
        history=True, clock=filters.clock, include_hidden=filters.include_hidden, include_pii=filters.include_pii
    )
    served = ServedGraph(ServedScope(query.served.backend, query.scope, visible), graph)
    wanted = NodeFilter(where=query.nodes.where)
    return lambda ids: wanted.matching(served.nodes(ids))


def _score_only(view: ScopeView, query: ScopeQuery, members: np.ndarray) -> Scored | None:
    """Scores some memories by statistics of their own; None where none of them is a candidate."""
    weights, size = query.weights, len(view.ids)
    rows = members[view.allowed(query.filters)[members]]
    if len(rows) == 0:
        return None
    cosines, base = np.zeros(size), np.zeros(size)
    words = word_sums(view.postings(query.word_terms), size)
    cosines[rows] = view.cosines_of(query.vector, rows)
    stats = score_stats(cosines[rows]), score_stats(words[rows])
    base[rows] = fuse(cosines[rows], words[rows], *stats, weights.vector, weights.words)
    layout = RowLayout(Flags.from_rows(rows, size).values)
    return Scored(view.ids, layout, cosines, words, base, base, lambda row: ())
