"""From the numbers of encoder and judge to a probability, and from that to consequences: fitted to held-out worlds.

All of it is one file, written by `palimpsest.eval.labels.training.train_change_encoder`.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from palimpsest.core.errors import ComponentFailed
from palimpsest.store.home import SHIPPED

CALIBRATION_FILE = "models/change_encoder.json"
_RARE = 1e-4


@dataclass(frozen=True)
class Calibration:
    """Turns scores into probabilities.

    Attributes:
        score_weight: of the encoder's score of a candidate against ending none.
        class_weight: of the log odds of its class `update`.
        offset: added to both.
        chooser_weight: of the log odds that the encoder gives, where a judge read the pair too.
        judge_weight: of the judge's log odds of UPDATE.
        rule_weight: added where a rule of the judge says UPDATE.
        judge_offset: added.
        superseded: least probability that the newer memory ends the older one, for the older one to be retired.
        disputed: least probability for both to stay latest with the newer one before the older.
    """

    score_weight: float
    class_weight: float
    offset: float
    chooser_weight: float
    judge_weight: float
    rule_weight: float
    judge_offset: float
    superseded: float
    disputed: float

    def log_odds(self, scores: np.ndarray, update_logs: np.ndarray) -> np.ndarray:
        """Returns the encoder's log odds of each candidate against ending none.

        Args:
            scores: of `ChangeReading`, shape (n,).
            update_logs: log probabilities of the class `update`, shape (n,).
        """
        found: np.ndarray = (
            self.score_weight * scores + self.class_weight * logit(np.exp(update_logs.astype(np.float64))) + self.offset
        )
        return found

    def judged(self, p: float, judge_p: float, is_rule: bool) -> float:
        """Returns the probability of a candidate that a judge read too.

        Args:
            p: of the encoder.
            judge_p: the judge's probability of UPDATE.
            is_rule: whether a rule of the judge says UPDATE.
        """
        odds = self.chooser_weight * float(logit(np.array(p))) + self.judge_weight * float(logit(np.array(judge_p)))
        return 1.0 / (1.0 + math.exp(-(odds + self.rule_weight * is_rule + self.judge_offset)))

    def to_json(self) -> str:
        """Returns it as it is stored."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Calibration":
        """Makes it of what `to_json` wrote."""
        return cls(**fields)


def logit(p: np.ndarray) -> np.ndarray:
    """Returns the log odds of probabilities, none of them below -9 or above 9."""
    clipped = np.clip(p, _RARE, 1 - _RARE)
    found: np.ndarray = np.log(clipped / (1 - clipped))
    return found


def softmax_with_none(log_odds: np.ndarray) -> np.ndarray:
    """Returns the probability of each of several exclusive events that may all fail, shape (n,)."""
    top = max(0.0, float(log_odds.max()))
    raised = np.exp(log_odds - top)
    found: np.ndarray = raised / (math.exp(-top) + raised.sum())
    return found


@lru_cache(maxsize=1)
def shipped_calibration() -> Calibration:
    """Returns the calibration of the encoder that comes with Palimpsest.

    Raises:
        ComponentFailed: its file is missing or damaged.
    """
    try:
        return Calibration.from_json(json.loads((SHIPPED / CALIBRATION_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        raise ComponentFailed(
            f"change encoder: {CALIBRATION_FILE} cannot be read; install palimpsest-memory again"
        ) from None
