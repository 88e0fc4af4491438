"""Base scores of every memory of a scope, which all scorers start from."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from palimpsest.query.ranking.experimental.reciprocal_ranks import reciprocal_ranks
from palimpsest.query.ranking.layout import Layout, RowLayout
from palimpsest.query.request.strategies import Weights
from palimpsest.query.request.types import Link
from palimpsest.query.scope.scope_arrays import Postings, Priors, threads_for, word_sums
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.view import ScopeView

UNKNOWN = 0.5  # of an undated memory's recency, and of an importance that is not stated


def uses_priors(weights: Weights) -> bool:
    """Returns whether any prior has a weight."""
    return max(weights.recency, weights.frequency, weights.importance) > 0


def prior_scores(priors: Priors, rows: np.ndarray, weights: Weights, now: float | None = None) -> np.ndarray:
    """Returns the weighted sum for every memory; 0 for memories that are no candidates.

    Args:
        priors: of the scope.
        rows: local rows of the candidates.
        weights: of the strategy.
        now: seconds since 1970 from which ages are counted; without it the newest memory of the scope.
    """
    out = np.zeros(len(priors.observed))
    if len(rows) == 0:
        return out
    for _, weight, values in weighted_terms(priors, weights, now):
        out[rows] += weight * (values[rows] - values[rows].mean())
    return out


def weighted_terms(priors: Priors, weights: Weights, now: float | None = None) -> list[tuple[str, float, np.ndarray]]:
    """Returns (name, weight, 0..1 of every memory) of each prior that has a weight; `now` as above."""
    terms: dict[str, tuple[float, Callable[[], np.ndarray]]] = {
        "newness": (weights.recency, lambda: recency(priors.observed, now)),
        "support": (weights.frequency, lambda: priors.support / (priors.support + 1.0)),
        "importance": (weights.importance, lambda: np.clip(np.nan_to_num(priors.importance, nan=UNKNOWN), 0.0, 1.0)),
    }
    return [(name, weight, values()) for name, (weight, values) in terms.items() if weight > 0]


def recency(observed: np.ndarray, now: float | None = None) -> np.ndarray:
    """Returns 2 ** -(age / median age) of each memory: one of median age has half of a new one's.

    Ages are counted from `now`, else from the newest memory: no clock is read. What is newer than `now` counts as new
    and is left out of the median: memories known on a day rank as they ranked on that day.
    """
    dated = np.flatnonzero(~np.isnan(observed))
    out = np.full(len(observed), UNKNOWN)
    if len(dated):
        ages = (observed[dated].max() if now is None else now) - observed[dated]
        known, ages = ages[ages >= 0], np.maximum(ages, 0.0)
        half = float(np.median(known)) if len(known) else 0.0
        out[dated] = np.exp2(-ages / half) if half > 0 else (ages == 0).astype(float)
    return out


_MIN_WINDOWED = 10  # memories of several windows: of fewer no slope can be read


def expected_maximum(windows: np.ndarray) -> np.ndarray:
    """Returns the expected maximum of n independent standard normal values, 0 for n = 1; after Blom (1958).

    Args:
        windows: how many windows each memory has, 1 or more, shape (memories,).
    """
    counts, at = np.unique(windows, return_inverse=True)
    normal = NormalDist()
    known = [normal.inv_cdf((n - 0.375) / (n + 0.25)) if n > 1 else 0.0 for n in counts.tolist()]
    return np.array(known)[at]


def without_window_bias(cosines: np.ndarray, windows: np.ndarray) -> np.ndarray:
    """Returns cosines less their linear trend over the expected maximum, where that rises.

    Args:
        cosines: of the best window of each candidate, shape (candidates,).
        windows: how many windows each has.
    """
    if np.count_nonzero(windows > 1) < _MIN_WINDOWED:
        return cosines
    expected = expected_maximum(windows)
    centered = expected - expected.mean()
    slope = float(centered @ cosines) / float(centered @ centered) if centered.any() else 0.0
    return cosines - max(slope, 0.0) * expected


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
