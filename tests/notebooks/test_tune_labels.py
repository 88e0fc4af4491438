"""Notebook 2 over real HTTP, with a scripted server in the model's place."""

import json

import pytest

from palimpsest.eval.notes import read_notes
from palimpsest.labels.lm.ledger import Ledger


@pytest.mark.lm
def test_the_notebook_tries_edits_compiles_and_saves_a_program_with_its_score_card(home, ran, tmp_path):
    done = ran("2_tune_relation_labels", SAVE_TO=str(tmp_path))
    (path,) = tmp_path.glob("*.json")
    saved = json.loads(path.read_text())
    assert saved["card"]["pairs"] == 16 and 0 < saved["card"]["macro_f1"] <= 1
    assert saved["card"]["interval"][0] <= saved["card"]["macro_f1"] <= saved["card"]["interval"][1] + 1e-9
    assert saved["state"]["demos"], "demonstrations were compiled in"
    assert Ledger(home.lm_ledger).totals()["calls"] >= 48 * 2
    assert "Relations that wait for a person" in {n.title for n in read_notes(home)}
    assert not any("Traceback" in str(c.get("outputs")) for c in done.cells)
