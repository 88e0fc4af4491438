"""Where each memory of a scope is in the arrays of scores of one query, and the statistics of its candidates.

Most scorers keep the score of a memory at its local row. A scorer that reads the neighbors of every turn keeps the
scores of a session next to each other: see `TurnOrder`.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from palimpsest.query.ranking.fusion import center, leading, score_stats, top, unit_deviation, z_values
from palimpsest.query.scope.reading_order import TurnOrder
from palimpsest.query.scope.scope_arrays import MANY, Postings


class Layout(ABC):
    """Arrays of scores of one query.

    Attributes:
        allowed: whether each memory is a candidate, shape (memories,) bool; read-only.
        rows: local rows of the candidates, ascending.
        size: length of an array of scores.
        dtype: of the scores.
    """

    def __init__(self, allowed: np.ndarray, size: int, dtype: type[np.floating[Any]] = np.float64):
        self.allowed, self.size, self.dtype, self.rows = allowed, size, dtype, np.flatnonzero(allowed)
        self._at_candidates = self.places(self.rows)

    @abstractmethod
    def places(self, rows: np.ndarray) -> np.ndarray:
        """Returns where the scores of some local rows are."""

    @abstractmethod
    def place(self, postings: Postings) -> Postings:
        """Returns the postings of a term with places instead of local rows; those of no candidate may be left out."""

    @abstractmethod
    def lay_out(self, scores: np.ndarray) -> np.ndarray:
        """Returns scores of every memory, by local row, as an array of scores; 0 where there is no candidate."""

    @abstractmethod
    def z(self, scores: np.ndarray) -> np.ndarray:
        """Returns the z-scores of the candidates over them; 0 elsewhere, where `scores` may be anything or 0."""

    @abstractmethod
    def deviation(self, scores: np.ndarray) -> float:
        """Returns the standard deviation of the scores of the candidates."""

    @abstractmethod
    def best(self, scores: np.ndarray, n: int) -> np.ndarray:
        """Returns the local rows of the `n` candidates that score best, in no order; ties to the lower row."""

    def gather(self, scores: np.ndarray) -> np.ndarray:
        """Returns the scores of the candidates, in the order of `rows`."""
        found: np.ndarray = scores[self._at_candidates]
        return found

    def scatter(self, scores: np.ndarray) -> np.ndarray:
        """Returns the scores of the candidates, in the order of `rows`, as an array of scores; 0 elsewhere."""
        out = np.zeros(self.size, self.dtype)
        out[self._at_candidates] = scores
        return out


class RowLayout(Layout):
    """The score of a memory is at its local row."""

    def __init__(self, allowed: np.ndarray):
        super().__init__(allowed, len(allowed))

    def places(self, rows: np.ndarray) -> np.ndarray:
        """See Layout."""
        return rows

    def place(self, postings: Postings) -> Postings:
        """See Layout."""
        return postings

    def lay_out(self, scores: np.ndarray) -> np.ndarray:
        """See Layout."""
        return np.where(self.allowed, scores, 0.0)

    def z(self, scores: np.ndarray) -> np.ndarray:
        """See Layout."""
        return self.scatter(z_values(self.gather(scores)))

    def deviation(self, scores: np.ndarray) -> float:
        """See Layout."""
        return score_stats(self.gather(scores)).std

    def best(self, scores: np.ndarray, n: int) -> np.ndarray:
        """See Layout."""
        found: np.ndarray = self.rows[top(self.gather(scores), n)]
        return found


class LineLayout(Layout):
    """The scores of turns are in the line of a `TurnOrder`; arrays are 0 where there is no candidate.

    Most memories of a scope are candidates, so a pass over the whole line takes less than picking them out of it.
    Scores of a long line are float32: a query takes as long as it reads and writes memory.
    """

    def __init__(self, allowed: np.ndarray, order: TurnOrder):
        self._order = order
        super().__init__(allowed, order.length, np.float32 if order.length > MANY else np.float64)
        self.mask = np.zeros(self.size, bool)
        self.mask[self._at_candidates] = True
        self.smoothing_weight = (order.line_weight * self.mask).astype(self.dtype)

    @property
    def nbytes(self) -> int:
        """Size in bytes; the order is not counted."""
        arrays = (self.allowed, self.rows, self._at_candidates, self.mask, self.smoothing_weight)
        return sum(a.nbytes for a in arrays)

    def places(self, rows: np.ndarray) -> np.ndarray:
        """See Layout."""
        found: np.ndarray = self._order.places[rows]
        return found

    def local_rows(self, places: np.ndarray) -> np.ndarray:
        """Returns the local rows of the memories at some places; -1 where there is none."""
        found: np.ndarray = self._order.rows[places]
        return found

    def candidates(self, places: np.ndarray) -> np.ndarray:
        """Returns those of some places that have a candidate."""
        found: np.ndarray = places[self.mask[places]]
        return found

    def leading(self, scores: np.ndarray, n: int) -> np.ndarray:
        """Returns the places of candidates that include the `n` best, ascending."""
        return self.candidates(leading(np.where(self.mask, scores, -np.inf), n))

    def place(self, postings: Postings) -> Postings:
        """See Layout."""
        counted = self.allowed[postings.rows]
        return Postings(self.places(postings.rows[counted]), postings.scores[counted].astype(self.dtype))

    def lay_out(self, scores: np.ndarray) -> np.ndarray:
        """See Layout."""
        return np.where(self.mask, scores.astype(self.dtype, copy=False)[self._order.rows], self.dtype(0))

    def z(self, scores: np.ndarray) -> np.ndarray:
        """See Layout; `scores` must be 0 where there is no candidate."""
        return unit_deviation(*center(scores, self.mask, len(self.rows)))

    def deviation(self, scores: np.ndarray) -> float:
        """See Layout; `scores` must be 0 where there is no candidate."""
        return center(scores, self.mask, len(self.rows))[1].std

    def best(self, scores: np.ndarray, n: int) -> np.ndarray:
        """See Layout."""
        rows = np.sort(self.local_rows(self.leading(scores, n)))
        found: np.ndarray = rows[top(scores[self.places(rows)], n)]
        return found
