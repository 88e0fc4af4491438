"""How likely each result is evidence for the question, and where results end.

A logistic regression over the scores of the ranking: how far a result is above the rest, and how far below the best.
`palimpsest.eval.relevance.train` fits it on questions with judged evidence; data/models has its figures.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from palimpsest.core.environment import whole_number
from palimpsest.query.ranking.candidate import Candidate
from palimpsest.store.home import SHIPPED

MODEL_FILE = "models/relevance.json"
VARIABLE, DEFAULT_PERCENT = "PALIMPSEST_MIN_RELEVANCE", 2
"""From 2 per cent on, about as many results as five hold more of the evidence than the first five."""
DEPTH = 100
"""Candidates that are read of a question; fewer are all of its scope."""
_USUAL_UNTIL = 30
_USUAL_FROM, _FEW = 5, 12  # of this many or fewer, the lower half is usual
_MIN_SPREAD = {"score": 0.1, "vector": 0.03}
_MAX_DEVIATIONS = {"score": 12.0, "vector": 8.0}


def relevance(candidates: Sequence[Candidate]) -> np.ndarray:
    """Returns the probability that each candidate is evidence, shape (n,).

    Args:
        candidates: of one question, best first; `DEPTH` of them, or all.
    """
    return probabilities(candidates, _model())


def least_relevance() -> float:
    """Returns the probability from which a candidate is a result.

    Raises:
        PalimpsestError: the environment sets no such number.
    """
    return whole_number(VARIABLE, DEFAULT_PERCENT, 0, 100) / 100


def probabilities(candidates: Sequence[Candidate], model: Mapping[str, Any]) -> np.ndarray:
    """Returns what `relevance` does, by a model that need not be the stored one."""
    if not candidates:
        return np.empty(0)
    inputs = (features(candidates) - np.array(model["mean"])) / np.array(model["scale"])
    found: np.ndarray = 1 / (1 + np.exp(-(inputs @ np.array(model["weights"]) + model["intercept"])))
    return found


def features(candidates: Sequence[Candidate]) -> np.ndarray:
    """Returns what the model reads of candidates, shape (n, 11)."""
    score, vector, words = (
        np.array([getattr(c, name) for c in candidates], float) for name in ("score", "vector", "words")
    )
    links = score - np.array([c.base for c in candidates], float)
    score_mean, score_spread = _usual(score, "score")
    vector_mean, vector_spread = _usual(vector, "vector")
    count = len(candidates)
    return np.column_stack(
        [
            np.log1p(np.arange(count)),
            np.minimum((score - score_mean) / score_spread, _MAX_DEVIATIONS["score"]),
            np.minimum((score[0] - score) / score_spread, _MAX_DEVIATIONS["score"]),
            vector,
            vector[0] - vector,
            np.minimum((vector - vector_mean) / vector_spread, _MAX_DEVIATIONS["vector"]),
            words,
            words[0] - words,
            links,
            score[0] - score,
            np.full(count, np.log(min(count, DEPTH) / DEPTH)),
        ]
    )


def _usual(values: np.ndarray, name: str) -> tuple[float, float]:
    """Returns mean and deviation of the values that are usual for a question: without the best few."""
    first = _USUAL_FROM if len(values) >= _FEW else len(values) // 2
    usual = values[first:_USUAL_UNTIL]
    return float(usual.mean()), max(float(usual.std()), _MIN_SPREAD[name])


@lru_cache(maxsize=1)
def _model() -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(Path(SHIPPED / MODEL_FILE).read_text(encoding="utf-8"))
    return stored
