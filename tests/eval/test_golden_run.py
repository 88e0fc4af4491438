import json

import polars as pl
import pytest

from palimpsest_eval.golden.golden_run import GoldenRun
from palimpsest_eval.golden.questions import GoldenSet, Question
from palimpsest_eval.golden.score_golden import run_golden
from tests.eval.home import COLLECTION, FakeReader, Found, tables, ticking


def golden_question(id, text, uri=None, quote=None, stale=(), user="ana", **more):
    evidence = [{"uri": uri, "quote": quote}] if uri else []
    kind = "single" if uri else "unanswerable"
    stale = [{"uri": u, "quote": q} for u, q in stale]
    return Question(id=id, question=text, type=kind, user=user, evidence=evidence, stale=stale, **more)


LAUNCH = golden_question("q1", "when?", "news.md", "moved to Friday", [("plan.md", "on Monday")])
MONEY = golden_question("q2", "how much?", "plan.md", "ten thousand euros")
BEES = golden_question("q3", "hobby?", "chat.jsonl#s1", "keep bees", user="ben")
NOTHING = golden_question("q4", "who?")


def run(reader, *questions, **more):
    return run_golden(reader, GoldenSet(COLLECTION, questions, "ana"), tables(), clock=ticking(0.007), **more)


def test_each_question_runs_in_its_scope_is_scored_and_timed_after_one_warm_up():
    reader = FakeReader({"when?": ["m4", "m3"], "how much?": ["m2"], "hobby?": ["m5"]}, packed={"when?": ["m4"]})
    got = run(reader, LAUNCH, MONEY, BEES)
    assert {(text, scope) for text, scope, _ in reader.queries} == {
        ("when?", (COLLECTION, "ana", "")),
        ("how much?", (COLLECTION, "ana", "")),
        ("hobby?", (COLLECTION, "ben", "")),
    }
    assert got.per_query["q1"]["MRR@10"] == 0.5
    assert got.per_query["q1"]["R@5"] == 1.0
    assert got.per_query["q1"]["packed_recall"] == 0.0
    assert got.per_query["q2"]["packed_recall"] == 1.0
    assert got.scores.mean["MRR@10"] == pytest.approx(2.5 / 3)
    assert got.answered == 3
    assert not got.leaks
    assert not got.errors
    reader = FakeReader({"when?": ["m3"], "how much?": ["m2"], "hobby?": ["m5"]})
    assert run(reader, LAUNCH, MONEY, BEES).latency_ms == pytest.approx({"p50": 7.0, "p95": 7.0, "p99": 7.0})
    assert len(reader.queries) == 5


def test_stale_is_what_is_not_latest_or_holds_a_stale_quote_unless_another_day_is_asked_about():
    reader = FakeReader({"when?": [Found("m3"), Found("m1"), Found("m2", is_latest=False), Found("m4")]})
    got = run(reader, LAUNCH)
    assert got.per_query["q1"]["stale@5"] == 0.5
    assert [h.stale for h in got.results["q1"]] == [False, True, True, False]
    assert [h.relevant for h in got.results["q1"]] == [True, False, False, False]
    assert got.results["q1"][0].source == "news.md:0-30"
    then = golden_question("q1", "when?", "plan.md", "on Monday", as_of="2024-01-15")
    reader = FakeReader({"when?": ["m1"]})
    assert run(reader, then).per_query["q1"]["stale@5"] == 0.0
    assert {str(f["as_of"]) for _, _, f in reader.queries} == {"2024-01-15"}


def test_a_result_of_another_user_project_or_build_is_a_leak_and_a_run_survives_json():
    reader = FakeReader({"when?": ["m3", "m6"], "how much?": ["m2"]}, packed={"how much?": ["m2", "mX"]})
    got = run(reader, LAUNCH, MONEY)
    assert list(got.leaks) == [
        "question 'q1': memory m6 belongs to notes/ben",
        "question 'q2': memory mX is not of this build",
    ]
    got = run(FakeReader({"when?": ["m3", "m6"]}), LAUNCH, MONEY)
    again = GoldenRun.from_json(json.loads(json.dumps(got.to_json())))
    assert again.per_query == got.per_query
    assert again.results["q1"] == tuple(got.results["q1"])
    assert again.leaks == got.leaks


def test_a_question_of_a_project_is_searched_there_and_other_projects_are_leaks():
    t = tables()
    alpha = pl.when(pl.col("document_id") == "d2").then(pl.lit("alpha")).otherwise("project_id")
    t |= {n: t[n].with_columns(project_id=alpha) for n in ("documents", "memories")}
    reader = FakeReader({"when?": ["m3", "m2"], "how much?": ["m2", "m4"]})
    launch = LAUNCH.model_copy(update={"project": "alpha"})
    got = run_golden(reader, GoldenSet(COLLECTION, (launch, MONEY), "ana"), t, clock=ticking(0.007))
    assert [filters.get("project") for text, _, filters in reader.queries if text == "when?"] == ["alpha", "alpha"]
    assert got.leaks == ("question 'q2': memory m4 belongs to notes/ana/alpha",)


def test_no_results_count_as_zero_unanswerable_questions_apart_and_a_lost_quote_as_an_error():
    got = run(FakeReader({"how much?": ["m2"]}), LAUNCH, MONEY)
    assert got.answered == 1
    assert got.per_query["q1"]["R@5"] == 0.0
    assert got.per_query["q1"]["stale@5"] == 0.0
    got = run(FakeReader({"how much?": ["m2"], "who?": ["m4"]}), MONEY, NOTHING)
    assert set(got.per_query) == {"q2"}
    assert got.unanswerable == {"q4": 1.0}
    assert run(FakeReader({"how much?": ["m2"]}), MONEY, NOTHING).unanswerable == {"q4": 0.0}
    got = run(FakeReader({}), LAUNCH, golden_question("q9", "x?", "news.md", "not there"))
    assert len(got.errors) == 1
    assert "q9" in got.errors[0]
    assert not got.per_query
