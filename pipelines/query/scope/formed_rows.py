"""The formed memories of a scope by local row: their kinds, and the memories they rest on."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from palimpsest.query.scope.scope_arrays import Arrays


@dataclass(frozen=True)
class FormedRows:
    """Pairs of a formed memory and one that it rests on, sorted.

    Attributes:
        rows: the formed memory of each pair.
        evidence: the other one of each pair.
        kind: number in `kinds` of each pair's formed memory.
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
        rows = self.rows[wanted]
        distinct, counts = np.unique(self.rows, return_counts=True)
        is_single = wanted & np.isin(self.rows, distinct[counts == 1])
        return np.unique(np.concatenate([rows, self.evidence[is_single]]))
