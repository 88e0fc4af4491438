"""Notebook 2 over real HTTP, with a scripted server in the model's place."""

import json

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.relations.labelers.lm_client import Ledger
from palimpsest.relations.labelers.lm_labeler import saved_program
from palimpsest.store.home import Home
from palimpsest_eval.labels import tune
from palimpsest_eval.labels.label_gate import judge_home_labels
from palimpsest_eval.labels.tune import labelled_rows
from palimpsest_eval.report.page import read_notes


@pytest.mark.lm
@pytest.mark.slow
def test_the_notebook_tries_edits_compiles_and_saves_a_program_with_its_score_card(home, ran, tmp_path):
    done = ran("2_tune_relation_labels", SAVE_TO=str(tmp_path))
    (path,) = tmp_path.glob("*.json")
    saved = json.loads(path.read_text())
    assert saved["card"]["pairs"] == 16 and 0 < saved["card"]["macro_f1"] <= 1
    assert saved["card"]["interval"][0] <= saved["card"]["macro_f1"] <= saved["card"]["interval"][1] + 1e-9
    assert saved["state"]["demos"], "demonstrations were compiled in"
    assert Ledger(home.lm_ledger).totals().calls >= 48 * 2
    assert "Relations that wait for a person" in {n.title for n in read_notes(home)}
    assert not any("Traceback" in str(c.get("outputs")) for c in done.cells)
    assert saved["made_with"] == "stand-in"
    assert "mean nothing" in str([c.get("outputs") for c in done.cells])


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
