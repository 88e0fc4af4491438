"""Notebook 6 over real HTTP, with a scripted server in the model's place."""

import pytest

from palimpsest_eval.report.page import read_notes


@pytest.mark.lm
@pytest.mark.slow
def test_the_notebook_judges_questions_shows_the_prompts_by_the_named_model(home, ran):
    done = ran("6_try_ragas_prompts")
    outputs = str([c.get("outputs") for c in done.cells])
    assert "stand-in at http" in outputs and "context_recall" in outputs and "Answer the question" in outputs
    assert "Traceback" not in outputs
    note = next(n for n in read_notes(home) if n.title == "RAGAS by stand-in")
    assert {row[0] for row in note.rows} == {"context_precision", "context_recall", "faithfulness"}
