"""What no question changes about a memory: how new it is, how many others support it, how important it is.

Each of these terms of the composite is in 0..1 and centered over the candidates, so that a weight of 1 moves a memory
by at most one standard deviation of a signal, and by nothing where all are alike.
"""

from collections.abc import Callable

import numpy as np

from palimpsest.query.request.strategies import Weights
from palimpsest.query.scope.scope_arrays import Priors

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
