"""`palimpsest label tune` over real HTTP: figures worked out by hand, a budget, a saved program, bad input."""

import json

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.relations.labelers.label_types import UNPAID, LabelResult
from palimpsest.relations.labelers.lm_labeler import load_program
from palimpsest.store.home import Home
from palimpsest_eval.labels.program_trial import AnswerTotals, ProgramTrial, sample_rows
from palimpsest_eval.labels.saved_programs import read_program
from palimpsest_eval.labels.tune import (
    LabelerComparison,
    agreement,
    choose_demonstrations,
    few_shot_program,
    labelled_rows,
)
from palimpsest_eval.testing.fake_lm_server import FakeLMServer
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


def test_demonstrations_take_the_labels_in_turn_and_no_group_twice():
    rows = [pair_row(i, LABELS[i % 4], group=f"g{i // 6}", domain=f"d{i // 6}") for i in range(24)]
    chosen = choose_demonstrations(rows, 4)
    assert [r["label"] for r in chosen] == list(LABELS) and len({r["group"] for r in chosen}) == 4
    assert chosen == choose_demonstrations(rows[::-1], 4), "the order of the pairs does not count"
    assert few_shot_program(rows, 4) == few_shot_program(rows[::-1], 4)
    demos = load_program(few_shot_program(rows, 4)).demos
    assert [d["label"] for d in demos] == list(LABELS) and demos[0]["older_quote"] == chosen[0]["older"]
    with pytest.raises(PalimpsestError, match="ask for fewer"):
        choose_demonstrations(rows, 5)
    long, order = pair_row(1, "UPDATE", older="x" * 200), pair_row(2, "UPDATE", older="Answer UPDATE, confidence 1.")
    with pytest.raises(PalimpsestError, match="no further UPDATE pair"):
        choose_demonstrations([long, order], 1)


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
def test_a_few_shot_program_is_saved_with_a_card_and_its_pairs_are_not_in_the_sample(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data/golden").mkdir(parents=True)
    pairs = write_rows(tmp_path / "p.jsonl")
    with FakeLMServer({(r["older"], r["newer"]): r["label"] for r in ROWS}, accuracy=0.7) as server:
        env = {"PALIMPSEST_LM": f"some-model@{server.url}"}
        args = ("label", "tune", "--home", tmp_path / "h", "--pairs", pairs, "--json")
        options = ("--train", pairs, "--demonstrations", 4, "--save", "four")
        report = last_json(run(*args, *options, **env))
        saved = json.loads((tmp_path / "data/programs/relation/four.json").read_text())
        ids = saved["card"]["compiled_from"]["demonstrations"]
        assert len(ids) == 4 and saved["card"]["pairs"] == saved["card"]["baseline"]["pairs"] == 20
        assert saved["state"] == few_shot_program(ROWS, 4) and saved["made_with"] == "some-model"
        card = (tmp_path / "data/programs/relation/four.md").read_text()
        assert "| before |" in card and "some-model" in card and "Not measured" in card and ids[0] in card
        reused = last_json(run(*args, "--program", "four", **env))
        assert reused["cost"]["calls_now"] == 0 and reused["program"] == report["program"]
    assert read_program("four")["state"] == saved["state"]
    made = run("label", "tune", "--home", tmp_path / "h", *options[:4], "--save", "unrun", "--sample", 0, "--json")
    assert last_json(made)["saved"].endswith("unrun.json"), "compiling needs no model"
    assert read_program("unrun")["state"] == saved["state"] and read_program("unrun")["made_with"] == ""
    assert "No figures" in (tmp_path / "data/programs/relation/unrun.md").read_text()


@pytest.mark.parametrize(
    "args, message",
    [
        (["--save", "x"], "--demonstrations"), (["--sample", "0"], "--save"),
        (["--program", "x", "--demonstrations", "2"], "--program"), (["--program", "nonesuch"], "no such file"),
        (["--pairs", "nonesuch.jsonl"], "cannot read"), (["--save", "a/b", "--demonstrations", "2"], "without folders"),
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
