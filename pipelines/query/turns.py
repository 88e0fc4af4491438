"""Conversations: a turn is scored with what was said around it, for its session tells what it is about.

A question's words are seldom in the turn that answers it, but in the one before. So every turn's score takes a share of
its neighbours'.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


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
