"""Figures of labels, the gate on them, and the table of what a cascade saves: hand-computed."""

import json

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.eval.labels.cascade_figures import cascade_table
from palimpsest.eval.labels.label_gate import decide_labels
from palimpsest.eval.labels.measured_labels import (
    Judged,
    by_source,
    f1,
    figures,
    label_file,
    reliability,
    two_class,
    wilson,
)
from palimpsest.relations.classify.label_types import LabelResult

PAIRS = [
    Judged("1", "UPDATE", "UPDATE", 0.95, "a"),
    Judged("2", "UPDATE", "NONE", 0.55, "a", decided=False),
    Judged("3", "EXTEND", "UPDATE", 0.85, "a"),
    Judged("4", "NONE", "NONE", 0.95, "b"),
    Judged("5", "DERIVE", "DERIVE", 0.65, "b"),
]


def test_figures_are_those_computed_by_hand():
    found = figures(PAIRS)
    assert f1(PAIRS, "UPDATE") == 0.5 and f1(PAIRS, "NONE") == pytest.approx(2 / 3) and f1(PAIRS, "EXTEND") == 0.0
    assert found["macro_f1"] == round((0.5 + 1.0 + 0.0 + 2 / 3) / 4, 4)
    assert found["labels"]["UPDATE"] == {"precision": 0.5, "recall": 0.5, "f1": 0.5, "pairs": 2}
    assert (found["false_retirement"]["pairs"], found["false_retirement"]["of"]) == (1, 3)
    assert found["coverage"] == 0.8
    assert found["ece"] == round((2 * 0.05 + 1 * 0.85 + 1 * 0.35) / 4, 4)


def test_wilson_holds_for_rare_events():
    assert wilson(0, 100)[0] == 0.0 and wilson(0, 100)[1] == pytest.approx(0.037, abs=1e-3)
    assert wilson(0, 0) == (0.0, 1.0)


def test_a_constant_answer_scores_low_on_two_classes():
    always = [Judged(p.id, p.label, "UPDATE", 1.0) for p in PAIRS]
    assert two_class(always, "UPDATE") == pytest.approx((2 * 2 / (5 + 2)) / 2)


def test_reliability_bins_and_sources():
    assert [b["pairs"] for b in reliability(PAIRS)] == [1, 1, 1, 2]
    told = by_source(PAIRS)
    assert set(told) == {"a", "b"} and told["a"]["false_retirement"]["pairs"] == 1


GOOD = {"pairs": 5, "macro_f1": 0.8, "false_retirement": {"pairs": 1}, "unanswered": 0}


@pytest.mark.parametrize(
    ("found", "baseline", "says"),
    [
        (GOOD, GOOD, None),
        (GOOD | {"macro_f1": 0.795}, GOOD, None),
        (GOOD | {"macro_f1": 0.78}, GOOD, "macro-F1 0.780, was 0.800"),
        (GOOD | {"macro_f1": float("nan")}, GOOD, "no number"),
        (GOOD | {"false_retirement": {"pairs": 2}}, GOOD, "2 pairs falsely retired, were 1"),
        (GOOD | {"unanswered": 1}, GOOD, "without a readable answer"),
        (GOOD, None, "no baseline"),
        (GOOD, {"macro_f1": 0.8}, "lacks a figure"),
        (GOOD | {"pairs": 0}, GOOD, "no pair"),
    ],
)
def test_the_gate_on_labels_cannot_pass_by_accident(found, baseline, says):
    reasons = decide_labels(found, baseline)
    assert (not reasons) if says is None else any(says in r for r in reasons)


def test_a_cascade_asks_less_with_a_lower_threshold():
    rows = [{"id": str(i), "label": x} for i, x in enumerate(("UPDATE", "NONE", "EXTEND"))]
    offline = [LabelResult("UPDATE", 0.9), LabelResult("NONE", 0.6), LabelResult("NONE", 0.9, decided=False)]
    lm = [LabelResult("UPDATE", 0.9), LabelResult("NONE", 0.9), LabelResult("EXTEND", 0.9)]
    table = cascade_table(rows, offline, lm, (0.5, 0.8, 1.01))
    assert [r["asked"] for r in table] == [round(1 / 3, 4), round(2 / 3, 4), 1.0]
    assert [r["points_lost"] for r in table] == [0.0, 0.0, 0.0]


def test_a_file_is_labelled_line_by_line_and_measured_where_it_has_labels(tmp_path):
    pairs, out = tmp_path / "p", tmp_path / "o"
    lines = [
        {
            "id": "1",
            "older": "The deadline of Falcon is 3 May.",
            "newer": "The deadline of Falcon is now 9 May.",
            "label": "UPDATE",
            "extra": "kept",
        },
        {"id": "2", "older": "Ana likes tea.", "newer": "Ana likes coffee."},
    ]
    pairs.write_text("".join(json.dumps(x) + "\n" for x in lines))
    done = label_file(pairs, out)
    got = [json.loads(x) for x in out.read_text().splitlines()]
    assert got[0]["predicted"] == "UPDATE" and got[0]["labeler"] == "offline" and got[0]["extra"] == "kept"
    assert got[1]["predicted"] != "UPDATE" and set(done["seconds"]) == {"load", "features", "predict"}
    assert (done["pairs"], done["figures"]["pairs"]) == (2, 1)
    with pytest.raises(PalimpsestError, match="--train"):
        label_file(pairs, out, train_file=tmp_path / "none")
