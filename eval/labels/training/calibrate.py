"""Fits the probabilities of encoder and judge, and where consequences begin, to worlds that trained nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from palimpsest.core.progress import say
from palimpsest.eval.labels.training.worlds import ChangeList, ListMaker
from palimpsest.relations.changes.calibration import Calibration, logit, softmax_with_none
from palimpsest.relations.changes.change_encoder import PAIR_CLASSES, ChangeEncoder, ChangeQuestion
from palimpsest.relations.changes.change_labeler import JUDGED_FROM, PairJudge, judged_probability
from palimpsest.relations.classify.label_types import LabelPair

SUPERSEDED_RATE, DISPUTED_RATE = 0.004, 0.025
"""Of newer statements that end nothing, how many may supersede or dispute an older one."""
_UPDATE = PAIR_CLASSES.index("update")
_UNFITTED = Calibration(1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True)
class Read:
    """What the encoder read of one list, and which candidate is right; None for none."""

    scores: np.ndarray
    updates: np.ndarray
    right: int | None


def calibrate(encoder: ChangeEncoder, judge: PairJudge, maker: ListMaker) -> Calibration:
    """Returns the calibration of an encoder and a judge.

    Args:
        encoder: reads lists.
        judge: reads the likeliest candidate of some.
        maker: of worlds that trained nothing.
    """
    lists = [maker.full_list(w, n) for w in maker.worlds for n in range(1, len(w.notes))]
    read = read_lists(encoder, lists)
    weights = [round(float(w), 4) for w in fit_weights(read)]
    found = replace(_UNFITTED, score_weight=weights[0], class_weight=weights[1], offset=weights[2])
    numbers, rights, likely = _judged(found, judge, lists, read)
    fitted = [round(float(w), 4) for w in fit_judged(numbers, rights)]
    names = ("chooser_weight", "judge_weight", "rule_weight", "judge_offset")
    found = replace(found, **dict(zip(names, fitted, strict=True)))
    say(f"calibrated on {len(read)} lists, {len(likely)} judged: weights {weights}, {fitted}")
    p = 1 / (1 + np.exp(-(numbers @ np.array(fitted[:3]) + fitted[3])))
    best = np.zeros(len(lists))
    best[likely] = p
    return replace(found, **_lines(best, read, set(np.array(likely)[rights].tolist())))


def read_lists(encoder: ChangeEncoder, lists: Sequence[ChangeList]) -> list[Read]:
    """Returns what an encoder reads of lists."""
    found = encoder.read([ChangeQuestion(x.newer, x.older) for x in lists])
    return [Read(r.scores, r.classes[:, _UPDATE], x.right) for r, x in zip(found, lists, strict=True)]


def fit_weights(read: Sequence[Read]) -> np.ndarray:
    """Returns weights of scores and of log odds of `update`, and an offset: those of the greatest likelihood."""
    from scipy.optimize import minimize

    def loss(weights: np.ndarray) -> float:
        given = replace(_UNFITTED, score_weight=weights[0], class_weight=weights[1], offset=weights[2])
        total = 0.0
        for r in read:
            p = softmax_with_none(given.log_odds(r.scores, r.updates))
            total -= float(np.log(max(1e-9, 1 - p.sum() if r.right is None else p[r.right])))
        return total / len(read)

    found: np.ndarray = minimize(loss, np.array([1.0, 0.1, 0.0]), method="Nelder-Mead", options={"maxiter": 200}).x
    return found


def fit_judged(numbers: np.ndarray, rights: np.ndarray) -> np.ndarray:
    """Returns weights of the columns of `numbers` and an offset, by logistic regression; no weight is below 0."""
    from scipy.optimize import minimize

    def loss(weights: np.ndarray) -> float:
        odds = numbers @ weights[:3] + weights[3]
        return float(np.mean(np.logaddexp(0, odds) - rights * odds) + 1e-3 * (weights[:3] ** 2).sum())

    bounds = [(0, None)] * 3 + [(None, None)]
    found: np.ndarray = minimize(loss, np.array([1.0, 0.2, 0.5, 0.0]), bounds=bounds).x
    return found


def _judged(
    found: Calibration, judge: PairJudge, lists: Sequence[ChangeList], read: Sequence[Read]
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Returns, of each list that a judge reads, the numbers to fit, whether its candidate is right, and which it is."""
    ended = [softmax_with_none(found.log_odds(r.scores, r.updates)) for r in read]
    likely = [i for i, p in enumerate(ended) if p.max() >= JUDGED_FROM]
    best = [int(ended[i].argmax()) for i in likely]
    judged = judge.label([_pair(lists[i], at) for i, at in zip(likely, best, strict=True)])
    of_judge = [judged_probability(result) for result in judged]
    columns = (
        logit(np.array([ended[i][at] for i, at in zip(likely, best, strict=True)])),
        logit(np.array([p for p, _ in of_judge])),
        np.array([float(is_rule) for _, is_rule in of_judge]),
    )
    rights = np.array([read[i].right == at for i, at in zip(likely, best, strict=True)])
    return np.stack(columns, 1), rights, likely


def _pair(given: ChangeList, at: int) -> LabelPair:
    older = given.older[at]
    return LabelPair(
        "n",
        "o",
        given.newer.text,
        older.text,
        given.newer.at,
        older.at,
        newer_speaker=given.newer.name or None,
        older_speaker=older.name or None,
    )


def _lines(best: np.ndarray, read: Sequence[Read], right: set[int]) -> dict[str, float]:
    """Returns the lines at which so few statements that end nothing, as the rates say, have a consequence."""
    nothing = np.sort([p for p, r in zip(best, read, strict=True) if r.right is None])[::-1]
    changes = sum(r.right is not None for r in read)
    lines: dict[str, float] = {}
    for name, rate in (("superseded", SUPERSEDED_RATE), ("disputed", DISPUTED_RATE)):
        line = round(min(0.999, float(nothing[int(rate * len(nothing))]) + 0.001), 3)
        found = sum(best[i] >= line for i in right)
        wrong = sum(
            p >= line and i not in right for i, (p, r) in enumerate(zip(best, read, strict=True)) if r.right is not None
        )
        say(f"{name} from {line}: {found} right, {wrong} wrong of {changes} changes, {len(nothing)} that end nothing")
        lines[name] = line
    return lines
