"""What published benchmarks measure, by hand-computed values, and the command from a file to its figures."""

import json
import math
import os
from datetime import date
from pathlib import Path

import pytest

from palimpsest_eval.golden.retrieval_run import SearchSettings, search_queries
from palimpsest_eval.metrics import MetricError
from palimpsest_eval.runs.suite_runs import measure_benchmark
from palimpsest_eval.suites.run_suite import suite_queries
from palimpsest_eval.suites.score_benchmark import (
    BENCHMARKS,
    LIBRARY,
    OWN,
    Benchmark,
    Ranking,
    capped_recall,
    ndcg_any,
    recall_all,
    score_benchmark,
    stale_scores,
    support_rank_score,
)
from palimpsest_eval.suites.suite import Suite, SuiteQuery
from tests.command import last_json, process, run
from tests.eval.home import FakeReader, Found

SUITES = Path(os.environ.get("PALIMPSEST_SUITES") or Path(__file__).resolve().parents[3] / "shared/suites")


def test_measures_of_benchmarks_are_those_computed_by_hand_and_all_are_known():
    assert recall_all("abc", {"a", "c"}, 3) == 1 and recall_all("abc", {"a", "c"}, 2) == 0
    # Ranks 1 and 2 count 1, rank 3 counts 1 / log2(3); the ideal ranking has both relevant ids first.
    assert ndcg_any("xac", {"a", "c"}, 3) == pytest.approx((1 + 1 / math.log2(3)) / 2)
    assert ndcg_any("xac", {"a", "c"}, 1) == 0 and ndcg_any("axc", {"a", "c"}, 1) == 1
    assert capped_recall("axb", {"a", "b", "c"}, 2) == 1 / 2 and capped_recall("axb", {"a", "b", "c"}, 10) == 2 / 3
    assert support_rank_score("xya", {"a"}, 3) == 1 / 2 and support_rank_score("xya", {"a"}, 2) == 0
    named = {m for benchmark in BENCHMARKS.values() for ranking in benchmark.rankings for m in ranking.measures}
    assert named == {*OWN, *LIBRARY}


@pytest.mark.parametrize(
    ("ranked", "current", "stale", "fama", "first"),
    [
        ("cx", 1.0, 0.0, 1.0, 1.0), ("co", 1.0, 0.5, 1 - 0.5 * 2 / 3, 1.0), ("oc", 1.0, 0.5, 1 - 0.5 * 2 / 3, 0.0),
        ("op", 0.0, 1.0, 0.0, 0.0), ("xy", 0.0, 0.0, 0.0, 0.0),
    ],
)  # fmt: skip
def test_a_superseded_memory_that_is_served_costs_its_share(ranked, current, stale, fama, first):
    scores = stale_scores(ranked, {"c"}, {"o", "p"}, 2)
    assert scores == {"current@2": current, "stale@2": stale, "fama@2": pytest.approx(fama), "current_first@2": first}


def suite(**fields) -> Suite:
    rows = dict.fromkeys(["s1a", "s1b", "s2a", "s3a"])
    queries = (SuiteQuery("q1", "one?", type="update"), SuiteQuery("q2", "two?", as_of=date(2024, 3, 1)))
    qrels = {"q1": {"s1a": 1, "s2a": 1}, "q2": {"s3a": 1}}
    sessions = {row: row[:2] for row in rows}
    return Suite("chats", Path("chats"), None, rows, queries, qrels, sessions=sessions, **fields)


def answers(ranked: dict[str, list[str]]) -> FakeReader:
    return FakeReader(
        {text: [Found(f"m-{row}", uri=f"corpus.jsonl#{row}") for row in rows] for text, rows in ranked.items()}
    )


def scored(given: Suite, benchmark: Benchmark, cutoffs=()):
    reader = answers({"one?": ["s1b", "s1a", "s2a"], "two?": ["s1a", "s2a", "s3a"]})
    run = search_queries(reader, suite_queries(given), SearchSettings())
    return score_benchmark(given, run, "mine", benchmark, cutoffs), reader


RECALL = (Ranking("turn", ("R",), (2,)), Ranking("session", ("R", "recall_any"), (1, 2)))


def test_a_session_is_ranked_by_its_best_turn_and_relevant_by_any():
    result, _ = scored(suite(), Benchmark("x", RECALL))
    assert result.tables["turn"].metrics == {"R@2": (1 / 2 + 0) / 2}
    # q1 ranks s1, s2, both relevant; q2 ranks s1, s2, s3, of which the last is.
    expected = {"R@1": 1 / 4, "R@2": 1 / 2, "recall_any@1": 1 / 2, "recall_any@2": 1 / 2}
    assert result.tables["session"].metrics == pytest.approx(expected)
    assert list(result.tables["session"].metrics) == list(expected)
    updates = {"queries": 1, "R@1": 0.5, "R@2": 1.0, "recall_any@1": 1.0, "recall_any@2": 1.0}
    assert result.tables["session"].by_type == {"update": updates}
    assert "superseded" not in result.tables


def test_a_query_is_searched_as_of_its_day_and_cutoffs_replace_those_of_the_benchmark():
    _, reader = scored(suite(), Benchmark("x", RECALL))
    assert {text: filters.get("as_of") for text, _, filters in reader.queries} == {
        "one?": None,
        "two?": date(2024, 3, 1),
    }
    result, _ = scored(suite(), Benchmark("x", RECALL), (3,))
    assert list(result.tables["turn"].metrics) == ["R@3"] and result.tables["turn"].metrics["R@3"] == 1
    with pytest.raises(MetricError, match="no relevant row names its session"):
        given = suite()
        scored(Suite(given.name, given.folder, None, given.scopes, given.queries, given.qrels), Benchmark("x", RECALL))


def test_what_is_superseded_is_measured_on_queries_that_state_both_in_columns_of_its_own():
    stale = {"q1": frozenset({"s1a"}), "q2": frozenset({"s3a"})}
    table = scored(suite(stale=stale), Benchmark("x", RECALL, "turn"), (3,))[0].tables["superseded"]
    assert table.queries == 1, "nothing current is known of q2"
    assert table.metrics == {"current@3": 1, "stale@3": 1, "fama@3": 0.5, "current_first@3": 0}
    table = scored(suite(stale=stale), Benchmark("x", RECALL, "session"), (1,))[0].tables["superseded"]
    assert table.metrics == {"current@1": 0, "stale@1": 1, "fama@1": 0, "current_first@1": 0}
    stale = {"q1": frozenset({"s1a"})}
    text = scored(suite(stale=stale), Benchmark("x", RECALL, "turn"), (10,))[0].text()
    head = next(line for line in text.splitlines() if line.startswith("superseded"))
    assert head.split() == ["superseded", "queries", "current@10", "stale@10", "fama@10", "current_first@10"]


CHAT = [
    {
        "question_id": "q1", "question_type": "single-session-user", "question": "Which bread do I bake?",
        "haystack_session_ids": ["s1", "s2"], "haystack_dates": ["2023/05/30 (Tue) 21:48", "2023/06/01 (Thu) 08:00"],
        "haystack_sessions": [
            [{"role": "user", "content": "The hive is blue."}, {"role": "assistant", "content": "Nice."}],
            [{"role": "user", "content": "I bake rye bread.", "has_answer": True}],
        ],
        "answer_session_ids": ["s2"],
    },
    {
        "question_id": "q2_abs", "question_type": "single-session-user", "question": "Which car?",
        "haystack_sessions": [[{"role": "user", "content": "I have a bike."}]],
    },
]  # fmt: skip


def test_the_command_prints_the_tables_of_a_file(tmp_path):
    path = tmp_path / "longmemeval_s.json"
    path.write_text(json.dumps(CHAT))
    done = run("benchmark", "longmemeval", path, "--k", 1, "--json", PALIMPSEST_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    found = last_json(done)
    assert (found["benchmark"], found["queries"], found["unjudged"]) == ("longmemeval", 1, 1)
    expected = {"recall_any@1": 1.0, "recall_all@1": 1.0, "ndcg_any@1": 1.0}
    assert found["tables"]["session"]["metrics"] == found["tables"]["turn"]["metrics"] == expected
    assert found["tables"]["turn"]["by_type"] == {"single-session-user": {"queries": 1, **expected}}
    assert found["embedder"] == "minilm" and found["build"]["memories"] == 4
    text = run("benchmark", "longmemeval", path, PALIMPSEST_CACHE=str(tmp_path / "cache")).stdout
    assert (
        text.startswith("longmemeval (longmemeval_s): 1 queries, 1 without evidence left out") and "ndcg_any@50" in text
    )


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        (process, ("locomo", "bad.json"), "bad.json: no LoCoMo: an item must have conversation, qa, sample_id"),
        (run, ("beam", "none"), "none: no such file or folder"),
        (run, ("cranfield", "bad.json"), "'cranfield' is not one of"),
        (run, ("locomo", "bad.json", "--k", "101"), "101 is not in the range"),
    ],
)
def test_bad_input_is_one_line_with_exit_code_2(tmp_path, command, arguments, message):
    (tmp_path / "bad.json").write_text(json.dumps(CHAT))
    done = command("benchmark", *arguments, cwd=tmp_path, PALIMPSEST_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 2 and message in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.suite
@pytest.mark.parametrize(
    ("name", "path", "table", "measure", "at_least"),
    [
        ("longmemeval", "longmemeval_sample16/longmemeval_oracle_sample.json", "turn", "recall_any@10", 0.9),
        ("locomo", "locomo/raw/locomo10.json", "turn", "R@5", 0.6),
        ("beam", "beam_chats", "turn", "R@5", 0.4),
    ],
)
def test_figures_on_real_data(name, path, table, measure, at_least):
    if not (SUITES / path).exists():
        pytest.skip(f"needs {path} in {SUITES}")
    result = measure_benchmark(name, SUITES / path)
    print(result.text())
    assert result.tables[table].metrics[measure] >= at_least
