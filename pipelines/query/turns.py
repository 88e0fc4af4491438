"""Conversations: a turn is scored with what was said around it, for its session tells what it is about.

A question's words are seldom in the turn that answers it, but in the one before. So every turn's score takes a share of
its neighbours' (smoothing), words also count where a neighbour says them, and where the build embedded each turn with
its neighbours, the question is compared with that as well.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pipelines.query.scope_cache import Postings


@dataclass(frozen=True)
class TurnOrder:
    """Local rows of the turn before and after each turn of its session, shape (memories,) int64; -1 where none is."""

    before: np.ndarray
    after: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, next_rows: np.ndarray, size: int) -> "TurnOrder":
        """Makes the order of `size` memories from pairs of local rows that follow each other."""
        before, after = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
        after[rows], before[next_rows] = next_rows, rows
        return cls(before, after)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.before.nbytes + self.after.nbytes

    def steps(self, distance: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the rows so many turns before and after each; -1 where the session does not reach so far."""
        before, after = self.before, self.after
        for _ in range(distance - 1):
            before = np.where(before >= 0, self.before[before], -1)
            after = np.where(after >= 0, self.after[after], -1)
        return before, after


def smooth(scores: np.ndarray, order: TurnOrder, shares: Iterable[float]) -> np.ndarray:
    """Returns scores with a share of those one turn away, two turns away and so on added, on both sides.

    Args:
        scores: shape (memories,); 0 for what must not count.
        order: of the same memories.
        shares: of the neighbours at distance 1, 2, ...
    """
    out = scores.copy()
    padded = np.append(scores, 0.0)  # -1 finds the last one: nothing
    for distance, share in enumerate(shares, 1):
        before, after = order.steps(distance)
        out += share * (padded[before] + padded[after])
    return out


def words_around(postings: Iterable[Postings], order: TurnOrder, counted: np.ndarray) -> np.ndarray:
    """Returns the BM25 sum of each turn over the terms that it or a neighbour of it has, shape (memories,).

    A term counts once, as much as in the turn of the three that it scores best in: what is asked for together may be
    said in turns that follow each other.

    Args:
        postings: of the query's terms, in the order of the terms: sums of floats depend on it.
        order: of the turns.
        counted: which memories may count, shape (memories,) bool.
    """
    total = np.zeros(len(counted))
    padded = np.zeros(len(counted) + 1)
    for term in postings:
        rows = term.rows[counted[term.rows]]
        if len(rows) == 0:
            continue
        padded[rows] = term.scores[counted[term.rows]]
        total += np.maximum(padded[:-1], np.maximum(padded[order.before], padded[order.after]))
        padded[rows] = 0.0
    return total
