"""The cascade: the offline labeler decides where it is certain, the language model elsewhere."""

from collections.abc import Sequence
from dataclasses import replace

from palimpsest.core.ids import content_id
from palimpsest.relations.classify.label_types import LabelPair, LabelResult, RelationLabeler
from palimpsest.relations.classify.offline_labeler import OfflineLabeler

MIN_CONFIDENCE = 0.85
"""Of the offline labeler's calibrated answer to be final (measured by `eval.studies.cascade_tradeoff`)."""


class CascadeLabeler:
    """Calls the LM only where the offline labeler is not certain; a pair without an answer retires nothing."""

    name = "cascade"
    reads_together = False

    def __init__(self, offline: OfflineLabeler, lm: RelationLabeler, min_confidence: float = MIN_CONFIDENCE):
        self.offline, self.lm, self.min_confidence = offline, lm, min_confidence
        self.program_hash = content_id("cascade", offline.program_hash, lm.program_hash, str(min_confidence))

    def label(self, pairs: list[LabelPair]) -> list[LabelResult]:
        """Returns one result for each pair, in order; `labeler` names the labeler that decided."""
        results = [replace(r, labeler="offline") for r in self.offline.label(pairs)]
        uncertain = [i for i, r in enumerate(results) if not is_certain(r, self.min_confidence)]
        for i, answer in zip(uncertain, self.lm.label([pairs[i] for i in uncertain]), strict=True):
            results[i] = answer
        return results


def is_certain(result: LabelResult, min_confidence: float) -> bool:
    """Returns whether the offline labeler's result is final."""
    return result.decided and (result.confidence >= min_confidence or result.rule == "same text")


def tradeoff_by_threshold(
    offline: Sequence[LabelResult], lm: Sequence[LabelResult], thresholds: Sequence[float]
) -> list[tuple[float, float, list[LabelResult]]]:
    """Returns (threshold, share of LM calls, results) for each threshold, from results of both for all pairs."""
    out = []
    for threshold in thresholds:
        certain = [is_certain(r, threshold) for r in offline]
        chosen = [a if c else b for c, a, b in zip(certain, offline, lm, strict=True)]
        out.append((threshold, 1 - sum(certain) / max(1, len(certain)), chosen))
    return out
