"""Base scores of every memory of a scope, which all scorers start from."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from palimpsest.query.ranking.experimental.reciprocal_ranks import reciprocal_ranks
from palimpsest.query.ranking.layout import Layout, RowLayout
from palimpsest.query.ranking.priors import prior_scores, uses_priors
from palimpsest.query.ranking.window_bias import without_window_bias
from palimpsest.query.request.strategies import Weights
from palimpsest.query.request.types import Link
from palimpsest.query.scope.scope_arrays import Postings, word_sums
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.threads import threads_for
from palimpsest.query.scope.view import ScopeView


@dataclass(frozen=True)
class BaseScores:
    """What every scorer starts from: see `Scored`.

    Attributes:
        layout: where the memories are in the arrays of scores, and which of them are candidates.
        cosines, words, base: see `Scored`.
        unworded: `base` without the z-scores of words.
        postings: of the query's terms, by local row.
        placed: the same, by place in the arrays of scores.
    """

    layout: Layout
    cosines: np.ndarray
    words: np.ndarray
    base: np.ndarray
    unworded: np.ndarray
    postings: list[Postings]
    placed: list[Postings]

    @property
    def allowed(self) -> np.ndarray:
        """Whether each memory is a candidate, by local row; read-only."""
        return self.layout.allowed

    @property
    def rows(self) -> np.ndarray:
        """Local rows of the candidates."""
        return self.layout.rows


@dataclass(frozen=True)
class Scored:
    """The memories of a scope, scored.

    Attributes:
        ids: memory ids, ascending, shape (memories,).
        layout: where the memories are in the arrays of scores, and which of them are candidates.
        cosines: of every candidate, by its place in `layout`, as all scores are.
        words: BM25 sums of every candidate.
        base: weighted sum of the z-scores of both (of cosines without their bias by windows), of the overlap with the
            question's period, and of the priors; 0 for memories that are no candidates.
        total: the ranking score, on the scale of `base`.
        path: returns the links over which a memory, by local row, got the difference of `total` and `base`.
    """

    ids: np.ndarray
    layout: Layout
    cosines: np.ndarray
    words: np.ndarray
    base: np.ndarray
    total: np.ndarray
    path: Callable[[int], tuple[Link, ...]]

    @property
    def rows(self) -> np.ndarray:
        """Local rows of the candidates."""
        return self.layout.rows


def base_scores(
    view: ScopeView, query: ScopeQuery, layout: Layout | None = None, cosines: np.ndarray | None = None
) -> BaseScores:
    """Scores every candidate by itself: z(cosine), z(BM25), z(overlap with the question's period) and its priors.

    Args:
        view: the scope.
        query: the query of the scope.
        layout: of the arrays of scores; by default a memory is at its local row.
        cosines: of every memory, by local row; by default they are computed.
    """
    weights = query.weights
    layout = layout or RowLayout(view.allowed(query.filters))
    postings = view.postings(query.word_terms)
    placed = threads_for(layout.size).map(layout.place, postings)
    cosines = layout.lay_out(view.cosines(query.vector) if cosines is None else cosines)
    words = word_sums(placed, layout.size, layout.dtype)
    worded = weights.words * layout.z(words)
    unworded = _vector_part(view, cosines, words, weights, layout)
    if weights.fusion != "z":
        unworded -= worded
    if query.period is not None:
        fits = view.periods().fit_scores(query.period, len(layout.allowed))
        unworded += weights.time * layout.z(layout.lay_out(fits))
    if uses_priors(weights):
        priors = prior_scores(view.priors(), layout.rows, weights, query.filters.query_time)
        unworded += layout.scatter(priors[layout.rows])
    return BaseScores(layout, cosines, words, unworded + worded, unworded, postings, placed)


def _vector_part(
    view: ScopeView, cosines: np.ndarray, words: np.ndarray, weights: Weights, layout: Layout
) -> np.ndarray:
    """Returns what candidates score by vectors; by ranks what they score by both.

    With ranks, a memory without any word of the query has none by words.
    """
    part: np.ndarray
    windows = view.windows() if weights.windows else None
    if windows is not None:
        cosines = layout.scatter(without_window_bias(layout.gather(cosines), windows[layout.rows]))
    if weights.fusion == "z":
        part = weights.vector * layout.z(cosines)
    else:
        ranks = weights.vector * reciprocal_ranks(layout.gather(cosines))
        ranks += weights.words * reciprocal_ranks(layout.gather(words), floor=0.0)
        part = layout.z(layout.scatter(ranks))
    return part


def score_alone(view: ScopeView, query: ScopeQuery) -> Scored:
    """Scores every candidate by itself, and nothing over links."""
    b = base_scores(view, query)
    return Scored(view.ids, b.layout, b.cosines, b.words, b.base, b.base, lambda row: ())


def rescale(total: np.ndarray, base: np.ndarray, layout: Layout) -> np.ndarray:
    """Returns `total` with the mean and deviation of `base` over the candidates: scores of all strategies compare.

    0 for memories that are no candidates.
    """
    scaled = layout.z(total)
    scaled *= layout.deviation(base)
    return scaled
