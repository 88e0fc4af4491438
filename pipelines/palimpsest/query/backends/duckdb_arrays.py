"""What the DuckDB backend caches of a scope besides the arrays that scorers read: ids, terms, memories."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from palimpsest.query.request.types import Memory
from palimpsest.query.scope.scope_arrays import Postings


@dataclass(frozen=True)
class ScopeIds:
    """Memory ids by local row, ascending."""

    values: np.ndarray

    @property
    def nbytes(self) -> int:
        """Size in bytes: about 73 for each string of 16 characters."""
        return 73 * len(self.values)


@dataclass(frozen=True)
class Vocabulary:
    """Every term of a scope and its postings."""

    postings: dict[str, Postings]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return sum(p.nbytes for p in self.postings.values())


@dataclass(frozen=True)
class TermIndex:
    """Where the postings of a scope's terms are: terms, ascending, the first posting of each and how many."""

    names: np.ndarray
    first: np.ndarray
    df: np.ndarray

    @property
    def nbytes(self) -> int:
        """Size in bytes: about 64 for each term."""
        return 64 * len(self.names) + self.first.nbytes + self.df.nbytes

    def find(self, terms: Iterable[str]) -> list[tuple[str, int, int]]:
        """Returns (term, first, df) of those terms that occur, ascending."""
        found = []
        for term in sorted(set(terms)):
            at = int(np.searchsorted(self.names, term))
            if at < len(self.names) and self.names[at] == term:
                found.append((term, int(self.first[at]), int(self.df[at])))
        return found


@dataclass(frozen=True)
class CachedMemories:
    """Memories in the order of their rows: those of a small scope, or one of a larger scope."""

    values: Sequence[Memory]

    @property
    def nbytes(self) -> int:
        """Size in bytes: about 1,500 for a memory without its text."""
        return sum(1500 + 2 * len(m.text) for m in self.values)
