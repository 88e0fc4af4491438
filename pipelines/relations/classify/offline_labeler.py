"""The offline labeler: rules first, then a small trained model; UPDATE only on positive evidence.

No network, no state. Where it is not sure, or the pair is unlike all it was trained on, it abstains; an abstention
is NONE and never retires anything.
"""

from typing import Any

import numpy as np

from palimpsest.core.code import code_hash
from palimpsest.core.ids import content_id
from palimpsest.core.progress import tracked
from palimpsest.relations.classify.features.prepare_pair import (
    FeatureTable,
    PreparedPair,
    compute_features,
    evidence_of,
    prepare_pair,
)
from palimpsest.relations.classify.label_types import LabelPair, LabelResult
from palimpsest.relations.classify.model.relation_model import CLASSES, EXTEND, NONE, UPDATE, Model
from palimpsest.relations.classify.model.update_veto import veto

CANDIDATE_ODDS = 10.0
"""How much likelier NONE is among the pairs that a build finds than among those that people choose to label."""
LEAST_SHARED = 1 / 3
"""Of the content words of the shorter text, for the model to be asked about a pair that a build found."""
BOTH_STAY = 0.8
"""From this probability of UPDATE or EXTEND together on a pair that may be UPDATE is EXTEND."""
LEAST = 0.4
"""A label that is not UPDATE is said from this probability on."""
WHOLE_ENOUGH = 0.3
"""Of the older memory's characters must be what is replaced: the rest is retired with it."""
_CODE = (
    "palimpsest.relations.classify.features.prepare_pair",
    "palimpsest.relations.classify.offline_labeler",
    "palimpsest.relations.classify.model.relation_model",
)
_DOUBT = 0.1  # an UPDATE by rule that the model gives less is not said


def labeler_code() -> str:
    """Returns the hash of all the code that decides what the offline labeler says."""
    return code_hash(_CODE)


class OfflineLabeler:
    """Rules over sentences and, with a model, a trained classifier over parsed pairs."""

    name = "offline"

    def __init__(self, model: Model | None = None, none_odds: float = 1.0):
        """Makes a labeler.

        Args:
            model: the trained half; without it the rules decide alone.
            none_odds: what the odds of NONE are multiplied by, where pairs come from elsewhere than the training's.
        """
        self.model = model
        self.none_odds = none_odds
        self.program_hash = content_id("offline", labeler_code(), model.key if model else "rules", str(none_odds))

    def label(self, pairs: list[LabelPair]) -> list[LabelResult]:
        """Returns one answer for each pair, in order."""
        return self.decide(self.read(pairs))

    def read(self, pairs: list[LabelPair]) -> tuple[list[PreparedPair], list[int], FeatureTable]:
        """Returns the pairs as read, which of them the model is asked about, and the features of those."""
        read = [prepare_pair(p) for p in tracked(pairs, "label", "pairs")]
        # Parsing costs most. Where NONE is likelier by far, a pair with little in common is not worth it.
        least = LEAST_SHARED if self.none_odds > 1 else 0.0
        asked = [i for i, r in enumerate(read) if self.model and _worth_asking(r) and r.shared >= least]
        return read, asked, compute_features([read[i] for i in asked])

    def decide(self, prepared: tuple[list[PreparedPair], list[int], FeatureTable]) -> list[LabelResult]:
        """Returns one answer for each pair of `read`, in order."""
        read, asked, found = prepared
        out = [_by_rule(r) for r in read]
        if self.model is not None and asked:
            told = np.round(self.model.predict(found.rows, found.words), 4)
            unlike = np.round(self.model.unlike(found.rows), 3)
            for i, p, u, words in zip(asked, told, unlike, found.rows, strict=True):
                out[i] = self._combined(read[i], p, float(u), dict(zip(found.names, words, strict=True)))
        return out

    def _combined(self, read: PreparedPair, p: np.ndarray, unlike: float, f: dict[str, Any]) -> LabelResult:
        assert self.model is not None
        label, confidence, evidence = read.verdict
        told = {"p": {c: round(float(v), 3) for c, v in zip(CLASSES, p, strict=True)}, "unlike": unlike}
        strange = unlike > 1.0
        if label == "UPDATE":
            if f["another_of_its_kind"]:
                return _abstained(read, "UPDATE", 1 - float(p[UPDATE]), told | {"veto": "another of its kind"})
            if p[UPDATE] < _DOUBT and not strange:
                return _abstained(read, "UPDATE", 1 - float(p[UPDATE]), told)
            return LabelResult("UPDATE", max(confidence, float(p[UPDATE])), evidence | told)
        if strange:
            return LabelResult(label, confidence, evidence | told, decided=evidence.get("rule") != "abstain")
        least = self.model.least_update if read.pair.order is not None else self.model.least_undated
        if p[UPDATE] >= least and not (why := veto(read.pair.order, read.pair.by_place, read.asks, f)):
            if read.share_of_older < WHOLE_ENOUGH or read.more:
                return LabelResult(
                    "EXTEND", float(p[UPDATE]), evidence_of(read, rule="model", partial_update=True) | told
                )
            return LabelResult("UPDATE", float(p[UPDATE]), evidence_of(read, rule="model") | told)
        if p[UPDATE] >= least:
            told["veto"] = why
        raw, rest = p, p.copy()
        rest[NONE] *= self.none_odds
        rest /= rest.sum()
        p = np.round(rest, 4)
        both = float(rest[UPDATE] + rest[EXTEND])
        if raw.argmax() == UPDATE and raw[UPDATE] < least and both >= BOTH_STAY:
            # It replaces the older one or adds to it: until that is known both stay, and a person may look.
            found = evidence_of(read, rule="model", instead_of="UPDATE")
            return LabelResult("EXTEND", float(p[EXTEND]), found | told)
        rest[UPDATE] = -1
        best = int(rest.argmax())
        if p[best] < LEAST:
            return _abstained(read, CLASSES[int(p.argmax())], 1 - float(p.max()), told)
        if CLASSES[best] == "NONE" and raw.argmax() == UPDATE:
            return _abstained(read, "UPDATE", float(p[best]), told)
        if CLASSES[best] == "NONE":
            return LabelResult("NONE", float(p[best]), {"rule": "model"} | told)
        return LabelResult(CLASSES[best], float(p[best]), evidence_of(read, rule="model") | told)


def _worth_asking(read: PreparedPair) -> bool:
    return read.verdict[2].get("rule") not in ("same text", "same value")


def _by_rule(read: PreparedPair) -> LabelResult:
    label, confidence, evidence = read.verdict
    return LabelResult(label, confidence, evidence, decided=evidence.get("rule") != "abstain")


def _abstained(read: PreparedPair, instead_of: str, confidence: float, told: dict[str, Any]) -> LabelResult:
    evidence = evidence_of(read, rule="abstain", instead_of=instead_of) | told
    return LabelResult("NONE", round(confidence, 3), evidence, decided=False)
