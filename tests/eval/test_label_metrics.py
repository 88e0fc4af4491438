"""Metrics of labels, and the gate on them: computed by hand."""

import json
from dataclasses import replace

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest_eval.labels.label_file import label_file
from palimpsest_eval.labels.label_gate import decide_labels
from palimpsest_eval.labels.label_metrics import (
    LabelPrediction,
    LabelScores,
    f1,
    label_metrics,
    metrics_by,
    reliability,
    two_class_f1,
    wilson_interval,
)

PAIRS = [
    LabelPrediction("1", "UPDATE", "UPDATE", 0.95, "a"),
    LabelPrediction("2", "UPDATE", "NONE", 0.55, "a", decided=False),
    LabelPrediction("3", "EXTEND", "UPDATE", 0.85, "a"),
    LabelPrediction("4", "NONE", "NONE", 0.95, "b"),
    LabelPrediction("5", "DERIVE", "DERIVE", 0.65, "b"),
]


def test_metrics_are_those_computed_by_hand_in_the_json_that_others_read():
    metrics = label_metrics(PAIRS)
    assert f1(PAIRS, "UPDATE") == 0.5 and f1(PAIRS, "NONE") == pytest.approx(2 / 3) and f1(PAIRS, "EXTEND") == 0.0
    assert metrics.macro_f1 == round((0.5 + 1.0 + 0.0 + 2 / 3) / 4, 4)
    assert metrics.labels["UPDATE"] == LabelScores(precision=0.5, recall=0.5, f1=0.5, pairs=2)
    assert (metrics.false_retirement.pairs, metrics.false_retirement.of) == (1, 3)
    assert metrics.coverage == 0.8
    assert metrics.ece == round((2 * 0.05 + 1 * 0.85 + 1 * 0.35) / 4, 4)
    found = label_metrics(PAIRS).to_json()
    assert set(found) == {
        *("pairs", "macro_f1", "accuracy", "labels", "false_retirement", "ece", "reliability", "coverage")
    }
    assert found["labels"]["UPDATE"] == {"precision": 0.5, "recall": 0.5, "f1": 0.5, "pairs": 2}
    assert set(found["false_retirement"]) == {"pairs", "of", "rate", "interval"}
    assert found["reliability"][0] == {"confidence": 0.65, "accuracy": 1.0, "pairs": 1}
    always = [LabelPrediction(p.id, p.label, "UPDATE", 1.0) for p in PAIRS]
    assert two_class_f1(always, "UPDATE") == pytest.approx((2 * 2 / (5 + 2)) / 2)


def test_wilson_intervals_reliability_bins_and_sources():
    assert wilson_interval(0, 100)[0] == 0.0 and wilson_interval(0, 100)[1] == pytest.approx(0.037, abs=1e-3)
    assert wilson_interval(0, 0) == (0.0, 1.0)
    assert [b.pairs for b in reliability((p.confidence, True) for p in PAIRS)] == [1, 1, 1, 2]
    by_source = metrics_by(PAIRS, [p.source for p in PAIRS])
    assert set(by_source) == {"a", "b"} and by_source["a"].false_retirement.pairs == 1


GOOD = replace(label_metrics(PAIRS), macro_f1=0.8)
MORE_WRONG = replace(GOOD, false_retirement=replace(GOOD.false_retirement, pairs=2))
BASELINE = GOOD.to_json()


@pytest.mark.parametrize(
    ("metrics", "unanswered", "baseline", "message"),
    [
        (GOOD, 0, BASELINE, None), (replace(GOOD, macro_f1=0.795), 0, BASELINE, None),
        (replace(GOOD, macro_f1=0.78), 0, BASELINE, "macro-F1 0.780, was 0.800"),
        (replace(GOOD, macro_f1=float("nan")), 0, BASELINE, "no number"),
        (MORE_WRONG, 0, BASELINE, "2 pairs falsely retired, were 1"), (GOOD, 1, BASELINE, "without a readable answer"),
        (GOOD, 0, None, "no baseline"), (GOOD, 0, {"macro_f1": 0.8}, "lacks a figure"),
        (replace(GOOD, pairs=0), 0, BASELINE, "no pair"),
    ],
)  # fmt: skip
def test_the_gate_on_labels_cannot_pass_by_accident(metrics, unanswered, baseline, message):
    reasons = decide_labels(metrics, unanswered, baseline)
    assert (not reasons) if message is None else any(message in r for r in reasons)


def test_a_file_is_labelled_line_by_line_and_measured_where_it_has_labels(tmp_path):
    pairs, out = tmp_path / "p", tmp_path / "o"
    lines = [
        {
            "id": "1", "older": "The deadline of Falcon is 3 May.", "newer": "The deadline of Falcon is now 9 May.",
            "label": "UPDATE", "extra": "kept",
        },
        {"id": "2", "older": "Ana likes tea.", "newer": "Ana likes coffee."},
    ]  # fmt: skip
    pairs.write_text("".join(json.dumps(x) + "\n" for x in lines))
    done = label_file(pairs, out)
    got = [json.loads(x) for x in out.read_text().splitlines()]
    assert got[0]["predicted"] == "UPDATE" and got[0]["labeler"] == "offline" and got[0]["extra"] == "kept"
    assert got[1]["predicted"] != "UPDATE" and (done.pairs, done.metrics.pairs) == (2, 1)
    report = done.to_json()
    assert set(report) == {"pairs", "seconds", "usage", "figures", "by_source"}
    assert set(report["seconds"]) == {"load", "features", "predict"}
    with pytest.raises(PalimpsestError, match="--train"):
        label_file(pairs, out, train_file=tmp_path / "none")
