import json

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest_eval.labels.saved_programs import RegisterPrediction, calibration, compare_register, confusion
from tests.eval.home import tables

FRIDAY = {"uri": "news.md", "quote": "The launch moved to Friday"}
MONDAY = {"uri": "plan.md", "quote": "The launch is on Monday"}
BUDGET = {"uri": "plan.md", "quote": "The budget is"}
CAKE = {"uri": "news.md", "quote": "Bring cake"}


def register(tmp_path, *rows):
    lines = [{"id": f"r{i}", "collection": "notes", "user": "ana"} | row for i, row in enumerate(rows)]
    path = tmp_path / "relations.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in lines))
    return path


def test_a_build_is_compared_with_the_relations_of_people_and_confidence_with_the_share_that_is_right(tmp_path):
    path = register(
        tmp_path,
        {"label": "UPDATE", "newer": FRIDAY, "older": [MONDAY]},
        {"label": "UPDATE", "newer": CAKE, "older": [BUDGET]},
        {"label": "NONE", "newer": CAKE, "older": [MONDAY]},
        {"label": "DERIVE", "newer": {"uri": "gone.md", "quote": "x"}, "older": [MONDAY]},
        {"label": "UPDATE", "newer": FRIDAY, "older": [MONDAY], "collection": "other"},
    )
    got = compare_register(path, tables(), "notes")
    assert [(x.gold, x.predicted, x.confidence) for x in got] == [
        ("UPDATE", "UPDATE", 0.9),
        ("UPDATE", "EXTEND", 0.9),
        ("NONE", "NONE", None),
    ]
    counts = confusion(got)
    assert counts["UPDATE"] == {"UPDATE": 1, "EXTEND": 1, "DERIVE": 0, "NONE": 0} and counts["NONE"]["NONE"] == 1
    assert compare_register(tmp_path / "none.jsonl", tables(), "notes") == []
    outcomes = [("UPDATE", 0.95), ("NONE", 1.0), ("UPDATE", 0.5), ("UPDATE", None)]
    got = calibration(RegisterPrediction("r", "UPDATE", p, c) for p, c in outcomes)
    assert [(round(b.confidence, 3), b.accuracy, b.pairs) for b in got] == [(0.5, 1.0, 1), (0.975, 0.5, 2)]


@pytest.mark.parametrize(
    ("line", "message"),
    [("{", "line 1: not a JSON object"), ('{"id": "x"}', "line 1: collection is required"), ("3", "not a JSON object")],
)
def test_a_bad_line_of_the_register_is_named(tmp_path, line, message):
    (tmp_path / "relations.jsonl").write_text(line + "\n")
    with pytest.raises(PalimpsestError, match=message):
        compare_register(tmp_path / "relations.jsonl", tables(), "notes")
