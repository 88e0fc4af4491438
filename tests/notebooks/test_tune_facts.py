"""Notebook 7 over real HTTP, with a scripted server in the model's place."""

import pytest

from palimpsest_eval.report.page import read_notes


@pytest.mark.lm
@pytest.mark.slow
def test_the_notebook_shows_facts_and_what_was_dropped_by_the_named_model(home, ran):
    done = ran("7_tune_facts")
    outputs = str([c.get("outputs") for c in done.cells])
    assert "stand-in at http" in outputs and "talks_about" in outputs and "Traceback" not in outputs
    assert "its words are not in the text" in outputs and "owns | the moon" not in outputs
    note = next(n for n in read_notes(home) if n.title == "Facts by stand-in")
    assert {"memories", "facts", "facts by rules"} <= {row[0] for row in note.rows}
