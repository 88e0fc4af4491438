"""Notebook 9 over real HTTP, with a scripted server in the model's place."""

import pytest

from palimpsest_eval.report.page import read_notes


@pytest.mark.lm
@pytest.mark.slow
def test_the_notebook_compares_a_model_with_the_rules_by_the_named_model(home, ran):
    done = ran("9_tune_reflection")
    outputs = str([c.get("outputs") for c in done.cells])
    assert "stand-in at http" in outputs and "Traceback" not in outputs
    assert "its quote is not in the turn" in outputs and "owns the moon" not in outputs
    note = next(n for n in read_notes(home) if n.title == "Notes by stand-in")
    assert {"lm", "rules"} <= {row[1] for row in note.rows}
