"""The scorer of `turns`: vectors and words of a conversation, each turn scored with its neighbors by given shares.

A question's words are seldom all in the turn that answers it; the others are in the turns around. So a turn's vector
score gets a share of its neighbors', and each word of the question counts once, where it scores best: in the turn or,
by a share, in one nearby. Adding words over neighbors as well would count one word as often as it is repeated. A turn
of a few words gets less: next to an answer, "Noted." is none.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from palimpsest.query.ranking.chat import is_chat, score_chat
from palimpsest.query.ranking.scoring import BaseScores, Scored, base_scores, rescale, z_scores
from palimpsest.query.request.strategies import Weights
from palimpsest.query.request.types import Link
from palimpsest.query.scope.reading_order import TurnOrder
from palimpsest.query.scope.scope_arrays import Postings
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.view import ScopeView


def score_turns(view: ScopeView, query: ScopeQuery) -> Scored:
    """Scores every candidate of a scope; a memory that is no candidate adds nothing to its neighbors.

    A scope with long turns of an assistant is scored by `chat`.
    """
    if query.weights.chat is not None and is_chat(view):
        return score_chat(view, query, query.weights.chat)
    weights, b, order = query.weights, base_scores(view, query), view.turn_order()
    rows, base = b.rows, b.base
    unworded = base - weights.words * z_scores(b.words, rows)
    nearby = nearby_word_scores(b.postings, order, weights.nearby, b.allowed)
    total = rescale(smooth(unworded, order, weights.shares) + weights.words * z_scores(nearby, rows), base, rows)
    scale = weights.words / max(float(nearby[rows].std()) if len(rows) else 0.0, 1e-9)

    def path(row: int) -> tuple[Link, ...]:
        return _best_neighbor(view, b, order, weights, unworded, scale, row)

    return Scored(view.ids, rows, b.cosines, b.words, base, total, path)


def smooth(scores: np.ndarray, order: TurnOrder, shares: Iterable[float]) -> np.ndarray:
    """Returns scores plus shares of those one turn away, two turns away and so on, on both sides.

    Args:
        scores: shape (memories,); 0 for memories that must not count.
        order: of the same memories.
        shares: of the neighbors at distance 1, 2, ...
    """
    added = np.zeros(len(scores))
    padded = np.append(scores, 0.0)  # row -1, no neighbor, is the last one: 0
    for distance, share in enumerate(shares, 1):
        before, after = order.steps(distance)
        added += share * (padded[before] + padded[after])
    return scores + order.smoothing_weight * added


def nearby_word_scores(
    postings: Iterable[Postings], order: TurnOrder, shares: Sequence[float], candidates: np.ndarray
) -> np.ndarray:
    """Returns the sum over terms of each turn's best score for the term, its own or a share of one nearby.

    Args:
        postings: of the question's terms.
        order: of the scope's memories.
        shares: of a term's score one, two, ... turns away, on both sides.
        candidates: which memories count, shape (memories,) bool; others add nothing to their neighbors.
    """
    out, best, own = (np.zeros(len(candidates)) for _ in range(3))
    for term in postings:
        counted = candidates[term.rows]
        rows, scores = term.rows[counted], term.scores[counted].astype(float)
        best[rows] = own[rows] = scores
        reached = [rows]
        for step in (order.order.before, order.order.after):
            at, remaining = rows, scores
            for share in shares:
                at = step[at]
                at, remaining = at[at >= 0], remaining[at >= 0]
                best[at] = np.maximum(best[at], share * remaining)
                reached.append(at)
        for at in reached:  # most terms reach few turns of a large scope; a turn reached twice adds 0 the second time
            out[at] += own[at] + order.smoothing_weight[at] * (best[at] - own[at])
            best[at] = own[at] = 0.0
    return out


def _best_neighbor(
    view: ScopeView,
    b: BaseScores,
    order: TurnOrder,
    weights: Weights,
    unworded: np.ndarray,
    scale: float,
    row: int,
) -> tuple[Link, ...]:
    """Returns the link from the neighbor that adds most: of its base score, and by words that score better there."""
    smoothing = float(order.smoothing_weight[row])
    gains = {at: smoothing * share * float(unworded[at]) for at, share in _around(order, row, weights.shares)}
    near = [(at, share) for at, share in _around(order, row, weights.nearby) if b.allowed[at]]
    for term in b.postings:
        (here,) = term.scores_of(np.array([row]))
        there = term.scores_of(np.array([at for at, _ in near], np.int64)) * [share for _, share in near]
        if len(near) and there.max() > here:
            best = near[int(there.argmax())][0]
            gains[best] = gains.get(best, 0.0) + smoothing * scale * float(there.max() - here)
    gain, source = max(((g, -at) for at, g in gains.items()), default=(0.0, 0))
    return (Link(str(view.ids[-source]), str(view.ids[row]), "near", gain),) if gain > 0 else ()


def _around(order: TurnOrder, row: int, shares: tuple[float, ...]) -> list[tuple[int, float]]:
    """Returns the turns around one with the share of each."""
    return [(at, shares[abs(offset) - 1]) for offset, at in order.order.neighbors(row, len(shares))]
