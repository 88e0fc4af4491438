import json
import math
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from palimpsest_eval.gate.baseline import accept_baseline, load_baseline
from palimpsest_eval.gate.decide import decide
from palimpsest_eval.gate.invariants import Violation
from palimpsest_eval.gate.verdict import combine
from palimpsest_eval.golden.golden_run import GoldenRun
from tests.eval.gate_runs import FULL, LOST, gate_run


def test_an_unchanged_run_also_but_for_its_last_digit_passes_and_reports_the_smallest_detectable_loss(baseline):
    got = decide(gate_run([FULL] * 100), baseline, True)
    assert (got.status, got.publishable, got.reasons, got.broken) == ("passed", True, (), ())
    assert got.smallest_loss == pytest.approx(0.05)
    assert combine([got]).exit_code == 0
    odd = {m: v - 1e-8 if v else v for m, v in FULL.items()}
    got = decide(gate_run([odd] * 100), baseline, True)
    assert (got.status, got.broken) == ("passed", ())
    assert got.metrics["R@5"].p == 1.0
    assert "| R@5 | 1.000 | 1.000 | +0.000 | 1.0000 |" in got.markdown()


def test_a_significant_loss_fails_and_names_the_queries_with_old_and_new_results(baseline):
    got = decide(gate_run([LOST] * 6 + [FULL] * 94), baseline, True)
    assert got.status == "failed"
    assert not got.publishable
    assert got.reasons[0].startswith("R@5 fell from 1.000 to 0.940")
    assert [b.question_id for b in got.broken] == [f"q00{i}" for i in range(6)]
    assert got.broken[0].old_results[0].source == "a.md:3-7"
    assert got.broken[0].new_results[0].source == "b.md:0-9"


def test_a_loss_within_the_noise_passes_but_its_queries_are_named(baseline):
    got = decide(gate_run([LOST] * 2 + [FULL] * 98), baseline, True)
    assert got.status == "passed"
    assert [b.question_id for b in got.broken] == ["q000", "q001"]


def test_stale_results_close_the_gate_where_they_are_many_and_the_question_finds_no_more(baseline, tmp_path):
    stale = FULL | {"stale@5": 0.4}
    one = decide(gate_run([stale, *[FULL] * 99]), baseline, True)
    assert one.status == "passed" and [b.question_id for b in one.broken] == ["q000"]
    many = decide(gate_run([stale] * 10 + [FULL] * 90), baseline, True)
    (reason,) = many.reasons
    assert reason.startswith("stale@5 rose from 0.000 to 0.040 (+0.040, p 0.00")
    assert reason.endswith(": outdated memories are among the results")
    blind = accept_baseline(gate_run([LOST] * 10 + [FULL] * 90), tmp_path / "b.json", "found nothing", who="test")
    better = decide(gate_run([stale] * 10 + [FULL] * 90), blind, True)
    assert better.status == "passed", "what found nothing served nothing stale"
    assert better.metrics["stale@5"].difference == pytest.approx(0.04)


def test_of_one_or_two_cases_only_a_lost_answer_closes(tmp_path):
    def judged(*precision):
        broad = {f"q{i:03}": p for i, p in enumerate(precision)}
        return gate_run([FULL] * 100, precision=broad)

    two = accept_baseline(judged(1.0, 0.8), tmp_path / "b.json", "two broad questions", who="test")
    assert decide(judged(0.8, 0.6), two, True).status == "passed", "p is 1/4 at best"
    (reason,) = decide(judged(1.0, 0.0), two, True).reasons
    assert reason.startswith("broad_P@5 fell from 0.900 to 0.500")


def test_a_baseline_that_lies_behind_is_named(tmp_path):
    weak = accept_baseline(gate_run([LOST] * 5 + [FULL] * 95), tmp_path / "b.json", "weak", who="test")
    got = decide(gate_run([FULL] * 100), weak, True)
    assert got.status == "passed"
    assert [line.split(" (")[0] for line in got.lagging] == [
        f"{m} rose from 0.950 to 1.000" for m in ("R@5", "nDCG@10", "packed_recall")
    ]
    assert got.warnings[0].startswith("the baseline lies behind: R@5 rose from 0.950 to 1.000")
    assert combine([got]).annotations()[0].startswith("::warning title=Gate passed%3A notes::the baseline lies behind")
    assert "better: accept it" in combine([got]).text()


def test_a_closed_gate_names_every_collection_and_row_in_two_kilobytes(baseline):
    bad = decide(gate_run([LOST] * 30 + [FULL] * 70), baseline, True)
    first, line = combine([bad]).summary()
    assert first == "gate failed: 1 collection, 1 failed"
    assert line.startswith("notes: R@5 fell from 1.000 to 0.700 (-0.300, p 0.0001); nDCG@10 fell")
    assert line.endswith("; 30 questions got worse")
    leaky = decide(gate_run([FULL] * 100, leaks=[f"question {i}: " + "long " * 99 for i in range(50)]), baseline, True)
    many = [replace(leaky if i % 2 else bad, collection=f"collection-{i:02}") for i in range(30)]
    lines = combine(many).summary()
    assert len("\n".join(lines).encode()) < 2000
    assert [line.split(":")[0] for line in lines[1:]] == [v.collection for v in many]
    assert lines[1] == "collection-00: R@5, nDCG@10, packed_recall" and lines[2] == "collection-01: leak"
    names = combine([replace(v, collection=f"{v.collection}-{i}") for i in range(20) for v in many])
    assert len("\n".join(names.summary()).encode()) < 2000
    assert len(names.markdown().encode()) <= 8000


def test_a_verdict_is_junit_and_annotations_of_github(baseline):
    bad = decide(gate_run([LOST] * 30 + [FULL] * 70, leaks=["one, 100 %\nof \x07 <it>"]), baseline, True)
    verdict = combine([bad, decide(GoldenRun("bare"), None, False)])
    (bare, notes) = ElementTree.fromstring(verdict.junit())
    failed = {case.get("name") for case in notes if case.find("failure") is not None}
    assert failed == {"rules", "R@5", "nDCG@10", "packed_recall"} and notes.get("failures") == "4"
    assert (bare.get("failures"), notes.get("tests")) == ("1", str(1 + len(bad.metrics)))
    first, second = verdict.annotations()
    assert first.startswith("::error title=Gate unjudged%3A bare::no golden set")
    assert second.startswith("::error title=Gate failed%3A notes::leak: one, 100 %25 of <it>; R@5 fell")


@pytest.mark.parametrize("metric", ["R@5", "nDCG@10", "packed_recall"])
def test_each_gated_metric_closes_the_gate_alone(baseline, metric):
    got = decide(gate_run([FULL | {metric: 0.0}] * 10 + [FULL] * 90), baseline, True)
    assert [r.split(" ")[0] for r in got.reasons] == [metric]


def test_each_type_of_question_is_shown_before_and_now_with_who_accepted_the_baseline(baseline):
    types = {f"q{i:03}": "dates" if i < 10 else "names" for i in range(100)}
    got = decide(gate_run([LOST] * 6 + [FULL] * 94, types=types), baseline, True)
    by_type = got.to_json()["by_type"]
    assert by_type["dates"]["new"]["R@5"] == pytest.approx(0.4) and by_type["dates"]["old"]["R@5"] == 1.0
    assert by_type["names"]["new"] == {"queries": 90, "R@5": 1.0, "nDCG@10": 1.0, "packed_recall": 1.0, "stale@5": 0.0}
    markdown = got.markdown()
    assert "| dates | 10 | 1.000 → 0.400 | 1.000 → 0.400 | 1.000 → 0.400 | 0.000 → 0.000 |" in markdown
    assert "Baseline: build 000001 at commit c1, accepted by Ana on 2026-01-02T00:00:00+00:00: first" in markdown
    assert got.to_json()["baseline"]["why"] == "first"


def test_a_silent_part_of_the_ranking_fewer_results_and_a_retired_answer_fail_though_recall_holds(baseline, tmp_path):
    silent, heard = FULL | {"words_signal": 0.0}, FULL | {"words_signal": 1.0}
    scored = accept_baseline(gate_run([heard] * 100), tmp_path / "b.json", "with signals", who="test")
    assert decide(gate_run([heard] * 100), scored, True).status == "passed"
    got = decide(gate_run([silent] * 100), scored, True)
    (reason,) = got.reasons
    assert reason.startswith("words_signal fell from 1.000 to 0.000 ")
    assert reason.endswith(": a part of the ranking no longer scores")
    assert decide(gate_run([silent] * 100), baseline, True).status == "passed", "an older baseline does not know it"
    full, half = FULL | {"filled@10": 1.0}, FULL | {"filled@10": 0.5}
    known = accept_baseline(gate_run([full] * 100), tmp_path / "b.json", "all ten came", who="test")
    assert decide(gate_run([full] * 100), known, True).status == "passed"
    got = decide(gate_run([half] * 100), known, True)
    (reason,) = got.reasons
    assert reason.startswith("filled@10 fell from 1.000 to 0.500 ") and reason.endswith("fewer results come than did")
    latest, retired = FULL | {"retired": 0.0}, FULL | {"retired": 1.0}
    known = accept_baseline(gate_run([latest] * 99 + [retired]), tmp_path / "b.json", "one is known", who="test")
    assert decide(gate_run([latest] * 99 + [retired]), known, True).status == "passed"
    got = decide(gate_run([retired, *[latest] * 99]), known, True)
    assert got.reasons == ("1 answer still true and retired since the baseline: q000",)
    assert decide(gate_run([retired] * 100), baseline, True).status == "passed", "an older baseline does not know it"


def test_without_a_golden_set_only_the_invariants_are_judged_and_the_command_exits_1():
    got = decide(GoldenRun("notes"), None, False)
    assert (got.status, got.publishable) == ("unjudged", True)
    assert "data/golden/notes.jsonl" in got.warnings[0] and "palimpsest gate --init" in got.warnings[0]
    assert combine([got]).exit_code == 1
    broken = decide(GoldenRun("notes"), None, False, [Violation(3, "scopes", "2 ids", 2, ("m1",))])
    assert (broken.status, broken.publishable) == ("failed", False)
    assert broken.reasons == ("invariant 3 (scopes): 2 ids: m1",)


def test_a_golden_set_without_a_baseline_is_not_published_and_names_the_command():
    got = decide(gate_run([FULL] * 3), None, True)
    assert (got.status, got.publishable) == ("failed", False)
    assert "palimpsest baseline accept" in got.reasons[0]
    assert got.means["R@5"] == 1.0, "the figures are there to look at"
    assert combine([got]).exit_code == 1


def test_latency_is_judged_by_the_absolute_budget_only(baseline):
    assert decide(gate_run([FULL] * 100, p95=399.0), baseline, True).status == "passed"
    slow = decide(gate_run([FULL] * 100, p95=401.0), baseline, True)
    assert slow.status == "failed"
    assert slow.reasons == (
        "latency: p95 401 ms is over the budget of 400 ms; without waiting for a processor 100 of 100 questions"
        " are over it (p 0.0000); retrieval itself did not get worse, run it again when the machine is idle",
    )
    chance = replace(gate_run([FULL] * 100, p95=401.0), unhindered_ms=[5.0] * 94 + [401.0] * 6)
    got = decide(chance, baseline, True)
    assert got.status == "passed" and "6 of 100 questions are over it" in got.warnings[0]
    both = decide(gate_run([LOST] * 100, p95=401.0), baseline, True)
    assert len(both.reasons) > 1 and "p95 401 ms" in both.reasons[-1] and "get worse" not in both.reasons[-1]
    warned = decide(gate_run([FULL] * 100, p95=41.0), baseline, True)
    assert warned.status == "passed"
    assert "41 ms" in warned.warnings[0]


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (gate_run([]), "no judged query"),
        (gate_run([LOST] * 100, answered=0), "no judged query was answered"),
        (gate_run([FULL] * 99 + [FULL | {"R@5": math.nan}]), "not a number"),
        (gate_run([{k: v for k, v in FULL.items() if k != "packed_recall"}] * 100), "the run has no packed_recall"),
        (gate_run([FULL] * 100, p95=math.nan), "p95 was not measured"),
        (gate_run([FULL] * 100, latency_ms={}), "p95 was not measured"),
        (gate_run([FULL] * 100, leaks=("question 'q1': memory m6 belongs to notes/ben",)), "belongs to notes/ben"),
        (gate_run([], errors=("golden set of notes: question 'q9': gone",)), "question 'q9'"),
    ],
)
def test_a_gate_cannot_pass_by_accident(baseline, run, reason):
    got = decide(run, baseline, True)
    assert got.status == "failed"
    assert reason in "; ".join(got.reasons)


def test_a_home_fails_with_any_collection_or_violated_invariant_and_is_unjudged_with_any(baseline):
    got = decide(gate_run([FULL] * 100), baseline, True, [Violation(8, "spans", "1 span", 1, ("m1",))])
    assert got.status == "failed"
    good, bare = decide(gate_run([FULL] * 100), baseline, True), decide(GoldenRun("bare"), None, False)
    bad = decide(gate_run([FULL]), None, True)
    assert (combine([good, bare]).status, combine([good, bare]).exit_code) == ("unjudged", 1)
    assert combine([good, bare, bad]).status == "failed"
    assert combine([]).status == "failed"


def test_the_decision_is_json_and_markdown_for_a_pull_request(baseline):
    run = gate_run([LOST] * 30 + [FULL] * 70)
    run = gate_run([LOST] * 30 + [FULL] * 70, questions=run.questions | {"q000": "what | of <b>\n# it?"})
    got = decide(run, baseline, True)
    report = json.loads(json.dumps(combine([got]).to_json(), allow_nan=False))
    assert report["status"] == "failed"
    assert report["collections"][0]["metrics"]["R@5"]["difference"] == pytest.approx(-0.3)
    assert report["collections"][0]["broken"][0]["old_results"][0]["source"] == "a.md:3-7"
    text = got.markdown()
    assert text.startswith("## ❌ Gate failed: notes")
    assert "| R@5 | 1.000 | 0.700 | -0.300 |" in text
    assert "what \\| of \\<b\\> \\# it?" in text
    assert "before: `a.md:3-7` ✓" in text
    assert "and 25 more" in text and len(text.encode()) <= 8000
    assert text.count("<details") == text.count("</details>") > 1


def test_results_that_are_the_same_before_and_now_are_listed_once(baseline):
    run = gate_run([FULL | {"packed_recall": 0.0}] * 30 + [FULL] * 70)
    text = decide(replace(run, results=baseline.results), baseline, True).markdown()
    assert "the first results are the same: `a.md:3-7` ✓" in text and "before" not in text


def test_a_rise_of_irrelevant_tokens_fails_and_is_a_row_of_the_page_but_not_over_a_few_questions(baseline, tmp_path):
    got = decide(gate_run([FULL | {"irrelevant_tokens": 0.5}] * 20 + [FULL] * 80), baseline, True)
    (reason,) = got.reasons
    assert reason.startswith("irrelevant_tokens rose from 0.000 to 0.100 (+0.100, p ")
    assert "| irrelevant_tokens | 0.000 | 0.100 | +0.100 |" in got.markdown()
    assert got.to_json()["metrics"]["irrelevant_tokens"]["lost"]
    fewer = decide(gate_run([FULL] * 100), with_irrelevant(baseline, 0.5), True)
    assert fewer.status == "passed" and fewer.metrics["irrelevant_tokens"].difference == -0.5
    before = accept_baseline(gate_run([FULL] * 4), tmp_path / "b.json", "four", who="test")
    got = decide(gate_run([FULL | {"irrelevant_tokens": 0.5}, *[FULL] * 3]), before, True)
    assert got.status == "passed" and got.metrics["irrelevant_tokens"].difference == 0.125


def test_precision_is_judged_over_the_questions_with_five_pieces_of_evidence(baseline, tmp_path):
    broad = {f"q{i:03}": 0.8 for i in range(10)}
    judged = accept_baseline(gate_run([FULL] * 100, precision=broad), tmp_path / "b.json", "broad", who="test")
    assert load_baseline(tmp_path / "b.json").precision == broad
    same = decide(gate_run([FULL] * 100, precision=broad), judged, True)
    assert same.status == "passed" and "| broad_P@5 | 0.800 | 0.800 |" in same.markdown()
    assert same.quality["broad_P@5"] == pytest.approx(0.8)
    got = decide(gate_run([FULL] * 100, precision=dict.fromkeys(broad, 0.2)), judged, True)
    assert [r.split(" (")[0] for r in got.reasons] == ["broad_P@5 fell from 0.800 to 0.200"]
    without = decide(gate_run([FULL] * 100, precision=broad), baseline, True)
    assert without.reasons == (
        "the baseline has no P@5 of 10 questions with 5 or more pieces of evidence;"
        " `palimpsest baseline accept --why TEXT`",
    )
    new = broad | {"q100": 1.0}
    assert decide(gate_run([FULL] * 101, precision=new), judged, True).status == "passed", "a new question is no loss"


def with_irrelevant(baseline, irrelevant):
    """The baseline with another share of irrelevant tokens."""
    values = {q: {**v, "irrelevant_tokens": irrelevant} for q, v in baseline.per_query.items()}
    return replace(baseline, per_query=values)
