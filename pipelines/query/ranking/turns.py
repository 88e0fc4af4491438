"""Conversations: a turn is scored with what was said around it, for its session tells what it is about.

A question's words are seldom all in the turn that answers it; the others are in the turns around. So a turn's vector
score takes a share of its neighbours', and each word of the question counts once, where it was said best: in the turn
or, by a share, in one nearby. Adding words up over neighbours as well would count one word as often as it is repeated.
A turn of a few words takes on less: beside an answer, "Noted." is none.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from palimpsest.query.ranking.places import Places
from palimpsest.query.ranking.scope_cache import Postings

_WHOLE = 25  # tokens from which a turn takes on all that its neighbours give


@dataclass(frozen=True)
class TurnOrder:
    """How the turns of a scope follow each other.

    Attributes:
        places: what was said before and after each turn of its session.
        takes: share of what its neighbours give that a turn takes on, shape (memories,), 0 to 1.
    """

    places: Places
    takes: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, next_rows: np.ndarray, tokens: np.ndarray) -> "TurnOrder":
        """Makes the order from pairs of local rows that follow each other and the tokens of every memory."""
        return cls(Places.of(rows, next_rows, len(tokens)), np.minimum(1.0, tokens / _WHOLE))

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.places.nbytes + self.takes.nbytes

    def steps(self, distance: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the rows so many turns before and after each; -1 where the session does not reach so far."""
        before, after = self.places.before, self.places.after
        for _ in range(distance - 1):
            before = np.where(before >= 0, self.places.before[before], -1)
            after = np.where(after >= 0, self.places.after[after], -1)
        return before, after


def smooth(scores: np.ndarray, order: TurnOrder, shares: Iterable[float]) -> np.ndarray:
    """Returns scores with a share of those one turn away, two turns away and so on taken on, on both sides.

    Args:
        scores: shape (memories,); 0 for what must not count.
        order: of the same memories.
        shares: of the neighbours at distance 1, 2, ...
    """
    given = np.zeros(len(scores))
    padded = np.append(scores, 0.0)  # -1 finds the last one: nothing
    for distance, share in enumerate(shares, 1):
        before, after = order.steps(distance)
        given += share * (padded[before] + padded[after])
    return scores + order.takes * given


def said_nearby(
    postings: Iterable[Postings], order: TurnOrder, shares: Sequence[float], candidates: np.ndarray
) -> np.ndarray:
    """Returns the sum over terms of the best that a turn says of each or takes on from one near it, shape (memories,).

    Args:
        postings: of the question's terms.
        order: of the scope's memories.
        shares: of a term's score one, two, ... turns away, on both sides.
        candidates: which memories count, shape (memories,) bool; others say nothing to their neighbours.
    """
    out = np.zeros(len(candidates))
    for term in postings:
        said = candidates[term.rows]
        rows, scores = term.rows[said], term.scores[said].astype(float)
        best, own = np.zeros(len(candidates)), np.zeros(len(candidates))
        best[rows] = own[rows] = scores
        for step in (order.places.before, order.places.after):
            at, left = rows, scores
            for share in shares:
                at = step[at]
                at, left = at[at >= 0], left[at >= 0]
                best[at] = np.maximum(best[at], share * left)
        out += own + order.takes * (best - own)
    return out
