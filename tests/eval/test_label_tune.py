"""`palimpsest label tune` over real HTTP: figures worked out by hand, a budget, a saved program, bad input."""

import json
import re
from contextlib import closing

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.lm.client import Ledger
from palimpsest.lm.settings import LmSettings
from palimpsest.relations.labelers.label_types import UNPAID, LabelResult
from palimpsest.relations.labelers.lm_labeler import load_program
from palimpsest.store.home import Home
from palimpsest_eval.labels.program_trial import AnswerTotals, ProgramTrial, sample_rows
from palimpsest_eval.labels.tune import (
    LabelerComparison,
    agreement,
    compile_program,
    labelled_rows,
)
from palimpsest_eval.testing.fake_lm_server import FakeLMServer, label_answer, prompt_field
from tests.command import last_json, run

LABELS = ("UPDATE", "DERIVE", "EXTEND", "NONE")


def pair_row(i: int, label: str, **more: str) -> dict[str, str]:
    older, newer = f"The Falcon {i} deadline is 3 May.", f"The Falcon {i} deadline is 9 May."
    return {"id": f"p{i:02}", "older": older, "newer": newer, "label": label, "group": f"g{i:02}"} | more


ROWS = [pair_row(i, LABELS[i % 4]) for i in range(24)]


def write_rows(path, rows=ROWS):
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def test_kappa_is_agreement_beyond_chance():
    # Both say yes to 20, no to 15; only the first to 5, only the second to 10: share .7, by chance .5, kappa .4.
    first = ["yes"] * 25 + ["no"] * 25
    second = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert (agreement(first, second).share, agreement(first, second).kappa) == (0.7, 0.4)
    assert agreement(["a", "b"], ["b", "a"]).kappa == -1.0
    assert agreement(["a", "a"], ["a", "a"]).kappa is None and agreement([], []).kappa is None


def test_a_comparison_counts_what_the_model_answered_and_lists_where_the_two_differ():
    lm = [LabelResult("UPDATE", 0.9), LabelResult("NONE", 0.8), LabelResult("EXTEND", 0.7)]
    lm.append(LabelResult("NONE", 0.0, {"rule": UNPAID}))
    offline = [LabelResult(x, 0.6) for x in ("UPDATE", "UPDATE", "NONE", "NONE")]
    rows = [pair_row(i, x) for i, x in enumerate(("UPDATE", "NONE", "NONE", "NONE"))]
    trial = ProgramTrial("p", rows, lm, None, "m", AnswerTotals(3, 300, 30, 0.006), 1.0)
    comparison = LabelerComparison(trial, offline, trained_on=1)
    assert (comparison.agreement.pairs, comparison.agreement.share) == (3, 0.3333)
    assert comparison.table().rows()[0] == ("UPDATE", 1, 0, 0, 0)
    assert comparison.differences()["id"].to_list() == ["p01", "p02"], "the one that would retire first"
    figures = comparison.figures().to_dicts()
    assert [(f["labeler"], f["falsely_retired"], f["of"]) for f in figures] == [("model", 0, 2), ("offline", 1, 2)]
    cost = comparison.cost().to_dicts()[0]
    assert (cost["answered"], cost["tokens_in_per_pair"], cost["cost_of_1000_pairs"]) == (3, 100.0, 2.0)
    assert "agreement with the offline labeler: 0.333 of 3 pairs" in comparison.text()
    assert "trained on 1 of these pairs" in comparison.text()


def test_a_sample_does_not_depend_on_the_order_and_a_folder_leaves_its_test_pairs_out(tmp_path):
    drawn = {r["id"] for r in sample_rows(ROWS, 7)}
    assert len(drawn) == 7 and drawn == {r["id"] for r in sample_rows(ROWS[::-1], 7)}
    write_rows(tmp_path / "a.jsonl", [pair_row(1, "NONE", split="train"), pair_row(2, "NONE", split="test")])
    assert [r["id"] for r in labelled_rows(Home(tmp_path / "h"), str(tmp_path))] == ["p01"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(PalimpsestError, match="no labelled pairs to tune on"):
        labelled_rows(Home(tmp_path / "h"), str(tmp_path / "empty"))


@pytest.mark.lm
def test_tune_compares_and_stays_in_its_budget_and_a_second_look_is_free(tmp_path):
    pairs, both, home = write_rows(tmp_path / "p.jsonl"), tmp_path / "both.jsonl", tmp_path / "h"
    with FakeLMServer({(r["older"], r["newer"]): r["label"] for r in ROWS}) as server:
        env = {"PALIMPSEST_LM": f"stand-in@{server.url}", "PALIMPSEST_LM_PRICE": "1,1"}
        args = ("label", "tune", "--home", home, "--pairs", pairs, "--sample", 12, "--json")
        poor = last_json(run(*args, "--max-cost", 0.004, **env))
        assert 0 < poor["cost"]["answered"] < 12 and 0 < poor["cost"]["cost_now"] <= 0.004
        done = run(*args, "--out", both, **env)
        report = last_json(done)
        assert report["cost"]["answered"] == 12 and report["figures"]["model"]["macro_f1"] == 1.0
        assert report["agreement"]["pairs"] == 12 and report["differ"] == len(report["examples"]) > 0
        assert "Cohen's kappa" in done.stderr
        rows = [json.loads(line) for line in both.read_text().splitlines()]
        assert all(r["predicted"] == r["label"] and r["offline"] in LABELS for r in rows) and len(rows) == 12
        calls = server.counts.answered
        again = last_json(run(*args, **env))
        assert again["cost"]["calls_now"] == 0 and again["agreement"] == report["agreement"]
        assert again["cost"]["tokens_in_per_pair"] > 0 and server.counts.answered == calls


@pytest.mark.lm
@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["BootstrapFewShot", "MIPROv2", "GEPA"])
def test_an_optimizer_makes_a_program_in_its_budget_and_no_call_is_paid_twice(tmp_path, optimizer):
    right = {(r["older"], r["newer"]): r["label"] for r in ROWS}

    def reply(prompt):
        if not (fields := re.findall(r"starting with the field `\[\[ ## (\w+) ## \]\]`", prompt)):
            return "```\nSay what the newer one does to the older one.\n```"  # GEPA asks in its own words
        if fields[0] != "older_quote":
            return f"[[ ## {fields[0]} ## ]]\nSay what the newer one does.\n\n[[ ## completed ## ]]"
        older, newer = (prompt_field(prompt, name) for name in ("older", "newer"))
        return label_answer(right[older, newer], older, newer, as_json=False)

    with FakeLMServer({}, reply=reply) as server:
        settings = LmSettings("m", server.url, price_in=1, price_out=1, longest_wait_s=0.05)
        options = {"optimizer": optimizer, "demonstrations": 2, "rounds": 1}
        with closing(Ledger(tmp_path / "l.sqlite")) as ledger:
            with pytest.raises(PalimpsestError, match=f"spent before {optimizer} was done"):
                compile_program(ROWS[:8], settings, ledger, max_cost=0.002, **options)
            poor = server.counts.answered
            assert ledger.totals().cost <= 0.002
            made = compile_program(ROWS[:8], settings, ledger, **options)
            assert made.calls == server.counts.answered - poor and made.cost > 0
            assert server.counts.answered == ledger.totals().calls, "no call is paid twice"
            again = compile_program(ROWS[:8], settings, ledger, **options)
            assert (again.calls, again.cost) == (0, 0.0) and again.state == made.state
    assert load_program(made.state).demos or optimizer != "BootstrapFewShot"


@pytest.mark.parametrize(
    "args, message",
    [
        (["--program", "nonesuch"], "no such file"), (["--pairs", "nonesuch.jsonl"], "cannot read"),
        (["--max-cost", "1"], "PALIMPSEST_LM_PRICE"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(tmp_path, args, message):
    env = {"PALIMPSEST_LM": "m@http://127.0.0.1:9/v1", "PALIMPSEST_LM_ATTEMPTS": "1"}
    done = run("label", "tune", "--home", tmp_path / "h", *args, **env)
    assert done.returncode == 2 and message in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_label_needs_its_files_and_options_of_tune_come_after_it(tmp_path):
    for args, message in [
        (["label"], "--pairs is required"),
        (["label", "--pairs", tmp_path / "p.jsonl"], "--out is required"),
        (["label", "--home", tmp_path, "tune"], "must come after tune"),
    ]:
        done = run(*args)
        assert done.returncode == 2 and message in done.stderr and len(done.stderr.strip().splitlines()) == 1
