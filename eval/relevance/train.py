"""Fits the relevance of results: `python -m palimpsest.eval.relevance.train --home HOME --suite FOLDER ...`.

Searches the golden questions of a home and the queries of suites, and writes data/models/relevance.json with figures of
each set by a model of all the others. A set that nobody is to tune on is named with `--held-out`.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from palimpsest.build.plan import make_plan
from palimpsest.build.publish import run_without_dagster
from palimpsest.core.json_types import JsonObject
from palimpsest.core.progress import say, tracked
from palimpsest.eval.golden.build_tables import JUDGED_TABLES, collection_tables
from palimpsest.eval.golden.questions import GoldenSet, load_questions
from palimpsest.eval.golden.retrieval_run import RetrievalQuery, SearchSettings, search_queries
from palimpsest.eval.golden.search_golden import search_golden
from palimpsest.eval.labels.training.worlds import World, load_worlds
from palimpsest.eval.runs.suite_runs import suite_home
from palimpsest.eval.suites.run_suite import suite_queries
from palimpsest.eval.suites.suite import load_suite
from palimpsest.eval.suites.suite_collection import corpus_id
from palimpsest.query.ranking.candidate import Candidate
from palimpsest.query.ranking.relevance import DEFAULT_PERCENT, DEPTH, MODEL_FILE, features, probabilities
from palimpsest.query.reader import Reader, open_home
from palimpsest.query.request.types import RankedMemory, Scope
from palimpsest.store.builds import published
from palimpsest.store.home import SHIPPED, Home, data_folder

LINE = DEFAULT_PERCENT / 100
MAX_RESULTS = 10
_EVERY_WORLD = 16
_DEEP = SearchSettings(budget_tokens=0, depth=DEPTH)
_SIZES = (3, 8, 15)  # of smaller scopes, which are drawn from the results
_INVERSE_REGULARIZATION, _SEED = 0.3, 0


@dataclass(frozen=True)
class JudgedResults:
    """The results of one question, and which needs of it each meets."""

    candidates: Sequence[Candidate]
    met: Sequence[frozenset[str]]
    lengths: Sequence[int]
    needs: frozenset[str]


def judged(memories: Sequence[RankedMemory], needs: Mapping[str, frozenset[str]]) -> JudgedResults:
    """Returns results with the needs that each meets, by the names that `needs` gives to sets of memory ids."""
    candidates = [
        Candidate(m.memory_id, m.score, m.vector_score, m.words_score, m.score - m.graph_score) for m in memories
    ]
    met = [frozenset(n for n, ids in needs.items() if m.memory_id in ids) for m in memories]
    return JudgedResults(candidates, met, [len(m.text) for m in memories], frozenset(needs))


def golden_results(reader: Reader, home: Home) -> dict[str, list[JudgedResults]]:
    """Searches the answerable golden questions of a home, by collection."""
    build = published(home)
    assert build is not None
    tables = build.tables(JUDGED_TABLES)
    found: dict[str, list[JudgedResults]] = {}
    for collection, settings in build.manifest.settings["collections"].items():
        questions = load_questions(data_folder(), collection)
        if not questions:
            continue
        golden = GoldenSet(collection, tuple(questions), settings["user_id"])
        search = search_golden(reader, golden, collection_tables(tables, collection), _DEEP)
        found[collection] = [
            judged(
                search.retrieval.results[item.question.id].memories,
                {str(n): frozenset(ids) for n, ids in enumerate(item.needs)},
            )
            for item in search.resolved
            if item.question.answerable
        ]
    return found


def suite_results(folder: Path) -> list[JudgedResults]:
    """Searches the queries of a suite that have relevant rows."""
    suite = load_suite(folder)
    home, _ = suite_home(folder)
    with open_home(str(home.path)) as reader:
        run = search_queries(reader, tracked(suite_queries(suite), folder.name, "queries"), _DEEP)
    return [
        judged(
            result.memories,
            {
                row: frozenset(m.memory_id for m in result.memories if corpus_id(m.uri or "") == row)
                for row in suite.relevant(query_id)
            },
        )
        for query_id, result in run.results.items()
    ]


def world_results() -> list[JudgedResults]:
    """Searches the questions of some worlds that train: scopes of a few notes, in which much changes.

    The note that ends another one is the evidence.
    """
    worlds = [w for w in load_worlds() if not w.is_held_out][::_EVERY_WORLD]
    with tempfile.TemporaryDirectory(prefix="palimpsest-worlds-") as scratch:
        corpus, home = Path(scratch) / "corpus", Home(Path(scratch) / "home")
        _write_worlds(worlds, corpus)
        home.create()
        with home.lock(600):
            run_without_dagster(home, make_plan(home, [corpus]))
        with open_home(str(home.path)) as reader:
            pairs = [(n, w, c) for n, w in enumerate(worlds) for c in w.changes if c.question]
            queries = [
                RetrievalQuery(str(i), c.question, Scope(corpus.name, str(n))) for i, (n, _, c) in enumerate(pairs)
            ]
            run = search_queries(reader, tracked(queries, "worlds", "questions"), _DEEP)
    out = []
    for i, (_, world, change) in enumerate(pairs):
        memories = run.results[str(i)].memories
        text = " ".join(world.notes[change.newer].text.split())
        ids = frozenset(m.memory_id for m in memories if " ".join(m.text.split()) in text)
        out.append(judged(memories, {"newer": ids}))
    return out


def _write_worlds(worlds: Sequence[World], folder: Path) -> None:
    """Writes worlds as a collection of turns, one user and file each."""
    folder.mkdir()
    settings = f"name: {folder.name}\ndescription: small worlds\nunit: turn\n"
    (folder / "collection.yaml").write_text(settings, encoding="utf-8")
    for n, world in enumerate(worlds):
        rows = [
            {"session_id": str(i), "user_id": str(n), "text": note.text, "timestamp": f"{note.date}T00:{i:02d}:00Z"}
            | ({"speaker": note.speaker} if note.speaker else {})
            for i, note in enumerate(world.notes)
        ]
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{n}.jsonl").write_text(lines, encoding="utf-8")


def fit(sets: Mapping[str, Sequence[JudgedResults]]) -> JsonObject:
    """Returns the model: each set weighs the same, and so does each size of a scope."""
    rng = np.random.default_rng(_SEED)
    x, y, weights = [], [], []
    for questions in sets.values():
        for question in questions:
            lists = [list(range(len(question.candidates)))]
            lists += [_smaller(question, n, rng) for n in _SIZES if n < len(lists[0])]
            for rows in lists:
                read = features([question.candidates[i] for i in rows])[:MAX_RESULTS] if rows else np.empty((0, 0))
                x += list(read)
                y += [bool(question.met[i]) for i in rows[:MAX_RESULTS]]
                weights += [1 / len(questions) / len(lists)] * len(read)
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


def figures(model: JsonObject, questions: Sequence[JudgedResults]) -> JsonObject:
    """Returns what a model keeps of the results of questions, and what the first five are."""
    chances, truth = [], []
    shown, five = _Kept(), _Kept()
    for question in questions:
        if not question.candidates:
            continue
        p = probabilities(question.candidates, model)[:MAX_RESULTS]
        chances += list(p)
        truth += [bool(met) for met in question.met[: len(p)]]
        shown.add(question, [i for i, v in enumerate(p) if i == 0 or v >= LINE])
        five.add(question, list(range(min(5, len(question.candidates)))))
    auroc = round(float(roc_auc_score(truth, chances)), 3)
    return {"questions": len(questions), "auroc": auroc, "with the line": shown.to_json(), "first five": five.to_json()}


class _Kept:
    """Shares of what was kept of the results of questions."""

    def __init__(self) -> None:
        self.held: list[bool] = []
        self.results = self.relevant = self.chars = self.evidence = 0

    def add(self, question: JudgedResults, rows: Sequence[int]) -> None:
        self.held.append(frozenset().union(*(question.met[i] for i in rows)) == question.needs)
        for i in rows:
            self.results += 1
            self.chars += question.lengths[i]
            self.relevant += bool(question.met[i])
            self.evidence += question.lengths[i] if question.met[i] else 0

    def to_json(self) -> JsonObject:
        return {
            "all_evidence": round(sum(self.held) / len(self.held), 3),
            "results": round(self.results / len(self.held), 2),
            "precision": round(self.relevant / self.results, 3),
            "share_of_characters": round(self.evidence / self.chars, 3),
        }


def main() -> None:
    """Fits the model and writes it with its figures."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--home", type=Path, required=True, help="A built home with golden sets.")
    arguments.add_argument("--suite", type=Path, action="append", default=[], help="A suite; may be given again.")
    arguments.add_argument("--held-out", action="append", default=[], help="A set to measure on only, by name.")
    given = arguments.parse_args()
    with open_home(str(given.home)) as reader:
        sets: dict[str, Sequence[JudgedResults]] = dict(golden_results(reader, Home(given.home)))
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
