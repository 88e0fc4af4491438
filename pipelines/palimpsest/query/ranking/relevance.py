"""How likely each result is evidence for the question, and where results end.

A logistic regression over the scores of the ranking, how far a result is above the rest and how far below the best, and
over what a reader of answers says of the first results. `palimpsest_eval.relevance.train` fits it on questions with
judged evidence; data/models has its figures.
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
VARIABLE, DEFAULT_PERCENT = "PALIMPSEST_MIN_RELEVANCE", 1
OF_BEST = 0.03
"""Results end below this share of the best one's relevance, too: beside a sure answer little else is evidence."""
DEPTH = 100
"""Candidates whose scores are read of a question; fewer are all of its scope."""
READ = 8
"""Candidates whose texts are read together with the question."""
LIKELY = 0.1
"""Where no result is as relevant, the evidence is weak."""
_USUAL_UNTIL = 30
_USUAL_FROM, _FEW = 5, 12  # of this many or fewer, the lower half is usual
_MIN_SPREAD = {"score": 0.1, "vector": 0.03}
_MAX_DEVIATIONS = {"score": 12.0, "vector": 8.0}


def relevance(candidates: Sequence[Candidate], answers: np.ndarray) -> np.ndarray:
    """Returns the probability that each candidate is evidence, shape (n,).

    Args:
        candidates: of one question, in any order; `DEPTH` of them, or all.
        answers: log odds that the first ones answer the question, as a reader gives them; empty where none reads.
    """
    return probabilities(candidates, answers, _models())


def least_relevance(best: float) -> float:
    """Returns the relevance from which a candidate is a result, where the best one has `best`.

    Raises:
        PalimpsestError: the environment sets no such number.
    """
    least = whole_number(VARIABLE, DEFAULT_PERCENT, 0, 100) / 100
    return max(least, OF_BEST * best) if least else 0.0


def probabilities(candidates: Sequence[Candidate], answers: np.ndarray, models: Mapping[str, Any]) -> np.ndarray:
    """Returns what `relevance` does, by models that need not be the stored ones."""
    if not candidates:
        return np.empty(0)
    scores = features(candidates)
    found = _apply(models["scores"], scores)
    if len(answers):
        found[: len(answers)] = _apply(models["answers"], with_answers(scores, answers))
    return found


def _apply(model: Mapping[str, Any], inputs: np.ndarray) -> np.ndarray:
    scaled = (inputs - np.array(model["mean"])) / np.array(model["scale"])
    found: np.ndarray = 1 / (1 + np.exp(-(scaled @ np.array(model["weights"]) + model["intercept"])))
    return found


def with_answers(scores: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Returns what the model reads of the first candidates, shape (n, 13), from features of all and n log odds."""
    return np.column_stack([scores[: len(answers)], answers, answers.max() - answers])


def features(candidates: Sequence[Candidate]) -> np.ndarray:
    """Returns what the model reads of the scores of candidates, shape (n, 11)."""
    order = sorted(range(len(candidates)), key=lambda i: -candidates[i].score)
    found = np.empty((len(candidates), 11))
    found[order] = _features([candidates[i] for i in order])
    return found


def _features(candidates: Sequence[Candidate]) -> np.ndarray:
    """Returns what `features` does of candidates that are given best first."""
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
def _models() -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(Path(SHIPPED / MODEL_FILE).read_text(encoding="utf-8"))
    return stored
