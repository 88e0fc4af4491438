"""From the numbers of chooser and judge to a probability, and from that to consequences: fitted to worlds kept apart.

All of it is one file, written by `palimpsest_eval.training.calibrate`.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.files import SHIPPED

CALIBRATION_FILE = "models/change_calibration.json"
LEVEL, DEFAULT_LEVEL = "PALIMPSEST_CHANGES", "balanced"
_RARE = 1e-4


class Lines(NamedTuple):
    """Where consequences begin.

    Attributes:
        superseded: least probability that the newer memory ends the older one, for the older one to be retired.
        disputed: least probability for both to stay latest with the newer one before the older.
    """

    superseded: float
    disputed: float


@dataclass(frozen=True)
class Calibration:
    """Turns scores into probabilities, and probabilities into consequences.

    Attributes:
        chooser: weights of the chooser's score of a candidate, of its log odds of `update`, and an offset.
        judge: weights of the log odds that the chooser gives, of the judge's score and log odds of `update`, an offset.
        rule: what is added to the log odds where a rule finds an UPDATE.
        lines: by level, how many wrong consequences are accepted: `careful`, `balanced` or `eager`.
    """

    chooser: tuple[float, float, float]
    judge: tuple[float, float, float, float]
    rule: float
    lines: Mapping[str, Lines]

    def chosen(self, scores: np.ndarray, update_logs: np.ndarray) -> np.ndarray:
        """Returns the chooser's log odds of each candidate against ending none.

        Args:
            scores: of `ChangeReading`, shape (n,).
            update_logs: log probabilities of the class `update`, shape (n,).
        """
        return weigh(numbers_of(scores, update_logs), self.chooser)

    def judged(
        self, chosen: np.ndarray, scores: np.ndarray, update_logs: np.ndarray, by_rule: np.ndarray
    ) -> np.ndarray:
        """Returns the log odds of candidates that the judge read too.

        Args:
            chosen: what `chosen` gives for them, shape (n,).
            scores: of the judge, shape (n,).
            update_logs: of the judge, shape (n,).
            by_rule: whether a rule finds an UPDATE, shape (n,).
        """
        return weigh(np.column_stack([chosen, numbers_of(scores, update_logs)]), self.judge) + self.rule * by_rule

    def to_json(self) -> str:
        """Returns it as it is stored."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Calibration":
        """Makes it of what `to_json` wrote."""
        lines = {level: Lines(*line) for level, line in fields["lines"].items()}
        chooser, judge = _numbers(fields["chooser"], 3), _numbers(fields["judge"], 4)
        return cls(chooser, judge, float(fields["rule"]), lines)  # type: ignore[arg-type]


def _numbers(values: Sequence[Any], count: int) -> tuple[float, ...]:
    found = tuple(float(v) for v in values)
    if len(found) != count:
        raise ValueError(values)
    return found


def numbers_of(scores: np.ndarray, update_logs: np.ndarray) -> np.ndarray:
    """Returns what is weighed of a reading: scores and log odds of `update`, shape (n, 2)."""
    return np.column_stack([scores, logit(np.exp(update_logs.astype(np.float64)))])


def weigh(numbers: np.ndarray, weights: Sequence[float] | np.ndarray) -> np.ndarray:
    """Returns the log odds of each row of numbers; the last weight is added."""
    found: np.ndarray = numbers @ np.array(weights[:-1]) + weights[-1]
    return found


def logit(p: np.ndarray) -> np.ndarray:
    """Returns the log odds of probabilities, none of them below -9 or above 9."""
    clipped = np.clip(p, _RARE, 1 - _RARE)
    found: np.ndarray = np.log(clipped / (1 - clipped))
    return found


def softmax_with_none(log_odds: np.ndarray) -> np.ndarray:
    """Returns the probability of each of several exclusive events that may all fail, shape (n,)."""
    top = max(0.0, float(log_odds.max()))
    raised = np.exp(log_odds - top)
    found: np.ndarray = raised / (np.exp(-top) + raised.sum())
    return found


def configured_lines(calibration: Calibration) -> Lines:
    """Returns the lines of the level that the environment sets.

    Raises:
        PalimpsestError: there is no such level.
    """
    level = os.environ.get(LEVEL) or DEFAULT_LEVEL
    if level not in calibration.lines:
        raise PalimpsestError(f"{LEVEL}: {level[:40]!r} must be one of {', '.join(calibration.lines)}; set one")
    return calibration.lines[level]


@lru_cache(maxsize=1)
def shipped_calibration() -> Calibration:
    """Returns the calibration of the models that come with Palimpsest.

    Raises:
        ComponentFailed: its file is missing or damaged.
    """
    try:
        return Calibration.from_json(json.loads((SHIPPED / CALIBRATION_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        raise ComponentFailed(f"changes: {CALIBRATION_FILE} cannot be read; install palimpsest-memory again") from None
