"""The cascade: the offline labeler decides where it is certain, the language model of a few pairs elsewhere."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from palimpsest.core.ids import content_id
from palimpsest.relations.classify.label_types import LabelPair, LabelResult, RelationLabeler

MIN_CONFIDENCE = 0.85
"""Of the offline labeler's calibrated answer to be final (measured by `eval.studies.cascade_tradeoff`)."""

MAX_LM_PAIRS = 3
"""Pairs of a newer memory that the LM decides at most, as many as without the offline labeler."""


class CascadeLabeler:
    """Calls the LM only where the offline labeler is not certain; a pair without an answer retires nothing."""

    name = "cascade"

    def __init__(self, offline: RelationLabeler, lm: RelationLabeler, min_confidence: float = MIN_CONFIDENCE):
        self.offline, self.lm, self.min_confidence = offline, lm, min_confidence
        self.reads_together = offline.reads_together
        self.program_hash = content_id("cascade", offline.program_hash, lm.program_hash, str(min_confidence))

    def label(self, pairs: list[LabelPair]) -> list[LabelResult]:
        """Returns one result for each pair, in order; `labeler` names the labeler that decided."""
        results = [replace(r, labeler="offline") for r in self.offline.label(pairs)]
        uncertain = _likeliest(pairs, results, self.min_confidence)
        for i, answer in zip(uncertain, self.lm.label([pairs[i] for i in uncertain]), strict=True):
            results[i] = answer
        return results


def _likeliest(pairs: Sequence[LabelPair], results: Sequence[LabelResult], min_confidence: float) -> list[int]:
    """Returns the places of the pairs that the LM decides: of each newer memory the likeliest to be an UPDATE."""
    of_newer: dict[str, list[int]] = defaultdict(list)
    for i, (pair, result) in enumerate(zip(pairs, results, strict=True)):
        if not is_certain(result, min_confidence):
            of_newer[pair.newer_id].append(i)
    chosen: list[int] = []
    for places in of_newer.values():
        chosen += sorted(places, key=lambda i: (-(results[i].likelihood or 0.0), i))[:MAX_LM_PAIRS]
    return sorted(chosen)


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
