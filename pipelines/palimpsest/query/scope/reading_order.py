"""What precedes and follows each memory: turns in their session, other memories in their document."""

from dataclasses import dataclass

import numpy as np

from palimpsest.query.scope.scope_arrays import Arrays

FULL_SHARE_TOKENS = 25
"""Tokens from which a turn takes the whole share of its neighbors' scores."""

REACH = 3
"""Turns away from which a turn may take a share of a score."""


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

    Local rows are in the order of ids, which are hashes: turns of one session are anywhere. So sessions are also laid
    out in a line, each turn next to the one before it and `REACH` empty places between sessions. What reads the
    neighbors of every turn reads the line from its start to its end instead of a random row for each neighbor.

    Attributes:
        order: the turns before and after each turn of its session.
        smoothing_weight: share of its neighbors' contribution that a turn takes, shape (memories,), 0 to 1: a turn of
            a few words takes less.
        places: of every memory in the line, shape (memories,) int64.
        rows: local row of the memory at each place, -1 at an empty one, shape (length,) int64.
        line_weight: `smoothing_weight` of the memory at each place, 0 at an empty one, shape (length,).
    """

    order: ReadingOrder
    smoothing_weight: np.ndarray
    places: np.ndarray
    rows: np.ndarray
    line_weight: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, next_rows: np.ndarray, tokens: np.ndarray) -> "TurnOrder":
        """Makes the order from pairs of local rows that follow each other and the tokens of every memory."""
        order, weight = ReadingOrder.of(rows, next_rows, len(tokens)), np.minimum(1.0, tokens / FULL_SHARE_TOKENS)
        places, length = _line(order.before)
        at, line_weight = np.full(length, -1), np.zeros(length)
        at[places], line_weight[places] = np.arange(len(tokens)), weight
        return cls(order, weight, places, at, line_weight)

    @classmethod
    def from_arrays(cls, arrays: Arrays, size: int) -> "TurnOrder":
        """Makes it of the part `order` of a scope of `size` memories."""
        nothing = np.zeros(0, np.int64)
        rows, following = (arrays.get(n, nothing).astype(np.int64) for n in ("row", "next_row"))
        return cls.of(rows, following, arrays.get("tokens", np.zeros(size, np.int64)))

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        arrays = (self.smoothing_weight, self.places, self.rows, self.line_weight)
        return self.order.nbytes + sum(a.nbytes for a in arrays)

    @property
    def length(self) -> int:
        """Places of the line, the empty ones at both ends included."""
        return len(self.rows)


def _line(before: np.ndarray) -> tuple[np.ndarray, int]:
    """Returns the place of each memory and the length of the line, from the row before each."""
    first, position, at = np.arange(len(before)), (before >= 0).astype(np.int64), before.copy()
    while len(follows := np.flatnonzero(at >= 0)):  # each round doubles how far back `at` is
        back = at[follows]
        first[follows] = first[back]
        position[follows] += position[back]
        at[follows] = at[back]
    sizes = np.bincount(first, minlength=len(before))
    gaps = np.where(sizes > 0, sizes + REACH, 0)
    starts = np.cumsum(gaps) - gaps + REACH
    return starts[first] + position, int(gaps.sum()) + REACH
