"""Base scores of every memory of a scope, which all scorers start from."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from palimpsest.query.ranking.experimental.reciprocal_ranks import reciprocal_ranks
from palimpsest.query.ranking.fusion import fuse, score_stats, standardize
from palimpsest.query.ranking.priors import prior_scores, uses_priors
from palimpsest.query.ranking.window_bias import without_window_bias
from palimpsest.query.request.strategies import Weights
from palimpsest.query.request.types import Link
from palimpsest.query.scope.scope_arrays import Postings, word_sums
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.view import ScopeView


@dataclass(frozen=True)
class BaseScores:
    """What every scorer starts from: see `Scored`; `postings` are those of the query's terms.

    `allowed` is whether each memory is among the candidates `rows`; it is read-only.
    """

    allowed: np.ndarray
    rows: np.ndarray
    cosines: np.ndarray
    words: np.ndarray
    base: np.ndarray
    postings: list[Postings]


@dataclass(frozen=True)
class Scored:
    """Every memory of a scope, scored.

    Attributes:
        ids: memory ids, ascending, shape (memories,).
        rows: local rows of the candidates.
        cosines: of every memory.
        words: BM25 sums of every memory.
        base: weighted sum of the z-scores of both (of cosines without their bias by windows), of the overlap with the
            question's period, and of the priors; 0 for memories that are no candidates.
        total: the ranking score, on the scale of `base`.
        path: returns the links over which a memory, by local row, got the difference of `total` and `base`.
    """

    ids: np.ndarray
    rows: np.ndarray
    cosines: np.ndarray
    words: np.ndarray
    base: np.ndarray
    total: np.ndarray
    path: Callable[[int], tuple[Link, ...]]


def base_scores(view: ScopeView, query: ScopeQuery) -> BaseScores:
    """Scores every candidate by itself: z(cosine), z(BM25), z(overlap with the question's period) and its priors."""
    weights, allowed, size = query.weights, view.allowed(query.filters), len(view.ids)
    rows = np.flatnonzero(allowed)
    postings = view.postings(query.word_terms)
    cosines, sums = view.cosines(query.vector), word_sums(postings, size)
    base = np.zeros(size)
    if len(rows):
        windows = view.windows() if weights.windows else None
        similar = cosines[rows] if windows is None else without_window_bias(cosines[rows], windows[rows])
        base[rows] = _fuse_candidates(similar, sums[rows], weights)
    if query.period is not None:
        base += weights.time * z_scores(view.periods().fit_scores(query.period, size), rows)
    if uses_priors(weights):
        base += prior_scores(view.priors(), rows, weights, query.filters.query_time)
    return BaseScores(allowed, rows, cosines, sums, base, postings)


def _fuse_candidates(cosines: np.ndarray, sums: np.ndarray, weights: Weights) -> np.ndarray:
    """Returns vectors and words as one score; with ranks, a memory without any word of the query has none by words."""
    if weights.fusion == "z":
        return fuse(cosines, sums, score_stats(cosines), score_stats(sums), weights.vector, weights.words)
    ranks = weights.vector * reciprocal_ranks(cosines) + weights.words * reciprocal_ranks(sums, floor=0.0)
    return standardize(ranks, score_stats(ranks))


def score_alone(view: ScopeView, query: ScopeQuery) -> Scored:
    """Scores every candidate by itself, and nothing over links."""
    b = base_scores(view, query)
    return Scored(view.ids, b.rows, b.cosines, b.words, b.base, b.base, lambda row: ())


def z_scores(scores: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns z-scores over the candidates `rows`; 0 for every other memory."""
    out = np.zeros(len(scores))
    if len(rows):
        out[rows] = standardize(scores[rows], score_stats(scores[rows]))
    return out


def rescale(total: np.ndarray, base: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns `total` with the mean and deviation of `base` over the candidates: scores of all strategies compare.

    0 for memories that are no candidates.
    """
    return z_scores(total, rows) * (float(base[rows].std()) if len(rows) else 0.0)
