"""The strategy `turns`: vectors and words of a conversation, each turn scored with its neighbours."""

import numpy as np

from palimpsest.query.ranking.turns import TurnOrder, said_nearby, smooth
from palimpsest.query.ranking.view import Question, ScopeView, Scored, among, basis, rescaled
from palimpsest.query.request.strategies import Weights
from palimpsest.query.request.types import Filters, Link


def score_turns(view: ScopeView, filters: Filters, question: Question, weights: Weights) -> Scored:
    """Scores every candidate of a scope; what is none adds nothing to its neighbours. Arguments as for `view.basis`."""
    b, order = basis(view, filters, question, weights), view.order()
    rows, own = b.rows, b.own
    unworded = own - weights.words * among(b.words, rows)
    nearby = said_nearby(b.postings, order, weights.nearby, b.allowed)
    total = rescaled(smooth(unworded, order, weights.shares) + weights.words * among(nearby, rows), own, rows)
    scale = weights.words / max(float(nearby[rows].std()) if len(rows) else 0.0, 1e-9)

    def path(row: int) -> tuple[Link, ...]:
        """The neighbour that adds most: of its own score, and by words that it says better."""
        takes = float(order.takes[row])
        gains = {at: takes * share * float(unworded[at]) for at, share in _around(order, row, weights.shares)}
        near = [(at, share) for at, share in _around(order, row, weights.nearby) if b.allowed[at]]
        for term in b.postings:
            (here,) = term.scores_of(np.array([row]))
            said = term.scores_of(np.array([at for at, _ in near], np.int64)) * [share for _, share in near]
            if len(near) and said.max() > here:
                best = near[int(said.argmax())][0]
                gains[best] = gains.get(best, 0.0) + takes * scale * float(said.max() - here)
        gain, source = max(((g, -at) for at, g in gains.items()), default=(0.0, 0))
        return (Link(str(view.ids[-source]), str(view.ids[row]), "near", gain),) if gain > 0 else ()

    return Scored(view.ids, rows, b.cosines, b.words, own, total, path)


def _around(order: TurnOrder, row: int, shares: tuple[float, ...]) -> list[tuple[int, float]]:
    """Returns the turns around one with the share of each."""
    return [(at, shares[abs(place) - 1]) for place, at in order.places.around(row, len(shares))]
