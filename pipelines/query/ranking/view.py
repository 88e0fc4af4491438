"""A scope as dense arrays by local row: what rankers need that look at every memory, the same over every backend."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from palimpsest.query.ranking.fusion import moments, reciprocal_ranks, standardise
from palimpsest.query.ranking.named import Named
from palimpsest.query.ranking.passage_graph import PassageGraph, Sentences
from palimpsest.query.ranking.places import Places
from palimpsest.query.ranking.priors import Standing, standing_scores, stands
from palimpsest.query.ranking.scope_cache import Postings, Topics
from palimpsest.query.ranking.turns import TurnOrder
from palimpsest.query.request.strategies import Weights
from palimpsest.query.request.types import Filters, Link
from palimpsest.text.memory_periods import MemoryPeriods
from palimpsest.text.periods import Period


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

    def passages(self) -> PassageGraph | None:
        """Returns which memories name which entities, and whose titles they are; None where no names are held."""

    def sentences(self, rows: np.ndarray) -> Sentences:
        """Returns the sentences of some memories, by local row; memories without any are left out."""

    def periods(self) -> MemoryPeriods:
        """Returns the periods that memories state or were observed in."""

    def topics(self) -> Topics:
        """Returns which memories belong to which topics."""

    def named(self) -> Named:
        """Returns the entities whose names tell something, and the memories that name them."""

    def order(self) -> TurnOrder:
        """Returns which turns follow each other."""

    def places(self) -> Places:
        """Returns what stands before and after memories, turns in their sessions and others in their documents."""

    def standing(self) -> Standing:
        """Returns how new, how much supported and how important memories are."""


class HeldParts(ABC):
    """The parts of a ScopeView that every store makes once and holds under a name."""

    def order(self) -> TurnOrder:
        """See ScopeView."""
        held: TurnOrder = self._held("order", self._load_order)
        return held

    def periods(self) -> MemoryPeriods:
        """See ScopeView."""
        held: MemoryPeriods = self._held("periods", self._load_periods)
        return held

    def topics(self) -> Topics:
        """See ScopeView."""
        held: Topics = self._held("topics", self._load_topics)
        return held

    def named(self) -> Named:
        """See ScopeView."""
        held: Named = self._held("named", self._load_named)
        return held

    def places(self) -> Places:
        """See ScopeView."""
        held: Places = self._held("places", self._load_places)
        return held

    def standing(self) -> Standing:
        """See ScopeView."""
        held: Standing = self._held("standing", self._load_standing)
        return held

    @abstractmethod
    def _held(self, name: str, load: Callable[[], Any]) -> Any:
        """Returns what is held under a name, made by `load` where it is not."""

    @abstractmethod
    def _load_order(self) -> TurnOrder: ...

    @abstractmethod
    def _load_periods(self) -> MemoryPeriods: ...

    @abstractmethod
    def _load_topics(self) -> Topics: ...

    @abstractmethod
    def _load_named(self) -> Named: ...

    @abstractmethod
    def _load_places(self) -> Places: ...

    @abstractmethod
    def _load_standing(self) -> Standing: ...


@dataclass(frozen=True)
class Question:
    """A question as rankers take it.

    Attributes:
        vector: unit vector, shape (384,) float32.
        terms: its distinct terms.
        text: the question itself.
        period: what it asks about by time, in years.
        now: when it is asked, in seconds since 1970; without it the newest memory of the scope is new.
    """

    vector: np.ndarray
    terms: Sequence[str]
    text: str = ""
    period: Period | None = None
    now: float | None = None


@dataclass(frozen=True)
class Basis:
    """What every ranker starts from: see `Scored`; `postings` are those of the question's terms.

    `allowed` tells of every memory whether it is among the candidates `rows`; nothing may write to it.
    """

    allowed: np.ndarray
    rows: np.ndarray
    cosines: np.ndarray
    words: np.ndarray
    own: np.ndarray
    postings: list[Postings]


@dataclass(frozen=True)
class Scored:
    """Every memory of a scope, scored.

    Attributes:
        ids: memory ids, ascending, shape (memories,).
        rows: local rows of the candidates.
        cosines: of every memory.
        words: BM25 sums of every memory.
        own: weighted sum of the z-scores of both, of overlap with the period asked for, and of what a memory's standing
            adds; 0 for what is no candidate.
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


def basis(view: ScopeView, filters: Filters, question: Question, weights: Weights) -> Basis:
    """Scores every candidate by itself: z(cosine), z(BM25), z(overlap with the period asked for) and its standing.

    Args:
        view: the scope.
        filters: which memories are candidates.
        question: the question; without a period that part is 0.
        weights: of the strategy.
    """
    allowed, size = view.allowed(filters), len(view.ids)
    rows = np.flatnonzero(allowed)
    postings = view.postings(question.terms)
    cosines, sums = view.cosines(question.vector), word_sums(postings, size)
    own = _fused(cosines, sums, rows, weights)
    if question.period is not None and weights.time > 0:
        own += weights.time * among(view.periods().fit_scores(question.period, size), rows)
    if stands(weights):
        own += standing_scores(view.standing(), rows, weights, question.now)
    return Basis(allowed, rows, cosines, sums, own, postings)


def _fused(cosines: np.ndarray, sums: np.ndarray, rows: np.ndarray, weights: Weights) -> np.ndarray:
    """Returns vectors and words as one score of every memory; a memory without any word of the question has no rank."""
    if weights.fusion == "z":
        return weights.vector * among(cosines, rows) + weights.words * among(sums, rows)
    out = np.zeros(len(cosines))
    ranks = weights.vector * reciprocal_ranks(cosines[rows]) + weights.words * reciprocal_ranks(sums[rows], floor=0.0)
    out[rows] = ranks
    return among(out, rows)


def score_alone(view: ScopeView, filters: Filters, question: Question, weights: Weights) -> Scored:
    """Scores every candidate by itself, and nothing over links; arguments as for `basis`."""
    b = basis(view, filters, question, weights)
    return Scored(view.ids, b.rows, b.cosines, b.words, b.own, b.own, lambda row: ())


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
