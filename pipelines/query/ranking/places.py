"""The places of memories: what stands before and after each, in its session or its document."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Places:
    """Local rows of what stands before and after each memory, shape (memories,) int64; -1 where nothing does."""

    before: np.ndarray
    after: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, next_rows: np.ndarray, size: int) -> "Places":
        """Makes the places of `size` memories from pairs of local rows that follow each other."""
        before, after = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
        after[rows], before[next_rows] = next_rows, rows
        return cls(before, after)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.before.nbytes + self.after.nbytes

    def around(self, row: int, reach: int) -> list[tuple[int, int]]:
        """Returns (place, row) of what stands up to `reach` places away: nearest first, before it first."""
        found = []
        low = high = row
        for distance in range(1, reach + 1):
            low, high = (int(self.before[low]) if low >= 0 else -1), (int(self.after[high]) if high >= 0 else -1)
            found += [(place, at) for place, at in ((-distance, low), (distance, high)) if at >= 0]
        return found
