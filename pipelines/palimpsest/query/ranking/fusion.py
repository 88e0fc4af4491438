"""Fusion of scores of different kinds: each standardized over all candidates of its scope, for one query.

Sums of z-scores won over reciprocal ranks on every collection that was measured: ranks lose by how much the best is
better.
"""

import math

import numpy as np

from palimpsest.query.request.types import ScoreStats, Seeds

_BLOCKS_OF_ONE = 8  # blocks for each score that is wanted: few of the others are above the least of them
_BLOCK = 1024  # scores of which the best, or the sum of squares, is found first
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
    deviation = math.sqrt(_sum_of_squares(centered) / count)
    return centered, ScoreStats(mean, deviation if deviation > _ROUNDING else 0.0)


def unit_deviation(centered: np.ndarray, stats: ScoreStats) -> np.ndarray:
    """Divides centered scores by their deviation, in place; all are 0 where that is 0."""
    if stats.std == 0:
        return np.zeros_like(centered)
    centered /= stats.std
    return centered


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
