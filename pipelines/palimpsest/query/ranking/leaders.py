"""Exact scores of the turns of a large scope that lead by estimated cosines; see `scope.estimated_cosines`."""

import numpy as np

from palimpsest.query.ranking.layout import LineLayout
from palimpsest.query.ranking.scoring import BaseScores
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.view import ScopeView

LEADERS = 400
"""Four times the candidates of a search: by its estimate no candidate falls behind so many."""


def score_leaders(view: ScopeView, query: ScopeQuery, layout: LineLayout, b: BaseScores, total: np.ndarray) -> None:
    """Puts exact cosines in place of the estimates of the best turns and their neighbors, and what follows from them.

    Mean and deviation of the cosines stay those of the estimates: their errors cancel out over so many.

    Args:
        view: the scope.
        query: the query of the scope, whose fusion is `z`.
        layout: of the scores.
        b: by estimated cosines; changed.
        total: `unworded` with shares of neighbors, and whatever else counts; changed.
    """
    deviation, shares = layout.deviation(b.cosines), query.weights.shares
    if deviation == 0:
        return
    leaders = layout.leading(total, LEADERS)
    offsets = range(-len(shares), len(shares) + 1)
    reached = layout.candidates(np.unique(np.concatenate([leaders + offset for offset in offsets])))
    exact = view.cosines_of(query.vector, layout.local_rows(reached)).astype(layout.dtype)
    change = np.zeros_like(total)
    change[reached] = (exact - b.cosines[reached]) * (query.weights.vector / deviation)
    b.cosines[reached] = exact
    for scores in (b.unworded, b.base):
        scores[reached] += change[reached]
    near = sum(share * (change[leaders - i] + change[leaders + i]) for i, share in enumerate(shares, 1))
    total[leaders] += change[leaders] + layout.smoothing_weight[leaders] * near
