"""Fusion of scores of different kinds: each standardised over all candidates of its scope, for one query.

Sums of z-scores won over reciprocal ranks on every collection that was measured: ranks forget by how much the best is
better. Both are here, so that the ablation can go on saying so.
"""

import numpy as np

from palimpsest.query.request.types import Moments

RRF = 60


def moments(scores: np.ndarray) -> Moments:
    """Returns mean and standard deviation; a deviation that is only rounding counts as 0."""
    mean, std = float(scores.mean()), float(scores.std())
    return Moments(mean, std if std > 1e-9 else 0.0)


def standardise(scores: np.ndarray, of: Moments) -> np.ndarray:
    """Returns z-scores; all 0 where every candidate scores the same."""
    return (scores - of.mean) / of.std if of.std > 0 else np.zeros_like(scores)


def reciprocal_ranks(scores: np.ndarray, floor: float = -np.inf) -> np.ndarray:
    """Returns 1 / (60 + rank) of each score, the best first, ties to the lower index; 0 for `floor` and less.

    Reciprocal rank fusion (Cormack, Clarke and Buettcher, 2009) sums these.
    """
    rank = np.empty(len(scores))
    rank[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return np.where(scores > floor, 1 / (RRF + rank), 0.0)


def top(scores: np.ndarray, n: int) -> np.ndarray:
    """Returns the indices of the `n` best scores, in no order; a tie at the border goes to the lower index."""
    if len(scores) <= n:
        return np.arange(len(scores))
    border = np.partition(scores, len(scores) - n)[len(scores) - n]
    above = np.flatnonzero(scores > border)
    return np.concatenate([above, np.flatnonzero(scores == border)[: n - len(above)]])
