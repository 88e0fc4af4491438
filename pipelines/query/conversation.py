"""The strategy `turns`: vectors and words of a conversation, each turn scored with its neighbours."""

from pipelines.query.strategies import Weights
from pipelines.query.turns import smooth
from pipelines.query.types import Filters, Link
from pipelines.query.view import Question, ScopeView, Scored, basis, rescaled


def score_turns(view: ScopeView, filters: Filters, question: Question, weights: Weights) -> Scored:
    """Scores every candidate of a scope; what is none adds nothing to its neighbours. Arguments as for `view.basis`."""
    b, order = basis(view, filters, question, weights), view.order()
    rows, own = b.rows, b.own
    total = rescaled(smooth(own, order, weights.shares), own, rows)

    def path(row: int) -> tuple[Link, ...]:
        """The neighbour that adds most."""
        best: tuple[float, float, int] | None = None
        for step in (order.before, order.after):
            at = row
            for share in weights.shares:
                at = int(step[at])
                if at < 0:
                    break
                if share * own[at] > (best[0] if best else 0.0):
                    best = (share * float(own[at]), share, at)
        return (Link(str(view.ids[best[2]]), str(view.ids[row]), "beside", best[1]),) if best else ()

    return Scored(view.ids, rows, b.cosines, b.words, own, total, path)
