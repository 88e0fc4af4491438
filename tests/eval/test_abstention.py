"""How many unanswerable golden questions are caught, the gate over that, and the halves to train and judge on."""

from dataclasses import replace

from palimpsest_eval.gate.baseline import accept_baseline, load_baseline
from palimpsest_eval.gate.decide import decide
from palimpsest_eval.golden.golden_run import ABSTENTION, GoldenRun, caught_questions
from tests.eval.gate_runs import FULL, gate_run


def judged(low: int, high: int) -> GoldenRun:
    """A run of 100 answerable questions and of unanswerable ones below and above them."""
    run = gate_run([FULL] * 100)
    none = {f"u{i:03}": 1.0 for i in range(low + high)}
    p = dict.fromkeys(run.per_query, 0.9) | {q: 0.1 if i < low else 0.95 for i, q in enumerate(none)}
    return replace(run, unanswerable=none, answer_probability=p)


def test_a_question_is_caught_below_what_all_but_two_percent_of_the_answerable_reach():
    p = {f"a{i}": 0.5 + i / 1000 for i in range(100)} | {"u1": 0.5015, "u2": 0.503, "u3": 0.1}
    assert caught_questions(p, frozenset({"u1", "u2", "u3", "unjudged"})) == {"u1": 1.0, "u2": 0.0, "u3": 1.0}
    assert caught_questions(p, frozenset()) == {} and caught_questions({"u1": 0.1}, frozenset({"u1"})) == {}


def test_the_gate_closes_when_fewer_unanswerable_questions_are_caught_than_a_baseline_has(tmp_path):
    accept_baseline(judged(30, 10), tmp_path / "b.json", "as it is", who="t")
    baseline = load_baseline(tmp_path / "b.json")
    same = decide(judged(30, 10), baseline, True)
    assert same.status == "passed" and same.metrics[ABSTENTION].old == same.metrics[ABSTENTION].new == 0.75
    assert f"| {ABSTENTION} | 0.750 | 0.750 |" in same.markdown()
    worse = decide(judged(10, 30), baseline, True)
    assert worse.status == "failed" and worse.reasons[0].startswith(f"{ABSTENTION} fell from 0.750 to 0.250")
    older = accept_and_forget()
    got = decide(judged(10, 30), older, True)
    assert got.status == "passed" and ABSTENTION not in got.metrics and got.quality["abstention_recall"] == 0.25


def accept_and_forget():
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        return replace(accept_baseline(judged(30, 10), Path(folder) / "b.json", "as it is", who="t"), caught={})
