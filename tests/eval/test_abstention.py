"""How many unanswerable golden questions are caught, the gate over that, and the halves to train and judge on."""

from dataclasses import replace

import numpy as np

from palimpsest.eval.abstention.halves import tuning_half
from palimpsest.eval.abstention.train import JudgedEvidence, recall_at, train
from palimpsest.eval.gate.baseline import accept_baseline, load_baseline
from palimpsest.eval.gate.decide import decide
from palimpsest.eval.golden.abstention import ABSTENTION, caught_questions
from palimpsest.eval.golden.golden_run import GoldenRun
from palimpsest.eval.golden.questions import GoldenSet, Question
from palimpsest.query.answerability.evidence import Evidence
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
    assert recall_at(np.array([*p.values()]), np.array([q[0] == "a" for q in p]))[0] == np.float64(2 / 3)


def test_the_gate_closes_when_fewer_unanswerable_questions_are_caught(tmp_path):
    accept_baseline(judged(30, 10), tmp_path / "b.json", "as it is", who="t")
    baseline = load_baseline(tmp_path / "b.json")
    same = decide(judged(30, 10), baseline, True)
    assert same.status == "passed" and same.metrics[ABSTENTION].old == same.metrics[ABSTENTION].new == 0.75
    assert f"| {ABSTENTION} | 0.750 | 0.750 |" in same.markdown()
    worse = decide(judged(10, 30), baseline, True)
    assert worse.status == "failed" and worse.reasons[0].startswith(f"{ABSTENTION} fell from 0.750 to 0.250")


def test_a_baseline_from_before_abstention_was_judged_still_passes():
    older = accept_and_forget()
    got = decide(judged(10, 30), older, True)
    assert got.status == "passed" and ABSTENTION not in got.metrics and got.quality["abstention_recall"] == 0.25


def accept_and_forget():
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        return replace(accept_baseline(judged(30, 10), Path(folder) / "b.json", "as it is", who="t"), caught={})


def test_each_kind_of_question_is_in_both_halves_and_the_draw_is_the_same_again():
    def ask(i: int, kind: str | None) -> Question:
        return Question(id=f"{kind}{i}", question="?", type="unanswerable", kind=kind, evidence=())

    golden = GoldenSet(
        "notes", tuple(ask(i, kind) for i in range(10) for kind in ("near_miss", "outdated", None)), "ana"
    )
    half = tuning_half([golden])
    assert half == tuning_half([replace(golden, questions=golden.questions[::-1])])
    assert all(sum(q.startswith(kind) for q in half) == 5 for kind in ("near_miss", "outdated", "None"))


def test_training_learns_what_separates_and_reports_both_halves():
    rng = np.random.default_rng(0)
    rows = [
        JudgedEvidence(str(i), "ab"[i % 2], "single" if i % 3 else "outdated", bool(i % 3), Evidence(words_best=v))
        for i, v in enumerate(np.where(np.arange(240) % 3 == 0, 0.2, 0.8) + rng.normal(0, 0.05, 240))
    ]
    model = train(rows, frozenset(r.question_id for r in rows[:120]))
    assert model["coefficients"]["words_best"] > 0 and model == train(rows, frozenset(str(i) for i in range(120)))
    assert model["figures"]["half held out"]["recall at 2 % lost"] > 0.95
    assert model["figures"]["half held out"]["caught by kind"]["outdated"][1] == 40
