"""Reciprocal rank fusion (Cormack, Clarke and Buettcher, 2009): sums of 1 / (60 + rank)."""

import numpy as np

RRF_CONSTANT = 60


def reciprocal_ranks(scores: np.ndarray, floor: float = -np.inf) -> np.ndarray:
    """Returns 1 / (60 + rank) of each score, the best first, ties to the lower index; 0 for `floor` and less."""
    rank = np.empty(len(scores))
    rank[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return np.where(scores > floor, 1 / (RRF_CONSTANT + rank), 0.0)
