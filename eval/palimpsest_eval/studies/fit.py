"""Fits the weights of a collection's strategy on its golden questions, cross-validated.

Run with `python -m palimpsest_eval.studies.fit`.

Greedy: from the current weights, the one change of a parameter that gains most is made, repeatedly while one gains a
margin; in each fold on the questions of the other folds, and the result is judged on the fold that was held out. The
output is a proposal: a change should be made where most folds choose it and the held-out questions gain. The suites
that figures are reported on are not used.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from palimpsest.core.ids import content_id
from palimpsest.query.reader import open_home
from palimpsest.query.request.strategies import Weights, resolve_strategy
from palimpsest.store.home import data_folder
from palimpsest_eval.golden.retrieval_run import SearchSettings
from palimpsest_eval.metrics.significance import paired_interval
from palimpsest_eval.runs.ablation import StageReader
from palimpsest_eval.runs.golden_suite import golden_home, run_golden_suite

FOLDS = 5
MARGIN = 0.002  # of the mean: less is noise
MEASURES = ("R@5", "nDCG@10")
GRID: dict[str, tuple[Any, ...]] = {
    "words": (0.8, 1.0, 1.2, 1.5),
    "time": (0.0, 0.5, 1.0, 1.5),
    "graph": (0.0, 0.5, 1.0),
    "entities": (0, 20),
    "shares": ((), (0.15, 0.075), (0.3, 0.15), (0.4, 0.2)),
    "nearby": ((), (0.5, 0.25, 0.13), (0.6, 0.36), (0.6, 0.36, 0.22), (0.7, 0.49, 0.34), (0.7, 0.49, 0.34, 0.24)),
    "recency": (0.0, 0.25, 0.5, 1.0),
    "frequency": (0.0, 0.25, 0.5, 1.0),
    "importance": (0.0, 0.5),
    "diversity": (0.0, 0.25, 0.5, 1.0),
    "spreading.own": (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0),
    "spreading.pairs": (0.0, 1.0, 2.0, 3.0, 4.0),
    "spreading.title": (0.0, 1.0, 2.0, 3.0),
    "spreading.question": (0.0, 0.1, 0.3),
    "spreading.passages": (0.1, 0.3, 0.6),
    "spreading.sentences": (0.3, 0.6, 1.0),
    "spreading.named": (0.4, 0.6, 0.8, 0.9),
    "spreading.cosine": (5.0, 10.0, 20.0, 40.0),
    "spreading.follow": (0.2, 0.3, 0.4),
    "spreading.seeds": (10, 20, 40),
}
_SCORERS = {"shares": "order", "nearby": "order", "spreading": "passages"}
"""The only scorer that a parameter has an effect on."""

Score = Callable[[Weights], Mapping[str, float]]
"""Returns a value for each question, under some weights."""


def variations(prior: Weights) -> list[tuple[str, Any]]:
    """Returns every (parameter, value) of the grid that differs from the prior and has an effect with its scorer.

    `spreading.own` is a parameter of the walk.
    """
    names = [n for n in GRID if _SCORERS.get(n.partition(".")[0], prior.scorer) == prior.scorer]
    return [(n, value) for n in names for value in GRID[n] if value != _parameter(prior, n)]


def _parameter(weights: Any, name: str) -> Any:
    first, _, rest = name.partition(".")
    return _parameter(getattr(weights, first), rest) if rest else getattr(weights, first)


@dataclass(frozen=True)
class FitResult:
    """A cross-validated fit.

    Attributes:
        questions: how many.
        prior: mean with the weights it started from.
        held_out: mean over the held-out questions of each fold with the weights chosen on the others.
        low: of the 95 % interval of the gain.
        high: of that interval.
        chosen: in how many folds each change was chosen, by `parameter=value`.
        alone: mean with one change alone, by `parameter=value`.
    """

    questions: int
    prior: float
    held_out: float
    low: float
    high: float
    chosen: Mapping[str, int]
    alone: Mapping[str, float]


def fit(prior: Weights, score: Score, folds: int = FOLDS) -> FitResult:
    """Fits the weights on all folds but one, for each fold, and judges them on that one.

    Args:
        prior: the weights to start from.
        score: values of all questions under some weights.
        folds: how many; a question's fold is a hash of its id.
    """
    base = score(prior)
    questions = sorted(base)
    fold = {q: int(content_id("fold", q), 16) % folds for q in questions}
    alone = {change: score(_with_change(prior, change)) for change in variations(prior)}
    chosen: Counter[tuple[str, Any]] = Counter()
    held_out: dict[str, float] = {}
    for number in range(folds):
        train = [q for q in questions if fold[q] != number]
        best, picked = _climb(prior, train, score)
        chosen.update(picked)
        found = score(best)
        held_out |= {q: found[q] for q in questions if fold[q] == number}
    old, new = [base[q] for q in questions], [held_out[q] for q in questions]
    low, high = paired_interval(old, new)
    return FitResult(
        questions=len(questions),
        prior=float(np.mean(old)),
        held_out=float(np.mean(new)),
        low=low,
        high=high,
        chosen={f"{name}={value}": n for (name, value), n in sorted(chosen.items(), key=str)},
        alone={f"{name}={value}": _mean(values, questions) for (name, value), values in alone.items()},
    )


def _with_change(prior: Any, change: tuple[str, Any]) -> Any:
    """Returns the weights with one of them changed, also one inside another: `spreading.own`."""
    first, _, rest = change[0].partition(".")
    return replace(prior, **{first: _with_change(getattr(prior, first), (rest, change[1])) if rest else change[1]})


def _climb(prior: Weights, train: Sequence[str], score: Score) -> tuple[Weights, list[tuple[str, Any]]]:
    """Returns the weights reached by the change that gains most, repeatedly while one gains the margin."""
    best, picked, reached = prior, {}, _mean(score(prior), train)
    for _ in GRID:
        tried = [(_mean(score(_with_change(best, change)), train), change) for change in variations(best)]
        gained, (name, value) = max(tried, key=lambda t: (t[0], str(t[1])))
        if gained < reached + MARGIN:
            break
        best, reached, picked[name] = _with_change(best, (name, value)), gained, value
    return best, sorted(picked.items())


def _mean(values: Mapping[str, float], questions: Sequence[str]) -> float:
    return float(np.mean([values[q] for q in questions]))


def golden_score(path: Path, cache: Path, backend: str = "duckdb") -> tuple[Weights, Score]:
    """Returns the weights that `auto` resolves to in a golden set's collection, and a function that scores others.

    A question's value is the mean of R@5 and nDCG@10.
    """
    home, _ = golden_home(path, cache)
    reader = open_home(home.path, backend, count_reads=False)
    _, prior = resolve_strategy("auto", reader.backend.collections()[path.stem])
    known: dict[Weights, dict[str, float]] = {}

    def score(weights: Weights) -> Mapping[str, float]:
        if weights not in known:
            settings = SearchSettings("weights", budget_tokens=0)
            result, _ = run_golden_suite(StageReader(reader, {"strategy": weights}), home, path, settings)
            known[weights] = {q.query_id: float(np.mean([q.metrics[m] for m in MEASURES])) for q in result.per_query}
        return known[weights]

    return prior, score


def main() -> None:
    """Prints a JSON line for each golden set."""
    from palimpsest_eval.runs.suite_runs import cache_folder

    parser = argparse.ArgumentParser(description="fits a strategy's weights on golden questions")
    parser.add_argument("collections", nargs="*", default=["atlas", "diary", "lexicon"])
    for name in parser.parse_args().collections:
        result = fit(*golden_score(data_folder() / "golden" / f"{name}.jsonl", cache_folder()))
        sys.stdout.write(json.dumps({"collection": name} | asdict(result)) + "\n")


if __name__ == "__main__":
    main()
