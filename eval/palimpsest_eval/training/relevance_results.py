"""The results of questions with judged evidence, by their scores: what the relevance is fitted to and measured on."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query.ranking.merge import DEPTH
from palimpsest.query.reader import Reader, open_home
from palimpsest.query.request.types import RankedMemory, Scope
from palimpsest.query.rerank import NO_RERANKER, AnswerReader
from palimpsest.query.scope.scope_query import Candidate
from palimpsest.store.builds import published
from palimpsest.store.home import Home, data_folder
from palimpsest_eval.golden.golden_run import search_golden
from palimpsest_eval.golden.questions import JUDGED_TABLES, GoldenSet, collection_tables, load_questions
from palimpsest_eval.golden.retrieval_run import RetrievalQuery, SearchSettings, search_queries
from palimpsest_eval.runs.suite_runs import suite_home
from palimpsest_eval.suites.run_suite import suite_queries
from palimpsest_eval.suites.suite import corpus_id, load_suite
from palimpsest_eval.training.worlds import World, load_worlds

_EVERY_WORLD = 16
_DEEP = SearchSettings(budget_tokens=0, depth=DEPTH)


@dataclass(frozen=True)
class JudgedResults:
    """The results of one question by their scores, and which needs of it each meets; an unanswerable one has none."""

    question: str
    memories: Sequence[RankedMemory]
    met: Sequence[frozenset[str]]
    needs: frozenset[str]

    @property
    def candidates(self) -> list[Candidate]:
        """The results as the ranking has them."""
        return [
            Candidate(m.memory_id, m.score, m.vector_score, m.words_score, m.score - m.graph_score)
            for m in self.memories
        ]

    def answers(self, rows: Sequence[int]) -> np.ndarray:
        """Returns what the reader of answers says of some of the results."""
        known = self._answers
        return np.array([known[i] if i in known else self._read(i) for i in rows])

    def _read(self, row: int) -> float:
        self._answers[row] = float(AnswerReader().read(self.question, [self.memories[row]])[0])
        return self._answers[row]

    @cached_property
    def _answers(self) -> dict[int, float]:
        return {}


def judged(question: str, memories: Sequence[RankedMemory], needs: Mapping[str, frozenset[str]]) -> JudgedResults:
    """Returns results with the needs that each meets, by the names that `needs` gives to sets of memory ids."""
    met = [frozenset(n for n, ids in needs.items() if m.memory_id in ids) for m in memories]
    return JudgedResults(question, memories, met, frozenset(needs))


def golden_results(home: Home) -> dict[str, list[JudgedResults]]:
    """Searches the golden questions of a home, by collection."""
    build = published(home)
    assert build is not None
    tables = build.tables(JUDGED_TABLES)
    found: dict[str, list[JudgedResults]] = {}
    with _open(home) as reader:
        for collection, settings in build.manifest.settings["collections"].items():
            questions = load_questions(data_folder(), collection)
            if not questions:
                continue
            golden = GoldenSet(collection, tuple(questions), settings["user_id"])
            search = search_golden(reader, golden, collection_tables(tables, collection), _DEEP)
            found[collection] = [
                judged(
                    item.question.question,
                    search.retrieval.results[item.question.id].memories,
                    {str(n): frozenset(ids) for n, ids in enumerate(item.needs)},
                )
                for item in search.resolved
                if not item.question.turns
            ]
    return found


def _open(home: Home) -> Reader:
    """Opens a home whose searches rank by scores alone."""
    return open_home(home.path, reranker=NO_RERANKER)


def suite_results(folder: Path) -> list[JudgedResults]:
    """Searches the queries of a suite that have relevant rows."""
    suite = load_suite(folder)
    home, _ = suite_home(folder)
    queries = suite_queries(suite)
    with _open(home) as reader:
        run = search_queries(reader, queries, _DEEP, times=False, what=folder.name)
    texts = {q.query_id: q.text for q in queries}
    return [
        judged(
            texts[query_id],
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
        corpus, home = Path(scratch) / "corpora/worlds", Home(Path(scratch) / "home")
        _write_worlds(worlds, corpus)
        home.create()
        with home.lock(600):
            run_without_dagster(home, make_plan(home, [corpus.parent]))
        with _open(home) as reader:
            pairs = [(n, w, c) for n, w in enumerate(worlds) for c in w.changes if c.question]
            queries = [
                RetrievalQuery(str(i), c.question, Scope(corpus.name, str(n))) for i, (n, _, c) in enumerate(pairs)
            ]
            run = search_queries(reader, queries, _DEEP, times=False, what="worlds")
    out = []
    for i, (_, world, change) in enumerate(pairs):
        memories = run.results[str(i)].memories
        text = " ".join(world.notes[change.newer].text.split())
        ids = frozenset(m.memory_id for m in memories if " ".join(m.text.split()) in text)
        out.append(judged(change.question, memories, {"newer": ids}))
    return out


def _write_worlds(worlds: Sequence[World], folder: Path) -> None:
    """Writes worlds as a collection of turns, one user and file each."""
    folder.mkdir(parents=True)
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
