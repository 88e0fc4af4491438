"""What a cascade saves and loses: LM calls and macro-F1 for each threshold of the offline labeler's confidence."""

from collections.abc import Sequence
from typing import Any

from palimpsest.eval.labels.measured_labels import figures, judged
from palimpsest.relations.classify.cascade_labeler import tradeoff_by_threshold
from palimpsest.relations.classify.label_types import LabelResult

THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.01)


def cascade_table(
    rows: Sequence[dict[str, Any]],
    offline: Sequence[LabelResult],
    lm: Sequence[LabelResult],
    thresholds: Sequence[float] = THRESHOLDS,
) -> list[dict[str, float]]:
    """Returns for each threshold: share of pairs asked, macro-F1, points lost against the LM alone, false retirements.

    Args:
        rows: labelled pairs.
        offline: the offline labeler's answers to them; of pairs it was not trained on.
        lm: the LM's answers to them.
        thresholds: over 1 asks about every pair.
    """
    alone = figures(judged(rows, lm))["macro_f1"]
    out = []
    for threshold, asked, answers in tradeoff_by_threshold(offline, lm, thresholds):
        found = figures(judged(rows, answers))
        out.append(
            {
                "threshold": threshold,
                "asked": round(asked, 4),
                "macro_f1": found["macro_f1"],
                "points_lost": round(100 * (alone - found["macro_f1"]), 2),
                "falsely_retired": found["false_retirement"]["pairs"],
            }
        )
    return out
