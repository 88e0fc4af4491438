"""The cascade: the offline labeler decides what it is sure of, the language model the rest."""

from collections.abc import Sequence
from typing import Any

from palimpsest.core.ids import content_id
from palimpsest.relations.classify.label_types import LabelPair, LabelResult
from palimpsest.relations.classify.offline_labeler import OfflineLabeler

SURE = 0.85
"""From this calibrated confidence on the offline labeler is believed (measured by `eval.studies.cascade_tradeoff`)."""
_RULES = ("same text",)


class CascadeLabeler:
    """Asks the LM only where the offline labeler is not sure; where no answer came, nothing is retired."""

    name = "cascade"

    def __init__(self, offline: OfflineLabeler, lm: Any, sure: float = SURE):
        self.offline, self.lm, self.sure = offline, lm, sure
        self.program_hash = content_id("cascade", offline.program_hash, lm.program_hash, str(sure))

    def label(self, pairs: list[LabelPair]) -> list[LabelResult]:
        """Returns one answer for each pair, in order; `labeler` says who gave it."""
        first = [_by("offline", a) for a in self.offline.label(pairs)]
        hard = [i for i, a in enumerate(first) if not is_sure(a, self.sure)]
        answers = self.lm.label([pairs[i] for i in hard])
        out = list(first)
        for i, answer in zip(hard, answers, strict=True):
            out[i] = answer
        return out


def is_sure(answer: LabelResult, sure: float) -> bool:
    """Tells whether the offline labeler's answer stands without asking."""
    return answer.decided and (answer.confidence >= sure or answer.evidence.get("rule") in _RULES)


def _by(name: str, a: LabelResult) -> LabelResult:
    return LabelResult(a.label, a.confidence, a.evidence, labeler=name, decided=a.decided)


def tradeoff_by_threshold(
    offline: Sequence[LabelResult], lm: Sequence[LabelResult], thresholds: Sequence[float]
) -> list[tuple[float, float, list[LabelResult]]]:
    """Returns (threshold, share of pairs asked, answers) for each threshold, from answers of both to all pairs."""
    out = []
    for t in thresholds:
        stands = [is_sure(a, t) for a in offline]
        chosen = [a if s else b for s, a, b in zip(stands, offline, lm, strict=True)]
        out.append((t, 1 - sum(stands) / max(1, len(stands)), chosen))
    return out
