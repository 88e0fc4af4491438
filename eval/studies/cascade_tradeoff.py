"""What a cascade saves and loses: LM calls and macro-F1 for each threshold of the offline labeler's confidence.

    python -m palimpsest.eval.studies.cascade_tradeoff [--home HOME]

labels the golden test pairs with the offline labeler, which has not seen them, and with the model of PALIMPSEST_LM.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from palimpsest.eval.labels.label_metrics import label_metrics, predictions
from palimpsest.relations.classify.cascade_labeler import tradeoff_by_threshold
from palimpsest.relations.classify.label_types import LabelResult
from palimpsest.relations.classify.pairs_file import PairRow, pair_from_row
from palimpsest.store.home import DEFAULT_HOME, Home

THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.01)


@dataclass(frozen=True)
class CascadePoint:
    """A cascade at one threshold of confidence.

    Attributes:
        threshold: below it the LM decides; over 1 it decides every pair.
        asked: share of the pairs that the LM decides.
        macro_f1: of the cascade.
        points_lost: of macro-F1 in percent, against the LM alone.
        falsely_retired: pairs that are not UPDATE and were labelled so.
    """

    threshold: float
    asked: float
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


def main(argv: Sequence[str] | None = None) -> None:
    """Prints a JSON line for each threshold."""
    from palimpsest.relations.classify.lm.ledger import Ledger
    from palimpsest.relations.classify.lm.lm_labeler import LmLabeler
    from palimpsest.relations.classify.lm.lm_settings import lm_settings
    from palimpsest.relations.classify.model.model_cache import default_model, golden_pairs
    from palimpsest.relations.classify.offline_labeler import OfflineLabeler

    parser = argparse.ArgumentParser(description="What a cascade saves and loses by its threshold of confidence.")
    parser.add_argument("--home", type=Path, default=DEFAULT_HOME, help="the home with the LM's ledger")
    args = parser.parse_args(argv)
    rows = golden_pairs("test")
    pairs = [pair_from_row(r) for r in rows]
    offline = OfflineLabeler(default_model()).label(pairs)
    lm = LmLabeler(lm_settings(), Ledger(Home(args.home).lm_ledger)).label(pairs)
    for point in cascade_points(rows, offline, lm):
        sys.stdout.write(json.dumps(asdict(point)) + "\n")


if __name__ == "__main__":
    main()
