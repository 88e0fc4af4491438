"""What a cascade saves and loses: LM calls and macro-F1 for each threshold of the offline labeler's confidence.

    python -m palimpsest_eval.studies.cascade_tradeoff [--pairs FILE] [--accuracy SHARE] [--home HOME]

labels pairs (the golden test pairs, unless a file is named) with the shipped offline labeler and with the model of
PALIMPSEST_LM, and prints a JSON line for each threshold. With `--accuracy` no model is called: one is assumed that
gives this share of the pairs, drawn by their texts, the right label. Name no file that the labeler was trained on.

How a threshold is chosen: of those that lose at most one point of macro-F1 against the model alone, and retire no more
pairs falsely, the one with the least share of LM calls. It is chosen again when the offline labeler is trained again.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from palimpsest.core.ids import content_id
from palimpsest.relations.classify.choose_labeler import tradeoff_by_threshold
from palimpsest.relations.classify.label_types import LABELS, LabelResult
from palimpsest.relations.classify.pairs_file import PairRow, pair_from_row, read_pairs_file
from palimpsest.store.home import DEFAULT_HOME, Home
from palimpsest_eval.labels.label_metrics import label_metrics, predictions

THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.01)


@dataclass(frozen=True)
class CascadePoint:
    """A cascade at one threshold of confidence.

    Attributes:
        threshold: below it the LM decides; over 1 it decides every pair.
        lm_share: share of the pairs that the LM decides.
        macro_f1: of the cascade.
        points_lost: of macro-F1 in percent, against the LM alone.
        falsely_retired: pairs that are not UPDATE and were labelled so.
    """

    threshold: float
    lm_share: float
    macro_f1: float
    points_lost: float
    falsely_retired: int


def cascade_points(
    rows: Sequence[PairRow],
    offline: Sequence[LabelResult],
    lm: Sequence[LabelResult],
    thresholds: Sequence[float] = THRESHOLDS,
) -> list[CascadePoint]:
    """Returns a point for each threshold.

    Args:
        rows: labelled pairs.
        offline: the offline labeler's results on them; it must not have been trained on them.
        lm: the LM's results on them.
        thresholds: of the offline labeler's confidence.
    """
    lm_alone = label_metrics(predictions(rows, lm)).macro_f1
    points = []
    for threshold, share, results in tradeoff_by_threshold(offline, lm, thresholds):
        metrics = label_metrics(predictions(rows, results))
        lost = round(100 * (lm_alone - metrics.macro_f1), 2)
        wrong = metrics.false_retirement.pairs
        points.append(CascadePoint(threshold, round(share, 4), metrics.macro_f1, lost, wrong))
    return points


def assumed_answers(rows: Sequence[PairRow], accuracy: float) -> list[LabelResult]:
    """Returns the answers of a model that gives a share of the pairs, drawn by their texts, the right label."""
    answers = []
    for row in rows:
        wrong = [label for label in LABELS if label != row["label"]]
        is_right = _draw("right", row) < accuracy
        label = row["label"] if is_right else wrong[int(_draw("wrong", row) * len(wrong))]
        answers.append(LabelResult(label, accuracy))
    return answers


def _draw(what: str, row: PairRow) -> float:
    """Returns a number in [0, 1), always the same for the same texts."""
    return int(content_id("assumed answers", what, row["older"], row["newer"]), 16) / 16**16


def main(argv: Sequence[str] | None = None) -> None:
    """Prints a JSON line for each threshold."""
    from palimpsest.relations.classify.offline_labeler import offline_labeler
    from palimpsest.relations.classify.pairs_file import golden_pairs

    parser = argparse.ArgumentParser(description="What a cascade saves and loses by its threshold of confidence.")
    parser.add_argument("--home", type=Path, default=DEFAULT_HOME, help="the home with the LM's ledger")
    parser.add_argument("--pairs", type=Path, help="labeled pairs as JSONL; default: the golden test pairs")
    parser.add_argument("--accuracy", type=float, help="assume a model of this accuracy instead of calling one")
    args = parser.parse_args(argv)
    rows = read_pairs_file(args.pairs, labelled=True) if args.pairs else golden_pairs("test")
    pairs = [pair_from_row(r) for r in rows]
    offline = offline_labeler(none_odds=1.0).label(pairs)
    lm = _lm_answers(args.home, rows) if args.accuracy is None else assumed_answers(rows, args.accuracy)
    for point in cascade_points(rows, offline, lm):
        sys.stdout.write(json.dumps(asdict(point)) + "\n")


def _lm_answers(home: Path, rows: Sequence[PairRow]) -> list[LabelResult]:
    from palimpsest.relations.classify.lm.ledger import Ledger
    from palimpsest.relations.classify.lm.lm_labeler import LmLabeler
    from palimpsest.relations.classify.lm.lm_settings import lm_settings

    return LmLabeler(lm_settings(), Ledger(Home(home).lm_ledger)).label([pair_from_row(r) for r in rows])


if __name__ == "__main__":
    main()
