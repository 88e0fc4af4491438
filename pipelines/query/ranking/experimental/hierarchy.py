"""The strategy `hierarchical`: nodes first, then the memories under them.

A question is compared with the nodes of the scope, entities and topics among them; the best are found, then what edges
reach from them. Their memories are lifted, or with `narrow` they alone are scored.
"""

from dataclasses import replace

import numpy as np

from palimpsest.query.ranking.fusion import fuse, score_stats
from palimpsest.query.ranking.scoring import Scored, base_scores, rescale
from palimpsest.query.request.types import Link
from palimpsest.query.scope.node_graph import NodeGraph, Reached
from palimpsest.query.scope.scope_arrays import word_sums
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.view import ScopeView

TOP_NODES = 5
LIFT = 0.2  # of a node's score, by the memory's relevance to it


def score_nodes(view: ScopeView, query: ScopeQuery) -> Scored:
    """Scores candidates by themselves and by the best node that has them."""
    graph, search = view.nodes(), query.nodes
    found = graph.search(query.vector, query.text, query.terms, search.types, TOP_NODES)
    reached = graph.expand(found, search.depth)
    gain, best = _gains(graph, reached, len(view.ids))
    b = _narrow_scores(view, query, best >= 0) if search.narrow and len(found.nodes) else None
    if b is None:
        full = base_scores(view, query)
        b = Scored(view.ids, full.rows, full.cosines, full.words, full.base, full.base, lambda row: ())
    lift = np.where(best >= 0, LIFT * gain, 0.0)
    total = rescale(b.base + lift, b.base, b.rows) if lift[b.rows].any() else b.base

    def path(row: int) -> tuple[Link, ...]:
        """The node that lifted it."""
        if best[row] < 0:
            return ()
        kind = "topic" if graph.types[best[row]] == "topic" else "about"
        return (Link("question", str(view.ids[row]), kind, float(lift[row]), str(graph.names[best[row]])),)

    return replace(b, total=total, path=path)


def _gains(graph: NodeGraph, reached: Reached, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns, for each memory, the score of its best node times its relevance, and that node, -1 for none."""
    gain, best = np.zeros(size), np.full(size, -1)
    place, rows, relevance = graph.memberships(reached.nodes)
    gains = reached.scores[place] * relevance
    order = np.lexsort((-place, gains))  # the best comes last, of equals the lowest number
    gain[rows[order]], best[rows[order]] = gains[order], reached.nodes[place[order]]
    return gain, best


def _narrow_scores(view: ScopeView, query: ScopeQuery, members: np.ndarray) -> Scored | None:
    """Scores only the candidates under the nodes, by statistics of their own; None where there are none."""
    weights, size = query.weights, len(view.ids)
    rows = np.flatnonzero(view.allowed(query.filters) & members)
    if len(rows) == 0:
        return None
    cosines, base = np.zeros(size), np.zeros(size)
    words = word_sums(view.postings(query.word_terms), size)
    cosines[rows] = view.cosines_of(query.vector, rows)
    stats = score_stats(cosines[rows]), score_stats(words[rows])
    base[rows] = fuse(cosines[rows], words[rows], *stats, weights.vector, weights.words)
    return Scored(view.ids, rows, cosines, words, base, base, lambda row: ())
