"""Fits the probabilities of chooser and judge, and where consequences begin, to worlds that trained nothing.

`python -m palimpsest_eval.training.calibrate` reads the models of data/models and writes their calibration.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from palimpsest.core.files import SHIPPED, say, write_bytes
from palimpsest.relations.labelers.apply_rules import update_by_rules
from palimpsest.relations.labelers.calibration import (
    CALIBRATION_FILE,
    Calibration,
    Lines,
    numbers_of,
    softmax_with_none,
    weigh,
)
from palimpsest.relations.labelers.change_encoder import (
    CHOOSER_FILE,
    JUDGE_FILE,
    PAIR_CLASSES,
    ChangeEncoder,
    ChangeQuestion,
    ChangeReading,
)
from palimpsest.relations.labelers.label_types import LabelPair
from palimpsest.relations.labelers.offline_labeler import likely_rows
from palimpsest.relations.labelers.pairs_file import PairRow
from palimpsest_eval.training.training_pairs import training_pairs
from palimpsest_eval.training.worlds import ChangeList, ListMaker, embed_texts, load_worlds

RATES: Mapping[str, tuple[float, float]] = {
    "careful": (0.002, 0.012),
    "balanced": (0.005, 0.06),
    "eager": (0.01, 0.1),
}
"""Of newer statements that end nothing, how many may supersede or dispute an older one, by level."""
_UPDATE = PAIR_CLASSES.index("update")


@dataclass(frozen=True)
class Read:
    """What was read of one list: numbers of its candidates, shape (n, columns), and which is right; None for none."""

    columns: np.ndarray
    right: int | None


def calibrate(chooser: ChangeEncoder, judge: ChangeEncoder, maker: ListMaker) -> Calibration:
    """Returns the calibration of a chooser and a judge.

    Args:
        chooser: reads lists.
        judge: reads the likeliest candidates of each.
        maker: of worlds that trained nothing.
    """
    lists = [maker.full_list(w, n) for w in maker.worlds for n in range(1, len(w.notes))]
    chosen = chooser.read([ChangeQuestion(x.newer, x.older) for x in lists])
    weights = fit_weights([Read(_columns(r), x.right) for r, x in zip(chosen, lists, strict=True)], (1.0, 0.1, 0.0))
    odds = [weigh(_columns(r), weights) for r in chosen]
    rows = [likely_rows(softmax_with_none(of_list)) for of_list in odds]
    read = _judged(judge, lists, odds, rows)
    of_judge = fit_weights([r for r in read if len(r.columns)], (0.5, 0.5, 0.1, 0.0))
    say(f"calibrated on {len(lists)} lists: weights {weights}, {of_judge}")
    best = [_best(r, of_judge) for r in read]
    return Calibration(weights, of_judge, rule_weight(training_pairs()), lines_of(best, lists))  # type: ignore[arg-type]


def fit_weights(read: Sequence[Read], first: Sequence[float]) -> tuple[float, ...]:
    """Returns a weight of each column and an offset: those of the greatest likelihood of what is right.

    Args:
        read: lists with their numbers.
        first: weights to start from, the offset last.
    """
    from scipy.optimize import minimize

    def loss(weights: np.ndarray) -> float:
        total = 0.0
        for r in read:
            p = softmax_with_none(weigh(r.columns, weights))
            total -= float(np.log(max(1e-9, 1 - p.sum() if r.right is None else p[r.right])))
        return total / len(read)

    found = minimize(loss, np.array(first), method="Nelder-Mead", options={"maxiter": 300}).x
    return tuple(round(float(w), 4) for w in found)


def lines_of(best: Sequence[tuple[float, bool]], lists: Sequence[ChangeList]) -> dict[str, Lines]:
    """Returns the lines of each level: above them are so few statements that end nothing as RATES say.

    Args:
        best: probability of the likeliest candidate of each list, and whether it is the right one.
        lists: the lists.
    """
    nothing = np.sort([p for (p, _), x in zip(best, lists, strict=True) if x.right is None])[::-1]
    of_changes = [of_list for of_list, x in zip(best, lists, strict=True) if x.right is not None]
    lines = {}
    for level, rates in RATES.items():
        found = [round(min(0.999, float(nothing[int(rate * len(nothing))]) + 0.001), 3) for rate in rates]
        lines[level] = Lines(*found)
        for name, line in zip(Lines._fields, found, strict=True):
            right, wrong = (sum(p >= line and ok == wanted for p, ok in of_changes) for wanted in (True, False))
            say(f"{level}: {name} from {line}: {right} right, {wrong} wrong of {len(of_changes)} changes")
    return lines


def _columns(reading: ChangeReading) -> np.ndarray:
    return numbers_of(reading.scores, reading.classes[:, _UPDATE])


def _judged(
    judge: ChangeEncoder, lists: Sequence[ChangeList], odds: Sequence[np.ndarray], rows: Sequence[np.ndarray]
) -> list[Read]:
    """Returns of each list what both read of its likely candidates."""
    likely = [i for i, of_list in enumerate(rows) if len(of_list)]
    found = judge.read([ChangeQuestion(lists[i].newer, [lists[i].older[row] for row in rows[i]]) for i in likely])
    out = [Read(np.zeros((0, 3)), None)] * len(lists)
    for i, reading in zip(likely, found, strict=True):
        places, right = rows[i].tolist(), lists[i].right
        columns = np.column_stack([odds[i][rows[i]], _columns(reading)])
        out[i] = Read(columns, places.index(right) if right in places else None)
    return out


def rule_weight(pairs: Sequence[PairRow]) -> float:
    """Returns the log of how much likelier a rule finds an UPDATE in a pair that is one than in another.

    The worlds have no UPDATE by rule. The pairs trained both models, so what a rule adds to these cannot be read there.
    """
    found = np.array([update_by_rules(LabelPair("", "", p["newer"], p["older"])) is not None for p in pairs])
    is_update = np.array([p["label"] == "UPDATE" for p in pairs])
    say(f"by rule: {int(found[is_update].sum())} of {int(is_update.sum())}, {int(found[~is_update].sum())} others")
    return round(float(np.log(found[is_update].mean() / found[~is_update].mean())), 2)


def _best(read: Read, weights: Sequence[float]) -> tuple[float, bool]:
    if not len(read.columns):
        return 0.0, False
    p = softmax_with_none(weigh(read.columns, weights))
    return float(p.max()), int(p.argmax()) == read.right


def main() -> None:
    """Calibrates the models of a data folder."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=SHIPPED, help="The data folder.")
    folder = arguments.parse_args().out
    chooser, judge = (ChangeEncoder(folder / file) for file in (CHOOSER_FILE, JUDGE_FILE))
    held_out = [w for w in load_worlds() if w.is_held_out]
    found = calibrate(chooser, judge, ListMaker(held_out, embed_texts))
    write_bytes(folder / CALIBRATION_FILE, found.to_json().encode())


if __name__ == "__main__":
    main()
