"""The links between memories of one scope: relations, and which memory replaced which; weights of shared entities."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from palimpsest.index.index_format import DISPUTE
from palimpsest.query.scope.scope_arrays import Arrays, ranges

RELATION_LABELS = ("DERIVE", "EXTEND", "UPDATE", DISPUTE)
"""Labels of relations, ascending: arrays contain their numbers."""

PREMISE = "PREMISE"
"""The kind of a link from a conclusion to what it follows from: a DERIVE, read from the newer end."""

MAX_DF = 50  # an entity in more memories than this is too common to link two of them


def idf_weight(df: np.ndarray, memories: int) -> np.ndarray:
    """Returns the weights of entities as links, ln(N/df) / ln(N) in 0..1.

    0 for one in a single memory, and for one in over 5 % of the scope (5 memories at least, 50 at most).

    Args:
        df: in how many memories each entity is named, shape (entities,).
        memories: of the scope, N.
    """
    if memories < 2:
        return np.zeros(len(df))
    weight = np.log(memories / np.maximum(df, 1)) / np.log(memories)
    return np.where((df >= 2) & (df <= min(MAX_DF, max(5, 0.05 * memories))), np.clip(weight, 0, 1), 0.0)


@dataclass(frozen=True)
class Adjacency:
    """Values by key in compressed rows: those of key k are `values[starts[k]:starts[k + 1]]`."""

    starts: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray, values: np.ndarray, size: int) -> "Adjacency":
        """Groups values by key, in the order (key, value); both are whole numbers, 0 or more."""
        wide = int(values.max(initial=0)) + 1
        pairs = np.sort(keys.astype(np.int64) * wide + values)  # one number a pair: a fifth of what `lexsort` takes
        return cls(np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=size))]), pairs % wide)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.starts.nbytes + self.values.nbytes

    def __getitem__(self, key: int) -> np.ndarray:
        values: np.ndarray = self.values[self.starts[key] : self.starts[key + 1]]
        return values

    def of_all(self, keys: np.ndarray) -> np.ndarray:
        """Returns the values of several keys, one key after the other."""
        values: np.ndarray = self.values[ranges(self.starts[keys], self.starts[keys + 1])]
        return values


@dataclass(frozen=True)
class ScopeLinks:
    """Relations and replacements by local row.

    Attributes:
        newer: newer end of each relation.
        older: older end of each relation.
        label: of each relation, a number in `RELATION_LABELS`.
        confidence: of each relation.
        from_newer: relations by their newer end.
        from_older: relations by their older end.
        replaced: rows of the memories that each memory replaced directly, for whatever reason.
    """

    newer: np.ndarray
    older: np.ndarray
    label: np.ndarray
    confidence: np.ndarray
    from_newer: Adjacency
    from_older: Adjacency
    replaced: Adjacency

    @classmethod
    def from_arrays(cls, arrays: Arrays, size: int) -> "ScopeLinks":
        """Makes it of the part `links` of a scope of `size` memories."""
        nothing = np.zeros(0, np.int64)
        newer, older, by, was = (
            arrays.get(n, nothing).astype(np.int64) for n in ("newer", "older", "replaced_by", "replaced")
        )
        number = np.arange(len(newer))
        return cls(
            newer=newer,
            older=older,
            label=arrays.get("label", nothing),
            confidence=arrays.get("confidence", np.zeros(0)).astype(np.float64),
            from_newer=Adjacency.of(newer, number, size),
            from_older=Adjacency.of(older, number, size),
            replaced=Adjacency.of(by, was, size),
        )

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        relations = (self.newer, self.older, self.label, self.confidence, self.from_newer, self.from_older)
        return sum(a.nbytes for a in (*relations, self.replaced))

    def related(self, row: int) -> list[tuple[int, float, str]]:
        """Returns (row, confidence, label): EXTEND in both directions, UPDATE and DISPUTE to the newer memory only.

        DERIVE leads to what follows from the memory, `PREMISE` to what it follows from.
        """
        older = [(int(self.older[i]), i, RELATION_LABELS[self.label[i]]) for i in self.from_newer[row]]
        found = [
            (r, i, PREMISE if label == "DERIVE" else label) for r, i, label in older if label not in ("UPDATE", DISPUTE)
        ]
        found += [(int(self.newer[i]), i, RELATION_LABELS[self.label[i]]) for i in self.from_older[row]]
        return [(other, float(self.confidence[i]), label) for other, i, label in found]

    @cached_property
    def disputes(self) -> dict[int, list[tuple[int, float]]]:
        """For the row of each disputed memory (row, likelihood) of what disputes it, likeliest first."""
        found: dict[int, list[tuple[int, float]]] = {}
        for i in np.flatnonzero(self.label == RELATION_LABELS.index(DISPUTE)).tolist():
            found.setdefault(int(self.older[i]), []).append((int(self.newer[i]), float(self.confidence[i])))
        return {row: sorted(by, key=lambda pair: (-pair[1], pair[0])) for row, by in found.items()}

    def chain(self, row: int) -> list[int]:
        """Returns every row that this one replaced, directly or through another, ascending."""
        found: set[int] = set()
        waiting: list[int] = self.replaced[row].tolist()
        while waiting:
            older = waiting.pop()
            if older not in found and older != row:
                found.add(older)
                waiting += self.replaced[older].tolist()
        return sorted(found)
