import math

import pytest

from palimpsest.query.reader import open_index
from palimpsest.store.builds import published
from palimpsest.store.decisions import Decisions
from palimpsest_eval.golden.golden_run import search_golden
from palimpsest_eval.golden.questions import GoldenSet, load_golden
from palimpsest_eval.metrics import MetricError
from palimpsest_eval.ragas.ragas_check import crosscheck, crosscheck_samples, golden_samples
from palimpsest_eval.runs.judge_build import run_collection


def test_sets_agree_rank_counts_for_neither_and_an_empty_retrieval_as_nothing_found():
    ranked = {"a": ["x", "y", "z"], "b": [], "c": ["z", "x"]}
    got = crosscheck(ranked, {"a": ["x", "q"], "b": ["x"], "c": ["x"], "d": ["x"]}, depth=10)
    assert got.largest_difference < 1e-9 and (got.queries, got.empty) == (4, 2)
    assert got.ragas["recall"] == pytest.approx((0.5 + 0 + 1 + 0) / 4)
    assert got.ragas["precision"] == pytest.approx((1 / 3 + 0 + 1 / 2 + 0) / 4)
    assert all(map(math.isfinite, got.ragas.values()))
    there, back = crosscheck({"a": ["x", "y"]}, {"a": ["x"]}), crosscheck({"a": ["y", "x"]}, {"a": ["x"]})
    assert there == back
    assert crosscheck({"a": ["y", "x"]}, {"a": ["x"]}, depth=1).ragas == {"precision": 0.0, "recall": 0.0}
    with pytest.raises(MetricError):
        crosscheck({}, {})


def test_recall_on_a_golden_set_equals_the_gates(judged_home):
    build = published(judged_home)
    tables = build.tables(("documents", "document_texts", "memories", "versions"))
    questions = load_golden(judged_home.path.parent / "data/golden/chats.jsonl")
    with open_index(build.index) as reader:
        search = search_golden(reader, GoldenSet("chats", tuple(questions), "ann"), tables)
    got = crosscheck_samples(golden_samples(search))
    run = run_collection(build, "chats", tables, Decisions())
    assert got.largest_difference < 1e-9
    assert run.ragas == pytest.approx(got.ragas, abs=1e-9)
    assert got.ragas["recall"] == pytest.approx(run.scores.mean["R@10"], abs=1e-9)
    assert "4 queries, 0 without a result: precision" in got.text()
