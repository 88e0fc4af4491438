"""A scope as dense arrays by local row: what rankers need that look at every memory, the same over every backend."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pipelines.query.fusion import moments, standardise
from pipelines.query.passages import PassageGraph, Sentences
from pipelines.query.scope_cache import Postings
from pipelines.query.turns import TurnOrder
from pipelines.query.types import Filters, Link


class ScopeView(Protocol):
    """One scope of one build. Local rows are in the order of memory ids."""

    @property
    def ids(self) -> np.ndarray:
        """Memory ids, ascending, shape (memories,) object."""

    def allowed(self, filters: Filters) -> np.ndarray:
        """Returns which memories are candidates, shape (memories,) bool."""

    def cosines(self, vector: np.ndarray) -> np.ndarray:
        """Returns the cosine of each memory's best window with a unit vector, shape (memories,) float64."""

    def postings(self, terms: Sequence[str]) -> list[Postings]:
        """Returns the postings of terms, in the order of the terms' names."""

    def passages(self) -> PassageGraph:
        """Returns which memories name which entities, and whose titles they are."""

    def sentences(self, rows: np.ndarray) -> Sentences:
        """Returns the sentences of some memories, by local row; memories without any are left out."""

    def order(self) -> TurnOrder:
        """Returns which turns follow each other."""


@dataclass(frozen=True)
class Scored:
    """Every memory of a scope, scored.

    Attributes:
        ids: memory ids, ascending, shape (memories,).
        rows: local rows of the candidates.
        cosines: of every memory.
        words: BM25 sums of every memory.
        own: weighted sum of the z-scores of both; 0 for what is no candidate.
        total: what to rank by, on the scale of `own`.
        path: tells the links over which a memory, by local row, got what `total` has and `own` has not.
    """

    ids: np.ndarray
    rows: np.ndarray
    cosines: np.ndarray
    words: np.ndarray
    own: np.ndarray
    total: np.ndarray
    path: Callable[[int], tuple[Link, ...]]


def among(scores: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns z-scores over the candidates `rows`; 0 for every other memory."""
    out = np.zeros(len(scores))
    if len(rows):
        out[rows] = standardise(scores[rows], moments(scores[rows]))
    return out


def word_sums(postings: Sequence[Postings], size: int) -> np.ndarray:
    """Returns the BM25 sum of each of `size` memories."""
    sums = np.zeros(size)
    for term in postings:
        sums[term.rows] += term.scores
    return sums


def rescaled(total: np.ndarray, own: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns `total` with the mean and deviation that `own` has over the candidates: scores of all strategies compare.

    What is no candidate is 0.
    """
    return among(total, rows) * (float(own[rows].std()) if len(rows) else 0.0)
