"""Trains the model of answerability: `python -m palimpsest.eval.abstention.train --home HOME`.

Searches the golden questions in a home, fits a logistic regression on the tuning half of them and writes
data/models/answerability.json with its figures. The other half judges the result once; nothing is chosen by it.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from palimpsest.core.json_types import JsonObject
from palimpsest.core.progress import say, tracked
from palimpsest.eval.abstention.halves import SEED, tuning_half
from palimpsest.eval.golden.questions import GoldenSet, golden_path, load_golden
from palimpsest.eval.golden.retrieval_run import Searcher
from palimpsest.query.answerability.evidence import Evidence
from palimpsest.query.answerability.model import MODEL_FILE
from palimpsest.query.reader import Reader, open_home

MAX_LOST = 0.02
_FOLDS = 5
_INVERSE_REGULARIZATION = 1.0


@dataclass(frozen=True)
class JudgedEvidence:
    """The evidence of one golden question's results, and whether it has an answer."""

    question_id: str
    collection: str
    kind: str
    answerable: bool
    evidence: Evidence


def gather(reader: Searcher, sets: Sequence[GoldenSet]) -> list[JudgedEvidence]:
    """Searches every question and returns the evidence of its results; nothing found is evidence that is all 0."""
    rows = []
    questions = [(golden, q) for golden in sets for q in golden.questions]
    for golden, q in tracked(questions, "search", "questions"):
        scope = (golden.collection, q.user or golden.default_user)
        found = reader.search(q.question, scope, **q.filters).answerability
        evidence = (found.evidence if found else None) or Evidence()
        kind = q.kind or q.type
        rows.append(JudgedEvidence(q.id, golden.collection, kind, q.answerable, evidence))
    return rows


def recall_at(probabilities: np.ndarray, answerable: np.ndarray, lost: float = MAX_LOST) -> tuple[float, float]:
    """Returns the share of unanswerable questions below the highest threshold that loses at most `lost`, and it."""
    ascending = np.sort(probabilities[answerable])
    threshold = float(ascending[int(lost * len(ascending))])
    return float((probabilities[~answerable] < threshold).mean()), threshold


def train(rows: Sequence[JudgedEvidence], tuning: frozenset[str]) -> JsonObject:
    """Returns the model and its figures.

    The threshold is that of the cross-validated tuning half; the held-apart half is judged at it, and by its own rank.
    """
    tune = [r for r in rows if r.question_id in tuning]
    held = [r for r in rows if r.question_id not in tuning]
    names = list(Evidence().to_dict())
    x, y = _arrays(tune)
    folds = np.random.default_rng(SEED).integers(0, _FOLDS, len(tune))
    crossed = _crossed(x, y, folds)
    recall, threshold = recall_at(crossed, y)
    coefficients, intercept = _fit(x, y)
    held_x, held_y = _arrays(held)
    probabilities = _sigmoid(held_x @ coefficients + intercept)
    below = probabilities < threshold
    kinds = sorted({r.kind for r in held if not r.answerable})
    collections = np.array([r.collection for r in tune])
    of_kind = {k: np.array([r.kind == k for r in held]) & ~held_y for k in kinds}
    return {
        "coefficients": dict(zip(names, coefficients.round(4).tolist(), strict=True)),
        "intercept": round(intercept, 4),
        "typical": dict(zip(names, x[y].mean(axis=0).round(4).tolist(), strict=True)),
        "threshold": round(threshold, 4),
        "seed": SEED,
        "figures": {
            "tuning, cross-validated": _figures(recall, y),
            "held apart": {
                **_figures(recall_at(probabilities, held_y)[0], held_y),
                "caught at the threshold": round(float(below[~held_y].mean()), 3),
                "lost at the threshold": round(float(below[held_y].mean()), 3),
                "caught by kind": {k: [int(below[of].sum()), int(of.sum())] for k, of in of_kind.items()},
            },
            "collection left out of tuning": {
                c: _figures(recall_at(_crossed(x, y, collections == c)[collections == c], y[collections == c])[0], y)[
                    "recall at 2 % lost"
                ]
                for c in sorted(set(collections))
            },
        },
    }


def _figures(recall: float, answerable: np.ndarray) -> JsonObject:
    return {
        "recall at 2 % lost": round(recall, 3),
        "answerable": int(answerable.sum()),
        "unanswerable": int((~answerable).sum()),
    }


def _arrays(rows: Sequence[JudgedEvidence]) -> tuple[np.ndarray, np.ndarray]:
    x = np.array([list(r.evidence.to_dict().values()) for r in rows], np.float64)
    return x, np.array([r.answerable for r in rows])


def _fit(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Returns coefficients and intercept for numbers as they are."""
    scaler = StandardScaler().fit(x)
    fitted = LogisticRegression(C=_INVERSE_REGULARIZATION, max_iter=1000).fit(scaler.transform(x), y)
    coefficients = fitted.coef_[0] / scaler.scale_
    return coefficients, float(fitted.intercept_[0] - coefficients @ scaler.mean_)


def _crossed(x: np.ndarray, y: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """Returns the probability of each row by a model that was fitted on the other folds."""
    out = np.zeros(len(x))
    for fold in np.unique(folds):
        coefficients, intercept = _fit(x[folds != fold], y[folds != fold])
        out[folds == fold] = _sigmoid(x[folds == fold] @ coefficients + intercept)
    return out


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    values: np.ndarray = 1.0 / (1.0 + np.exp(-np.clip(logits, -30, 30)))
    return values


def golden_sets(reader: Reader, data: Path) -> list[GoldenSet]:
    """Returns the golden questions of the collections of a home that have some."""
    sets = []
    for name, info in reader.backend.collections().items():
        if questions := load_golden(golden_path(data, name)):
            sets.append(GoldenSet(name, tuple(questions), info.user_id or ""))
    return sets


def main() -> None:
    """Writes the model and prints its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, default=Path("data/home"), help="a built home")
    parser.add_argument("--data", type=Path, default=Path("data"), help="the folder that has golden/ and models/")
    given = parser.parse_args()
    with open_home(given.home) as reader:
        sets = golden_sets(reader, given.data)
        model = train(gather(reader, sets), tuning_half(sets))
    path = given.data / MODEL_FILE
    path.write_text(json.dumps(model, indent=1) + "\n", encoding="utf-8")
    say(json.dumps(model["figures"], indent=1))


if __name__ == "__main__":
    main()
