"""Base scores of every memory of a scope, which all scorers start from."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from palimpsest.query.ranking.experimental.reciprocal_ranks import reciprocal_ranks
from palimpsest.query.ranking.fusion import score_stats, z_values
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

    `allowed` is whether each memory is among the candidates `rows`; it is read-only. `unworded` is `base` without the
    z-scores of words.
    """

    allowed: np.ndarray
    rows: np.ndarray
    cosines: np.ndarray
    words: np.ndarray
    base: np.ndarray
    unworded: np.ndarray
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
    unworded, worded = np.zeros(size), np.zeros(size)
    if len(rows):
        windows = view.windows() if weights.windows else None
        similar = cosines[rows] if windows is None else without_window_bias(cosines[rows], windows[rows])
        worded[rows] = weights.words * z_values(sums[rows])
        unworded[rows] = _vector_part(similar, sums[rows], worded[rows], weights)
    if query.period is not None:
        unworded += weights.time * z_scores(view.periods().fit_scores(query.period, size), rows)
    if uses_priors(weights):
        unworded += prior_scores(view.priors(), rows, weights, query.filters.query_time)
    return BaseScores(allowed, rows, cosines, sums, unworded + worded, unworded, postings)


def _vector_part(cosines: np.ndarray, sums: np.ndarray, worded: np.ndarray, weights: Weights) -> np.ndarray:
    """Returns what candidates score by vectors; by ranks what they score by both, less their z-scores of words.

    With ranks, a memory without any word of the query has none by words.
    """
    part: np.ndarray
    if weights.fusion == "z":
        part = weights.vector * z_values(cosines)
    else:
        ranks = weights.vector * reciprocal_ranks(cosines) + weights.words * reciprocal_ranks(sums, floor=0.0)
        part = z_values(ranks) - worded
    return part


def score_alone(view: ScopeView, query: ScopeQuery) -> Scored:
    """Scores every candidate by itself, and nothing over links."""
    b = base_scores(view, query)
    return Scored(view.ids, b.rows, b.cosines, b.words, b.base, b.base, lambda row: ())


def z_scores(scores: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns z-scores over the candidates `rows`; 0 for every other memory."""
    out = np.zeros(len(scores))
    if len(rows):
        out[rows] = z_values(scores[rows])
    return out


def rescale(total: np.ndarray, base: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns `total` with the mean and deviation of `base` over the candidates: scores of all strategies compare.

    0 for memories that are no candidates.
    """
    out = np.zeros(len(total))
    if len(rows):
        out[rows] = score_stats(base[rows]).std * z_values(total[rows])
    return out
