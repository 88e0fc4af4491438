"""Changes and traps of the register against a build made by hand, in which one memory of five is retired."""

import json

from palimpsest_eval.labels.register import read_register
from palimpsest_eval.studies.changes import main, measure_changes, report_changes
from tests.eval.home import tables

FRIDAY = {"uri": "news.md", "quote": "The launch moved to Friday"}
MONDAY = {"uri": "plan.md", "quote": "The launch is on Monday"}
BUDGET = {"uri": "plan.md", "quote": "The budget is"}
CAKE = {"uri": "news.md", "quote": "Bring cake"}
ROWS = (
    {"kind": "plain", "label": "UPDATE", "newer": FRIDAY, "older": [MONDAY]},
    {"kind": "plain", "label": "UPDATE", "newer": FRIDAY, "older": [BUDGET]},
    {"kind": "trap", "label": "NONE", "newer": CAKE, "older": [MONDAY]},
    {"kind": "trap", "label": "NONE", "newer": CAKE, "older": [BUDGET]},
    {"kind": "back", "label": "UPDATE", "newer": FRIDAY, "older": [MONDAY]},
    {"kind": "plain", "label": "UPDATE", "newer": {"uri": "gone.md", "quote": "x"}, "older": [MONDAY]},
)


def register(tmp_path):
    path = tmp_path / "relations.jsonl"
    lines = [{"id": f"r{i}", "collection": "notes", "user": "ana"} | row for i, row in enumerate(ROWS)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_retired_memory_is_right_for_a_change_and_wrong_for_a_trap(tmp_path):
    changes = measure_changes(tables(), read_register(register(tmp_path)))
    assert [(c.id, c.retired, c.is_right) for c in changes] == [
        ("r0", True, True),
        ("r1", False, False),
        ("r2", True, False),
        ("r3", False, True),
    ]
    assert (changes[0].label, changes[2].label) == ("UPDATE", "no candidate pair")
    assert report_changes(changes).splitlines() == [
        "changes: older memory retired: 1 of 2 (notes 1 of 2)",
        "traps: retired though still true: 1 of 2 (notes 1 of 2)",
        "plain  r1  notes  no candidate pair",
        "trap  r2  notes  no candidate pair",
    ]


def test_a_home_without_a_build_is_refused(tmp_path, capsys):
    assert main(["--home", str(tmp_path / "none"), "--register", str(register(tmp_path))]) == 2
    assert "no build; run palimpsest build first" in capsys.readouterr().err
