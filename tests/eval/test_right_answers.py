"""The right answers of a model reach every view: turns of one user that nothing was tuned on, and their truth."""

import re
from pathlib import Path

import pytest

from palimpsest.store.home import Home
from palimpsest_eval.testing.right_lm import RightLm
from tests.eval.measure_right_answers import build_home, language_model, run_checks

FOLDER = Path(__file__).parent / "right_answers"


@pytest.mark.lm
@pytest.mark.parametrize(("lm", "least"), [("right", 1.0), ("none", 0.6)])
def test_right_answers_reach_every_view(lm, least, tmp_path, shared_vectors):
    home = Home(tmp_path / "home", shared_vectors)
    with language_model(lm, "dspy", FOLDER):
        checks = run_checks(FOLDER, home, build_home(FOLDER, home, lm == "right"))
    assert checks.right.total() >= least * checks.total.total() > 90 * least, "\n".join(checks.misses)


def test_a_right_answer_has_no_name_and_no_number_that_the_request_does_not_show():
    lm, known = RightLm.of_folder(FOLDER), {"I", "Noor"}
    for turn in lm.turns.values():
        shown = turn["text"]
        for field in (f"conversation ## ]]\n[1] {turn['speaker']}: {shown}\n\n[[ ## ", f"text ## ]]\n{shown}"):
            answer = lm.chat(["", f"[[ ## {field}"])
            said = " ".join(re.findall(r'"(?:statement|description|name|source|target|quote|fact)": "(.*?)"', answer))
            names = set(re.findall(r"\b(?:[A-Z]\w+|\d+)\b", said)) - known
            assert {n for n in names if n.lower() not in shown.lower()} == set(), (shown, answer)
    assert '"relations"' not in lm.chat(["", "[[ ## older ## ]]\nThe sky is blue.\n\n[[ ## newer ## ]]\nIt is grey."])
