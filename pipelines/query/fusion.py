"""Fusion of scores of different kinds: each standardised over all candidates of its scope, for one query."""

import numpy as np

from pipelines.query.types import Moments


def moments(scores: np.ndarray) -> Moments:
    """Returns mean and standard deviation; a deviation that is only rounding counts as 0."""
    mean, std = float(scores.mean()), float(scores.std())
    return Moments(mean, std if std > 1e-9 else 0.0)


def standardise(scores: np.ndarray, of: Moments) -> np.ndarray:
    """Returns z-scores; all 0 where every candidate scores the same."""
    return (scores - of.mean) / of.std if of.std > 0 else np.zeros_like(scores)


def top(scores: np.ndarray, n: int) -> np.ndarray:
    """Returns the indices of the `n` best scores, in no order; a tie at the border goes to the lower index."""
    if len(scores) <= n:
        return np.arange(len(scores))
    border = np.partition(scores, len(scores) - n)[len(scores) - n]
    above = np.flatnonzero(scores > border)
    return np.concatenate([above, np.flatnonzero(scores == border)[: n - len(above)]])
