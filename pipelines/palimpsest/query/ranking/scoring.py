"""Base scores of every memory of a scope, which all scorers start from."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from palimpsest.query.request.strategies import Weights
from palimpsest.query.request.types import Link, ScoreStats, Seeds
from palimpsest.query.scope.scope_arrays import MANY, Postings, Priors, TurnOrder, threads_for, word_sums
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.view import ScopeView

# Reciprocal rank fusion (Cormack, Clarke and Buettcher, 2009): sums of 1 / (60 + rank).

RRF_CONSTANT = 60


def reciprocal_ranks(scores: np.ndarray, floor: float = -np.inf) -> np.ndarray:
    """Returns 1 / (60 + rank) of each score, the best first, ties to the lower index; 0 for `floor` and less."""
    rank = np.empty(len(scores))
    rank[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return np.where(scores > floor, 1 / (RRF_CONSTANT + rank), 0.0)


# Fusion of scores of different kinds: each standardized over all candidates of its scope, for one query.
#
# Sums of z-scores won over reciprocal ranks on every collection that was measured: ranks lose by how much the best is
# better.

_BLOCKS_OF_ONE = 8  # blocks for each score that is wanted: few of the others are above the least of them
_BLOCK = 1024  # scores of which the best, or the sum of squares, is found first
_PLACES = 65_536  # of a line, at a time
_ROUNDING = 1e-9  # a deviation that is no more than this is only rounding


def score_stats(scores: np.ndarray) -> ScoreStats:
    """Returns mean and standard deviation; a deviation that is only rounding counts as 0."""
    return center(scores)[1]


def standardize(scores: np.ndarray, stats: ScoreStats) -> np.ndarray:
    """Returns z-scores; all 0 where every candidate scores the same."""
    return (scores - stats.mean) / stats.std if stats.std > 0 else np.zeros_like(scores)


def z_values(scores: np.ndarray) -> np.ndarray:
    """Returns the z-scores of scores by their own statistics; all 0 where all are the same."""
    return unit_deviation(*center(scores))


def center(
    scores: np.ndarray, mask: np.ndarray | None = None, count: int | None = None
) -> tuple[np.ndarray, ScoreStats]:
    """Returns scores less their mean, and their statistics: in fewer passes over a large scope than `std` takes.

    Args:
        scores: all of them count, without a mask; else they are 0 where it is false.
        mask: which scores count; the others stay 0.
        count: how many count.
    """
    count = len(scores) if count is None else count
    if count == 0:
        return scores, ScoreStats()
    mean = float(scores.sum()) / count
    centered = scores - mean
    if mask is not None:
        centered *= mask
    return centered, ScoreStats(mean, _deviation(centered, count))


def unit_deviation(centered: np.ndarray, stats: ScoreStats) -> np.ndarray:
    """Divides centered scores by their deviation, in place; all are 0 where that is 0."""
    if stats.std == 0:
        return np.zeros_like(centered)
    centered /= stats.std
    return centered


def _deviation(centered: np.ndarray, count: int) -> float:
    deviation = math.sqrt(_sum_of_squares(centered) / max(1, count))
    return deviation if deviation > _ROUNDING else 0.0


def _sum_of_squares(scores: np.ndarray) -> float:
    """Returns the sum of squares, block by block: one float32 sum over a million of them is wrong by 1e-4."""
    whole = len(scores) // _BLOCK * _BLOCK
    blocks, rest = scores[:whole].reshape(-1, _BLOCK), scores[whole:]
    return float(np.einsum("ij,ij->i", blocks, blocks).sum(dtype=np.float64)) + float(rest @ rest)


def fuse(
    cosines: np.ndarray,
    words: np.ndarray,
    vector_stats: ScoreStats,
    words_stats: ScoreStats,
    vector_weight: float,
    words_weight: float,
) -> np.ndarray:
    """Returns vector_weight * z(cosine) + words_weight * z(BM25), shape of `cosines`.

    Args:
        cosines: of some candidates.
        words: BM25 sums of the same.
        vector_stats: of the cosines of every candidate.
        words_stats: of the BM25 sums of every candidate.
        vector_weight: of z(cosine).
        words_weight: of z(BM25).
    """
    return vector_weight * standardize(cosines, vector_stats) + words_weight * standardize(words, words_stats)


def best_seeds(
    ids: np.ndarray,
    cosines: np.ndarray,
    words: np.ndarray,
    weight: float,
    n: int,
    candidates: int,
    vector_stats: ScoreStats,
    words_stats: ScoreStats,
) -> Seeds:
    """Returns the best n by z(cosine) + weight * z(BM25), ties to the lower id.

    Args:
        ids: memory ids, ascending.
        cosines: of the same memories.
        words: BM25 sums of the same memories.
        weight: of the words.
        n: how many.
        candidates: how many memories the statistics cover.
        vector_stats: of the cosines of every candidate.
        words_stats: of the BM25 sums of every candidate.
    """
    best = np.sort(top(fuse(cosines, words, vector_stats, words_stats, 1.0, weight), n))
    return Seeds(ids[best].tolist(), cosines[best], words[best], candidates, vector_stats, words_stats)


def top(scores: np.ndarray, n: int) -> np.ndarray:
    """Returns the indices of the `n` best scores, in no order; a tie at the border goes to the lower index."""
    if len(scores) <= n:
        return np.arange(len(scores))
    found = leading(scores, n)
    border = np.partition(scores[found], len(found) - n)[len(found) - n]
    above = found[scores[found] > border]
    return np.concatenate([above, found[scores[found] == border][: n - len(above)]])


def leading(scores: np.ndarray, n: int) -> np.ndarray:
    """Returns ascending indices that include the `n` best: of many scores only a few, for sorting them is slow.

    Of the best of each block of scores, the `n` best are `n` scores; so no lower score is among the `n` best of all.
    """
    size = min(_BLOCK, len(scores) // max(1, _BLOCKS_OF_ONE * n))
    if size < 2:
        return np.arange(len(scores))
    blocks = len(scores) // size
    best = scores[: blocks * size].reshape(blocks, size).max(axis=1)
    return np.flatnonzero(scores >= np.partition(best, blocks - n)[blocks - n])


# Where each memory of a scope is in the arrays of scores of one query, and the statistics of its candidates.
#
# Most scorers keep the score of a memory at its local row. A scorer that reads the neighbors of every turn keeps the
# scores of a session next to each other: see `TurnOrder`.


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
    def z_with_stats(self, scores: np.ndarray) -> tuple[np.ndarray, ScoreStats]:
        """Returns the z-scores of the candidates over them, 0 elsewhere, and the statistics that they are by.

        Where there is no candidate `scores` may be anything or 0.
        """

    def z(self, scores: np.ndarray) -> np.ndarray:
        """Returns these z-scores."""
        return self.z_with_stats(scores)[0]

    @abstractmethod
    def stats(self, scores: np.ndarray) -> ScoreStats:
        """Returns mean and standard deviation of the scores of the candidates; they are 0 elsewhere."""

    def deviation(self, scores: np.ndarray) -> float:
        """Returns the standard deviation of the scores of the candidates; they are 0 elsewhere."""
        return self.stats(scores).std

    def centered_deviation(self, scores: np.ndarray) -> float:
        """Returns it of scores whose mean is 0, as that of a sum of z-scores."""
        return _deviation(scores, len(self.rows))

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

    def z_with_stats(self, scores: np.ndarray) -> tuple[np.ndarray, ScoreStats]:
        """See Layout."""
        centered, stats = center(self.gather(scores))
        return self.scatter(unit_deviation(centered, stats)), stats

    def stats(self, scores: np.ndarray) -> ScoreStats:
        """See Layout."""
        return score_stats(self.gather(scores))

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
        """Returns the places of candidates that include the `n` best, ascending; `scores` are 0 at other places."""
        found = self.candidates(leading(scores, n))
        if len(found) >= min(n, len(self.rows)):
            return found
        return self.candidates(leading(np.where(self.mask, scores, -np.inf), n))

    def place(self, postings: Postings) -> Postings:
        """See Layout."""
        counted = self.allowed[postings.rows]
        return Postings(self.places(postings.rows[counted]), postings.scores[counted].astype(self.dtype))

    def lay_out(self, scores: np.ndarray) -> np.ndarray:
        """See Layout."""
        scores = scores.astype(self.dtype, copy=False)

        def lay_out_part(part: slice) -> np.ndarray:
            out = scores.take(self._order.rows[part], mode="wrap")  # -1, of no memory, is the last one: it is masked
            out *= self.mask[part]
            return out

        parts = [slice(start, start + _PLACES) for start in range(0, self.size, _PLACES)]
        return np.concatenate(threads_for(self.size).map(lay_out_part, parts))

    def z_with_stats(self, scores: np.ndarray) -> tuple[np.ndarray, ScoreStats]:
        """See Layout; `scores` must be 0 where there is no candidate."""
        centered, stats = center(scores, self.mask, len(self.rows))
        return unit_deviation(centered, stats), stats

    def stats(self, scores: np.ndarray) -> ScoreStats:
        """See Layout."""
        return center(scores, self.mask, len(self.rows))[1]

    def best(self, scores: np.ndarray, n: int) -> np.ndarray:
        """See Layout."""
        rows = np.sort(self.local_rows(self.leading(scores, n)))
        found: np.ndarray = rows[top(scores[self.places(rows)], n)]
        return found


# What no question changes about a memory: how new it is, how many others support it, how important it is.
#
# Each of these terms of the composite is in 0..1 and centered over the candidates, so that a weight of 1 moves a memory
# by at most one standard deviation of a signal, and by nothing where all are alike.

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


# Takes out of cosines what a memory gains by its number of windows alone.
#
# A memory scores by its best window, and the best of more windows is better by chance. By how much depends on how alike
# the windows of a memory are, which differs from collection to collection; so it is not assumed but read, for each
# query, off the candidates themselves: nearly all of them are not relevant.

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
        cosine_stats: of the cosines, where the scores were made by them.
        words_stats: of the words.
        postings: of the query's terms, by local row.
        placed: the same, by place in the arrays of scores.
    """

    layout: Layout
    cosines: np.ndarray
    words: np.ndarray
    base: np.ndarray
    unworded: np.ndarray
    cosine_stats: ScoreStats | None
    words_stats: ScoreStats
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
        estimates: about the cosine of every memory, by local row; None where none were made.
        known_stats: of cosines and of words, where a scorer has them.
    """

    ids: np.ndarray
    layout: Layout
    cosines: np.ndarray
    words: np.ndarray
    base: np.ndarray
    total: np.ndarray
    path: Callable[[int], tuple[Link, ...]]
    estimates: np.ndarray | None = None
    known_stats: tuple[ScoreStats, ScoreStats] | None = None

    @property
    def rows(self) -> np.ndarray:
        """Local rows of the candidates."""
        return self.layout.rows

    @property
    def stats(self) -> tuple[ScoreStats, ScoreStats]:
        """Of cosines and of words, over all candidates."""
        return self.known_stats or (self.layout.stats(self.cosines), self.layout.stats(self.words))


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
    worded, words_stats = layout.z_with_stats(words)
    worded *= weights.words
    unworded, cosine_stats = _vector_part(view, cosines, words, weights, layout)
    if weights.fusion != "z":
        unworded -= worded
    if query.period is not None:
        fits = view.periods().fit_scores(query.period, len(layout.allowed))
        unworded += weights.time * layout.z(layout.lay_out(fits))
    if uses_priors(weights):
        priors = prior_scores(view.priors(), layout.rows, weights, query.filters.query_time)
        unworded += layout.scatter(priors[layout.rows])
    worded += unworded
    return BaseScores(layout, cosines, words, worded, unworded, cosine_stats, words_stats, postings, placed)


def _vector_part(
    view: ScopeView, cosines: np.ndarray, words: np.ndarray, weights: Weights, layout: Layout
) -> tuple[np.ndarray, ScoreStats | None]:
    """Returns what candidates score by vectors, and the statistics of the cosines where it is by them.

    By ranks it is what they score by both; a memory without any word of the query then has none by words.
    """
    if weights.fusion != "z":
        ranks = weights.vector * reciprocal_ranks(layout.gather(cosines))
        ranks += weights.words * reciprocal_ranks(layout.gather(words), floor=0.0)
        return layout.z(layout.scatter(ranks)), None
    windows = view.windows() if weights.windows else None
    if windows is not None:
        cosines = layout.scatter(without_window_bias(layout.gather(cosines), windows[layout.rows]))
    part, stats = layout.z_with_stats(cosines)
    part *= weights.vector
    return part, stats if windows is None else None


def score_alone(view: ScopeView, query: ScopeQuery) -> Scored:
    """Scores every candidate by itself, and nothing over links."""
    b = base_scores(view, query)
    return Scored(view.ids, b.layout, b.cosines, b.words, b.base, b.base, lambda row: ())


def rescale(total: np.ndarray, base: np.ndarray, layout: Layout) -> np.ndarray:
    """Returns `total` with the mean, 0, and deviation of `base` over the candidates: scores of all strategies compare.

    0 for memories that are no candidates.
    """
    scaled = layout.z(total)
    scaled *= layout.centered_deviation(base)
    return scaled
