"""The strategy `turns`: vectors and words of a conversation, each turn scored with its neighbours."""

from collections.abc import Sequence

import numpy as np

from pipelines.query.turns import smooth
from pipelines.query.types import Filters, Link
from pipelines.query.view import ScopeView, Scored, among, rescaled, word_sums

SHARES = (0.3, 0.15)  # of the score of a turn one and two away


def score_turns(
    view: ScopeView, filters: Filters, vector: np.ndarray, terms: Sequence[str], word_weight: float
) -> Scored:
    """Scores every candidate of a scope; what is none adds nothing to its neighbours.

    Args:
        view: the scope.
        filters: which memories are candidates.
        vector: the query's unit vector.
        terms: the query's terms.
        word_weight: of z(BM25) beside z(cosine).
    """
    rows, order = np.flatnonzero(view.allowed(filters)), view.order()
    cosines, words = view.cosines(vector), word_sums(view.postings(terms), len(view.ids))
    own = among(cosines, rows) + word_weight * among(words, rows)
    total = rescaled(smooth(own, order, SHARES), own, rows)

    def path(row: int) -> tuple[Link, ...]:
        """The neighbour that adds most."""
        best = max(
            ((share * own[n], -n, share) for d, share in enumerate(SHARES, 1) for n in _beside(order.steps(d), row)),
            default=None,
        )
        if best is None or best[0] <= 0:
            return ()
        return (Link(str(view.ids[-best[1]]), str(view.ids[row]), "beside", best[2]),)

    return Scored(view.ids, rows, cosines, words, own, total, path)


def _beside(steps: tuple[np.ndarray, np.ndarray], row: int) -> list[int]:
    return [int(at[row]) for at in steps if at[row] >= 0]
