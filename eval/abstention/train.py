"""Trains the model of answerability: `python -m palimpsest.eval.abstention.train --home HOME`.

Searches the golden questions in a home, fits a logistic regression and writes data/models/answerability.json with its
figures. The numbers and settings were chosen by the tuning half; the other half judges a model of the tuning half.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
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
_DRAWS = 5  # of the folds; a question's probability is the mean
_INVERSE_REGULARIZATION = 0.3


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

    The half held out is judged by a model and a threshold of the tuning half alone. What is shipped is then fitted on
    both halves, with the threshold that loses 2 % of their answerable questions in cross-validation.
    """
    tune = [r for r in rows if r.question_id in tuning]
    held_out = [r for r in rows if r.question_id not in tuning]
    tuned, shipped = _Fitted.on(tune), _Fitted.on(rows)
    x, y = _arrays(rows)
    names = list(Evidence().to_dict())
    return {
        "coefficients": dict(zip(names, shipped.coefficients.round(4).tolist(), strict=True)),
        "intercept": round(shipped.intercept, 4),
        "typical": dict(zip(names, x[y].mean(axis=0).round(4).tolist(), strict=True)),
        "threshold": round(shipped.threshold, 4),
        "seed": SEED,
        "figures": {
            "tuning half, cross-validated": _figures(tuned.crossed, _arrays(tune)[1]),
            "half held out": _figures_of_held_out(tuned, held_out),
            "both halves, cross-validated": _figures(shipped.crossed, y),
            "collection left out": {
                c: _left_out(x, y, np.array([r.collection == c for r in rows]), shipped.crossed)
                for c in sorted({r.collection for r in rows})
            },
        },
    }


@dataclass(frozen=True)
class _Fitted:
    """A model and its threshold.

    Attributes:
        crossed: probability of each question it was fitted on, by models that had not seen it.
        threshold: of a probability; it loses 2 % of the answerable ones in cross-validation.
    """

    coefficients: np.ndarray
    intercept: float
    crossed: np.ndarray
    threshold: float

    @classmethod
    def on(cls, rows: Sequence[JudgedEvidence]) -> "_Fitted":
        x, y = _arrays(rows)
        draws = np.random.default_rng(SEED).integers(0, _FOLDS, (_DRAWS, len(rows)))
        crossed = np.mean([_crossed(x, y, folds) for folds in draws], axis=0)
        return cls(*_fit(x, y), crossed, recall_at(crossed, y)[1])

    def judge(self, x: np.ndarray) -> np.ndarray:
        return _sigmoid(x @ self.coefficients + self.intercept)


def _figures_of_held_out(tuned: _Fitted, held_out: Sequence[JudgedEvidence]) -> JsonObject:
    x, y = _arrays(held_out)
    probabilities = tuned.judge(x)
    below = probabilities < tuned.threshold
    of_kind = {
        k: np.array([r.kind == k for r in held_out]) for k in sorted({r.kind for r in held_out if not r.answerable})
    }
    return {
        **_figures(probabilities, y),
        "caught at the threshold": round(float(below[~y].mean()), 3),
        "lost at the threshold": round(float(below[y].mean()), 3),
        "caught by kind": {k: [int((below & of & ~y).sum()), int((of & ~y).sum())] for k, of in of_kind.items()},
    }


def _left_out(x: np.ndarray, y: np.ndarray, of: np.ndarray, crossed: np.ndarray) -> JsonObject:
    """Returns how a collection is judged by a model and a threshold of the others."""
    probabilities = _crossed(x, y, of)[of]
    below = probabilities < recall_at(crossed[~of], y[~of])[1]
    return {
        "recall at 2 % lost": round(recall_at(probabilities, y[of])[0], 3),
        "caught at the threshold of the others": round(float(below[~y[of]].mean()), 3),
        "lost at it": round(float(below[y[of]].mean()), 3),
    }


def _figures(probabilities: np.ndarray, y: np.ndarray) -> JsonObject:
    return {
        "recall at 2 % lost": round(recall_at(probabilities, y)[0], 3),
        "area under the ROC curve": round(float(roc_auc_score(y, probabilities)), 3),
        "answerable": int(y.sum()),
        "unanswerable": int((~y).sum()),
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
