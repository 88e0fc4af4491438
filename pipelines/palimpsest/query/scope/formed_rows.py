"""The formed memories of a scope by local row: their kinds, and the memories they rest on."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from palimpsest.query.scope.scope_arrays import Arrays


@dataclass(frozen=True)
class FormedRows:
    """Pairs of a formed memory and one that it rests on, sorted.

    Attributes:
        rows: the formed memory of each pair.
        evidence: the other one of each pair.
        kind: number in `kinds` of each pair's formed memory, -1 for none.
        kinds: names of kinds of items.
    """

    rows: np.ndarray
    evidence: np.ndarray
    kind: np.ndarray
    kinds: tuple[str, ...]

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "FormedRows":
        """Makes it of the part `formed` of a scope."""
        nothing = np.zeros(0, np.int64)
        rows, evidence, kind = (np.asarray(arrays.get(n, nothing), np.int64) for n in ("row", "evidence", "kind"))
        return cls(rows, evidence, kind, tuple(str(k) for k in arrays.get("kinds", ())))

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.rows.nbytes + self.evidence.nbytes + self.kind.nbytes

    def of_kinds(self, kinds: Collection[str]) -> np.ndarray:
        """Returns the rows of formed memories of some kinds, and of the memory that one rests on where it is one."""
        wanted = np.isin(self.kind, [i for i, name in enumerate(self.kinds) if name in kinds])
        return np.unique(np.concatenate([self.rows[wanted], self.evidence[wanted & self._is_single]]))

    @cached_property
    def _is_single(self) -> np.ndarray:
        """Which pairs are the only one of their formed memory, shape (pairs,) bool."""
        is_single: np.ndarray = np.bincount(self.rows)[self.rows] == 1
        return is_single
