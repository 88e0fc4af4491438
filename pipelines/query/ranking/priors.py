"""What speaks for a memory whatever is asked: how new it is, how many others say so too, how important it is.

The composite's terms that no question changes. Each lies in 0..1 and is centred over the candidates, so that a weight
of 1 moves a memory by at most one standard deviation of a signal, and nothing at all where all are alike.
"""

from dataclasses import dataclass

import numpy as np

from palimpsest.query.request.strategies import Weights

UNKNOWN = 0.5  # of an undated memory's recency, and of an importance that nobody stated


@dataclass(frozen=True)
class Standing:
    """Of every memory of a scope, by local row.

    Attributes:
        observed: seconds since 1970, NaN where undated, shape (memories,) float64.
        importance: 0..1, NaN where not stated, shape (memories,) float64.
        support: how many others say the same, extend it or lead to it, shape (memories,) int64.
    """

    observed: np.ndarray
    importance: np.ndarray
    support: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.observed.nbytes + self.importance.nbytes + self.support.nbytes


def stands(weights: Weights) -> bool:
    """Tells whether any weight asks for it."""
    return max(weights.recency, weights.frequency, weights.importance) > 0


def standing_scores(held: Standing, rows: np.ndarray, weights: Weights, now: float | None = None) -> np.ndarray:
    """Returns the weighted sum for every memory; 0 for what is no candidate.

    Args:
        held: of the scope.
        rows: local rows of the candidates.
        weights: of the strategy.
        now: seconds since 1970 from which ages are counted; without it the newest memory of the scope.
    """
    out = np.zeros(len(held.observed))
    if len(rows) == 0:
        return out
    for _, weight, values in terms(held, weights, now):
        out[rows] += weight * (values[rows] - values[rows].mean())
    return out


def terms(held: Standing, weights: Weights, now: float | None = None) -> list[tuple[str, float, np.ndarray]]:
    """Returns (what it is, its weight, 0..1 of every memory) of each term that is weighed; `now` as above."""
    of = {
        "newness": (weights.recency, lambda: recency(held.observed, now)),
        "support": (weights.frequency, lambda: held.support / (held.support + 1.0)),
        "importance": (weights.importance, lambda: np.clip(np.nan_to_num(held.importance, nan=UNKNOWN), 0.0, 1.0)),
    }
    return [(name, weight, values()) for name, (weight, values) in of.items() if weight > 0]


def recency(observed: np.ndarray, now: float | None = None) -> np.ndarray:
    """Returns 2 ** -(age / median age) of each memory: what is as old as most has half of what is new.

    Ages are counted from `now`, else from the newest memory: no clock is read. What is newer than `now` is new, and
    says nothing of how old most are: what was known on a day is ranked as it was ranked on that day.
    """
    dated = np.flatnonzero(~np.isnan(observed))
    out = np.full(len(observed), UNKNOWN)
    if len(dated):
        ages = (observed[dated].max() if now is None else now) - observed[dated]
        known, ages = ages[ages >= 0], np.maximum(ages, 0.0)
        half = float(np.median(known)) if len(known) else 0.0
        out[dated] = np.exp2(-ages / half) if half > 0 else (ages == 0).astype(float)
    return out
