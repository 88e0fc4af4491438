"""What precedes and follows each memory: turns in their session, other memories in their document."""

from dataclasses import dataclass

import numpy as np

from palimpsest.query.scope.scope_arrays import Arrays

FULL_SHARE_TOKENS = 25
"""Tokens from which a turn takes the whole share of its neighbors' scores."""


@dataclass(frozen=True)
class ReadingOrder:
    """Local rows of the memories before and after each, shape (memories,) int64; -1 where there is none."""

    before: np.ndarray
    after: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, next_rows: np.ndarray, size: int) -> "ReadingOrder":
        """Makes the order of `size` memories from pairs of local rows that follow each other."""
        before, after = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
        after[rows], before[next_rows] = next_rows, rows
        return cls(before, after)

    @classmethod
    def from_arrays(cls, turns: Arrays, documents: Arrays, size: int) -> "ReadingOrder":
        """Makes it of the parts `order` and `written` of a scope of `size` memories."""
        found = [part for part in (turns, documents) if part]
        nothing = np.zeros(0, np.int64)
        rows, following = (np.concatenate([nothing, *(part[n] for part in found)]) for n in ("row", "next_row"))
        return cls.of(rows, following, size)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.before.nbytes + self.after.nbytes

    def neighbors(self, row: int, reach: int) -> list[tuple[int, int]]:
        """Returns (offset, row) of the memories up to `reach` away: nearest first, the one before first."""
        found = []
        low = high = row
        for distance in range(1, reach + 1):
            low, high = (int(self.before[low]) if low >= 0 else -1), (int(self.after[high]) if high >= 0 else -1)
            found += [(offset, at) for offset, at in ((-distance, low), (distance, high)) if at >= 0]
        return found


@dataclass(frozen=True)
class TurnOrder:
    """How the turns of a scope follow each other.

    Attributes:
        order: the turns before and after each turn of its session.
        smoothing_weight: share of its neighbors' contribution that a turn takes, shape (memories,), 0 to 1: a turn of
            a few words takes less.
    """

    order: ReadingOrder
    smoothing_weight: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, next_rows: np.ndarray, tokens: np.ndarray) -> "TurnOrder":
        """Makes the order from pairs of local rows that follow each other and the tokens of every memory."""
        return cls(ReadingOrder.of(rows, next_rows, len(tokens)), np.minimum(1.0, tokens / FULL_SHARE_TOKENS))

    @classmethod
    def from_arrays(cls, arrays: Arrays, size: int) -> "TurnOrder":
        """Makes it of the part `order` of a scope of `size` memories."""
        nothing = np.zeros(0, np.int64)
        rows, following = (arrays.get(n, nothing).astype(np.int64) for n in ("row", "next_row"))
        return cls.of(rows, following, arrays.get("tokens", np.zeros(size, np.int64)))

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.order.nbytes + self.smoothing_weight.nbytes

    def steps(self, distance: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the rows so many turns before and after each; -1 where the session does not reach so far."""
        before, after = self.order.before, self.order.after
        for _ in range(distance - 1):
            before = np.where(before >= 0, self.order.before[before], -1)
            after = np.where(after >= 0, self.order.after[after], -1)
        return before, after
