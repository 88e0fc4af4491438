"""The strategy `turns`: vectors and words of a conversation, each turn scored with its neighbours."""

import numpy as np

from pipelines.query.turns import smooth
from pipelines.query.types import Filters, Link
from pipelines.query.view import Question, ScopeView, Scored, basis, rescaled

SHARES = (0.3, 0.15)  # of the score of a turn one and two away


def score_turns(view: ScopeView, filters: Filters, question: Question, words: float, time: float) -> Scored:
    """Scores every candidate of a scope; what is none adds nothing to its neighbours. Arguments as for `view.basis`."""
    b, order = basis(view, filters, question, words, time), view.order()
    rows, own = b.rows, b.own
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

    return Scored(view.ids, rows, b.cosines, b.words, own, total, path)


def _beside(steps: tuple[np.ndarray, np.ndarray], row: int) -> list[int]:
    return [int(at[row]) for at in steps if at[row] >= 0]
