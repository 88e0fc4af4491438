"""Fits the relevance of results: `python -m palimpsest_eval.training.train_relevance --home HOME --suite FOLDER ...`.

Searches the golden questions of a home and the queries of suites, and writes data/models/relevance.json with figures of
each set by a model of all the others. A set that nobody is to tune on is named with `--apart`. The reader of answers
is trained before: `palimpsest_eval.training.train_reader`.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from palimpsest.core.files import SHIPPED, say
from palimpsest.core.ids import JsonObject
from palimpsest.query.ranking.merge import (
    MODEL_FILE,
    READ,
    features,
    least_relevance,
    probabilities,
    with_answers,
)
from palimpsest.store.home import Home
from palimpsest_eval.training.relevance_results import JudgedResults, golden_results, suite_results, world_results

_SIZES = (3, 8, 15)  # of smaller scopes, which are drawn from the results
_INVERSE_REGULARIZATION, _SEED = 0.3, 0


def fit(sets: Mapping[str, Sequence[JudgedResults]]) -> JsonObject:
    """Returns the models of scores alone and of scores and answers: each set weighs the same, and so does each size."""
    rng = np.random.default_rng(_SEED)
    scores, answers, y, weights = [], [], [], []
    for questions in sets.values():
        for question in questions:
            lists = [list(range(len(question.memories)))] if question.memories else []
            lists += [rows for n in _SIZES if n < len(question.memories) and (rows := _smaller(question, n, rng))]
            for rows in lists:
                read = features([question.candidates[i] for i in rows])
                first = rows[:READ]
                scores += list(read[:READ])
                answers += list(with_answers(read, question.answers(first)))
                y += [bool(question.met[i]) for i in first]
                weights += [1 / len(questions) / len(lists)] * len(first)
    return {"scores": _regression(scores, y, weights), "answers": _regression(answers, y, weights)}


def _regression(x: Sequence[np.ndarray], y: Sequence[bool], weights: Sequence[float]) -> JsonObject:
    scaler = StandardScaler().fit(np.array(x))
    model = LogisticRegression(C=_INVERSE_REGULARIZATION, max_iter=5000)
    model.fit(scaler.transform(np.array(x)), np.array(y), sample_weight=np.array(weights) / np.mean(weights))
    return {
        "mean": [round(float(v), 6) for v in scaler.mean_],
        "scale": [round(float(v), 6) for v in scaler.scale_],
        "weights": [round(float(v), 6) for v in model.coef_[0]],
        "intercept": round(float(model.intercept_[0]), 6),
    }


def _smaller(question: JudgedResults, size: int, rng: np.random.Generator) -> list[int]:
    """Returns the rows of a smaller scope that has all evidence found, and other memories by chance."""
    evidence = [i for i, met in enumerate(question.met) if met]
    others = np.array([i for i, met in enumerate(question.met) if not met])
    more = min(len(others), max(0, size - len(evidence)))
    return sorted([*evidence, *rng.choice(others, more, replace=False).tolist()] if more else evidence)


def figures(models: JsonObject, questions: Sequence[JudgedResults]) -> JsonObject:
    """Returns what models keep of the results of answerable questions in order of relevance, and the first five."""
    chances, truth = [], []
    best: list[float] = []
    best_of_none: list[float] = []
    shown, five, scored = _Shown(), _Shown(), _Shown()
    for question in questions:
        rows = list(range(min(READ, len(question.memories))))
        if not rows:
            continue
        p = probabilities(question.candidates, question.answers(rows), models)[: len(rows)]
        (best if question.needs else best_of_none).append(float(p.max()))
        if not question.needs:
            continue
        chances += list(p)
        truth += [bool(question.met[i]) for i in rows]
        order = np.argsort(-p, kind="stable").tolist()
        least = least_relevance(p.max())
        shown.add(question, [i for n, i in enumerate(order) if n == 0 or p[i] >= least])
        five.add(question, order[:5])
        scored.add(question, rows[:5])
    found: JsonObject = {
        "questions": len(shown.whole),
        "auroc": round(float(roc_auc_score(truth, chances)), 3),
        "with the line": shown.to_json(),
        "first five": five.to_json(),
        "first five by score": scored.to_json(),
    }
    if best_of_none:
        lines = {share: float(np.quantile(best, share)) for share in (0.02, 0.05)}
        found["unanswerable, best below that of a share of the others"] = {
            str(share): [round(line, 4), round(float(np.mean(np.array(best_of_none) < line)), 3)]
            for share, line in lines.items()
        }
    return found


class _Shown:
    """Shares of the results that are shown for questions."""

    def __init__(self) -> None:
        self.whole: list[bool] = []
        self.first: list[bool] = []
        self.results = self.relevant = self.chars = self.evidence = 0

    def add(self, question: JudgedResults, rows: Sequence[int]) -> None:
        self.first.append(bool(question.met[rows[0]]))
        self.whole.append(frozenset().union(*(question.met[i] for i in rows)) == question.needs)
        for i in rows:
            self.results += 1
            self.chars += len(question.memories[i].text)
            self.relevant += bool(question.met[i])
            self.evidence += len(question.memories[i].text) if question.met[i] else 0

    def to_json(self) -> JsonObject:
        return {
            "first": round(sum(self.first) / len(self.first), 3),
            "all_evidence": round(sum(self.whole) / len(self.whole), 3),
            "results": round(self.results / len(self.whole), 2),
            "precision": round(self.relevant / self.results, 3),
            "share_of_characters": round(self.evidence / self.chars, 3),
        }


def main() -> None:
    """Fits the model and writes it with its figures."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--home", type=Path, required=True, help="A built home with golden sets.")
    arguments.add_argument("--suite", type=Path, action="append", default=[], help="A suite; may be given again.")
    arguments.add_argument("--apart", action="append", default=[], help="A set to measure on only, by name.")
    given = arguments.parse_args()
    sets: dict[str, Sequence[JudgedResults]] = dict(golden_results(Home(given.home)))
    sets |= {folder.name: suite_results(folder) for folder in given.suite} | {"worlds": world_results()}
    fitted = {name: questions for name, questions in sets.items() if name not in given.held_out}
    model = fit(fitted)
    by_set: JsonObject = {
        name: figures(fit({n: q for n, q in fitted.items() if n != name}), questions)
        for name, questions in sets.items()
    }
    for name, found in by_set.items():
        say(f"{name}: {json.dumps(found)}")
    model["figures by a model of the other sets"] = by_set
    (SHIPPED / MODEL_FILE).write_text(json.dumps(model, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
