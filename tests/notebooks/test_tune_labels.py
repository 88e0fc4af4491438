"""Notebook 2 over real HTTP, with a scripted server in the model's place."""

import json

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.lm.client import Ledger
from palimpsest.relations.labelers.label_types import LabelResult
from palimpsest.relations.labelers.lm_labeler import program_folder, saved_program
from palimpsest.store.home import Home
from palimpsest_eval.labels import tune
from palimpsest_eval.labels.label_gate import judge_home_labels
from palimpsest_eval.labels.program_trial import AnswerTotals, ProgramTrial
from palimpsest_eval.labels.saved_programs import (
    find_program,
    home_programs,
    learned_groups,
    read_program,
    refuse_unproven,
    save_program,
    use_program,
)
from palimpsest_eval.labels.tune import labelled_rows
from palimpsest_eval.report.page import read_notes


@pytest.mark.lm
@pytest.mark.slow
def test_the_notebook_tries_edits_compiles_and_saves_a_program_with_its_score_card_in_the_home(home, ran):
    before = sorted(program_folder().iterdir())
    done = ran("2_tune_relation_labels")
    (path,) = home_programs(home).glob("*.json")
    saved = json.loads(path.read_text())
    assert saved["card"]["pairs"] == 16 and 0 < saved["card"]["macro_f1"] <= 1
    assert saved["card"]["interval"][0] <= saved["card"]["macro_f1"] <= saved["card"]["interval"][1] + 1e-9
    assert saved["state"]["demos"], "demonstrations were compiled in"
    assert Ledger(home.lm_ledger).totals().calls >= 48 * 2
    assert "Relations that wait for a person" in {n.title for n in read_notes(home)}
    outputs = str([c.get("outputs") for c in done.cells])
    assert "Traceback" not in outputs and f"palimpsest gate --labels --program {path.stem}" in outputs
    assert saved["made_with"] == "stand-in" and sorted(program_folder().iterdir()) == before


def trial(right: int, of: int = 12) -> ProgramTrial:
    rows = [{"id": f"p{i}", "older": "a", "newer": "b", "label": "NONE"} for i in range(of)]
    results = [LabelResult("NONE" if i < right else "UPDATE", 0.9) for i in range(of)]
    return ProgramTrial("p", rows, results, None, "m", AnswerTotals(of, 1, 1, 0.0), 1.0)


def test_a_program_of_the_home_reaches_the_repository_only_when_it_is_used_and_is_proven(tmp_path, monkeypatch):
    (tmp_path / "data/golden").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    home = Home(tmp_path / "home")
    state = {"signature": {"instructions": "x"}, "demos": []}
    path = save_program(state, trial(9), trial(4), "why", home_programs(home), ["g1"])
    assert read_program(path.stem, home)["state"] == state and saved_program() is None
    with pytest.raises(PalimpsestError, match="no such file"):
        read_program(path.stem)
    assert not program_folder().exists() and learned_groups(read_program(path.stem, home)) == {"g1"}
    refuse_unproven(read_program(path.stem, home), "x")  # five better, none worse: p is 1 in 32
    assert "Right where the other is wrong: 5" in path.with_suffix(".md").read_text()
    use_program(find_program(path.stem, home))
    assert saved_program()["state"] == state and {p.name for p in program_folder().iterdir()} == {
        "default.json", path.name, f"{path.stem}.md",
    }  # fmt: skip
    assert path.is_file() and read_program(path.stem)["state"] == state
    for now, before in ((8, 4), (4, 9), (4, 4)):  # four better are 1 in 16
        unproven = save_program(state, trial(now), trial(before), "why", home_programs(home))
        (program_folder() / path.name).unlink(missing_ok=True)
        with pytest.raises(PalimpsestError, match="no better than the plain program on 12 unseen pairs"):
            judge_home_labels(home, unproven.stem)
    with pytest.raises(PalimpsestError, match="no paired test"):
        refuse_unproven({"state": state}, "--program x")


def test_a_program_made_with_the_stand_in_is_refused_by_builds_and_by_the_gate(tmp_path, monkeypatch):
    folder = tmp_path / "data/programs/relation"
    (tmp_path / "data/golden").mkdir(parents=True)
    folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    (folder / "abc.json").write_text(json.dumps({"state": {"signature": {}}, "made_with": "stand-in"}))
    (folder / "default.json").write_text(json.dumps({"program": "abc"}))
    for refuses in (saved_program, lambda: judge_home_labels(Home(tmp_path / "home"), "abc")):
        with pytest.raises(PalimpsestError, match="optimized without a language model"):
            refuses()
    (folder / "abc.json").write_text(json.dumps({"state": {"signature": {}}, "made_with": "some-model"}))
    assert saved_program()["made_with"] == "some-model"


def test_pairs_come_from_a_file_of_ones_own_or_from_what_people_decided(tmp_path, monkeypatch):
    rows = [{"id": f"p{i}", "older": "a", "newer": "b", "label": "NONE", "group": g} for i, g in enumerate("bab")]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    home = Home(tmp_path / "home")
    assert [r["id"] for r in labelled_rows(home, str(path))] == ["p1", "p0", "p2"]
    assert len(labelled_rows(home, "golden")) > 100
    monkeypatch.setattr(tune, "decided_pairs", lambda home: rows[:1])
    assert labelled_rows(home, "home") == rows[:1]
    monkeypatch.setattr(tune, "decided_pairs", lambda home: [])
    with pytest.raises(PalimpsestError, match="no relation was decided by a person"):
        labelled_rows(home, "home")
