"""The offline labeler: rules first, then a small trained model; UPDATE only on positive evidence.

No network, no state. Where it is not certain, or the pair is unlike all training pairs, it abstains; an abstention is
NONE and never retires anything.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from palimpsest.core.code import code_hash
from palimpsest.core.ids import content_id
from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.core.progress import progress
from palimpsest.relations.classify.encoder.pair_encoder import pair_encoder
from palimpsest.relations.classify.features.prepare_pair import (
    PreparedBatch,
    PreparedPair,
    compute_features,
    prepare_pairs,
)
from palimpsest.relations.classify.label_types import LabelPair, LabelResult
from palimpsest.relations.classify.model.relation_model import CLASSES, EXTEND, NONE, UPDATE, RelationModel
from palimpsest.relations.classify.model.update_veto import missing_evidence, update_veto

MIN_CANDIDATE_UPDATE = 0.8
"""Probability of an UPDATE that only the model sees, of a pair that a build found; see `missing_evidence`."""
MIN_SHARED_WORDS = 1 / 3
"""Of the content words of the shorter text, for the model to see a pair that a build found."""
MIN_BOTH_VALID = 0.8
"""From this probability of UPDATE or EXTEND together, a pair that may be UPDATE is EXTEND."""
MIN_PROBABILITY = 0.4
"""A label that is not UPDATE is given from this probability on."""
MIN_REPLACED_SHARE = 0.3
"""Of the older memory's characters must be replaced for an UPDATE: the rest is retired with it."""
MIN_STATIC = math.log(0.5)
"""Of the pair encoder's log probability, for a NONE to be reported as a contradiction."""
_CODE = (
    "palimpsest.relations.classify.features.prepare_pair",
    "palimpsest.relations.classify.offline_labeler",
    "palimpsest.relations.classify.model.relation_model",
)
_MIN_RULE_SUPPORT = 0.05  # an UPDATE by rule to which the model gives less is not given


def labeler_code() -> str:
    """Returns the hash of all the code that decides about the labels of the offline labeler."""
    return code_hash(_CODE)


class OfflineLabeler:
    """Rules over sentences and, with a model, a trained classifier over parsed pairs."""

    name = "offline"
    reads_together = False

    def __init__(self, model: RelationModel | None = None, none_odds: float = 1.0):
        """Makes a labeler.

        Args:
            model: the trained part; without it the rules decide alone.
            none_odds: factor on the odds of NONE, for pairs that are chosen otherwise than the training pairs.
        """
        self.model = model
        self.none_odds = none_odds
        self.program_hash = content_id("offline", labeler_code(), model.key if model else "rules", str(none_odds))

    def label(self, pairs: list[LabelPair]) -> list[LabelResult]:
        """Returns one result for each pair, in order; a text is parsed once where its pairs are next to each other."""
        with progress("label", len(pairs), "pairs") as advance:
            return self.label_prepared(self.prepare(pairs, advance))

    def prepare(self, pairs: list[LabelPair], advance: Callable[[int], None]) -> PreparedBatch:
        """Applies the rules, and computes the features of the pairs that the model sees.

        Args:
            pairs: to label; those with one newer text are best next to each other.
            advance: is called with the number of pairs that are done; those that the model sees take far longer.
        """
        prepared, rows = list[PreparedPair](), list[int]()
        for part in prepare_pairs(pairs):
            of_model = [i for i, pair in enumerate(part, len(prepared)) if self._is_for_model(pair)]
            prepared += part
            rows += of_model
            advance(len(part) - len(of_model))
        encode = partial(pair_encoder().predict, advance=advance)
        return PreparedBatch(prepared, rows, compute_features([prepared[i] for i in rows], encode))

    def _is_for_model(self, pair: PreparedPair) -> bool:
        """Returns whether the model sees a pair: parsing and reading it together cost most of a build.

        Where NONE is far likelier, a pair with little in common is not worth it.
        """
        min_shared = MIN_SHARED_WORDS if self.none_odds > 1 else 0.0
        return self.model is not None and not _is_repetition(pair) and pair.shared >= min_shared

    def label_prepared(self, batch: PreparedBatch, held_out: np.ndarray | None = None) -> list[LabelResult]:
        """Returns one result for each pair of `prepare`, in order.

        Args:
            batch: the pairs.
            held_out: probabilities that take the place of the model's, shape (len(batch.model_rows), 4).
        """
        results = [_result_of_rules(p) for p in batch.pairs]
        if self.model is None or not batch.model_rows:
            return results
        table = batch.features
        predicted = self.model.predict(table.rows, table.words) if held_out is None else held_out
        probabilities = np.round(predicted, 4)
        novelty = np.round(self.model.novelty(table.rows), 3)
        for i, p, n, f in zip(batch.model_rows, probabilities, novelty, table.named_rows(), strict=True):
            result = self._combine(self.model, batch.pairs[i], p, float(n), f)
            results[i] = replace(result, conflict=_conflict(result.label, f))
        return results

    def _combine(
        self, model: RelationModel, pair: PreparedPair, p: np.ndarray, novelty: float, features: Mapping[str, float]
    ) -> LabelResult:
        """Returns the result of rules and model together; `p` are the probabilities of CLASSES."""
        found: JsonObject = {"p": {c: round(float(v), 3) for c, v in zip(CLASSES, p, strict=True)}, "unlike": novelty}
        is_novel = novelty > 1.0
        if pair.verdict.label == "UPDATE":
            return _confirm_update(pair, float(p[UPDATE]), is_novel, features, found)
        if is_novel:
            return _result_of_rules(pair, found)
        is_dated = pair.pair.order is not None
        threshold = model.update_threshold if is_dated else model.undated_update_threshold
        if self.none_odds > 1:
            threshold = max(threshold, MIN_CANDIDATE_UPDATE)
        if p[UPDATE] >= threshold:
            veto = update_veto(pair, features)
            if veto is None and self.none_odds > 1:
                veto = missing_evidence(features, float(p[UPDATE]))
            if veto is None:
                return _update_of_model(pair, float(p[UPDATE]), found)
            found["veto"] = veto
        return self._without_update(pair, p, threshold, found)

    def _without_update(self, pair: PreparedPair, raw: np.ndarray, threshold: float, found: JsonObject) -> LabelResult:
        """Returns the result for a pair that is not UPDATE, after the odds of NONE are applied."""
        rest = raw.copy()
        rest[NONE] *= self.none_odds
        rest /= rest.sum()
        p = np.round(rest, 4)
        if raw.argmax() == UPDATE and raw[UPDATE] < threshold and float(rest[UPDATE] + rest[EXTEND]) >= MIN_BOTH_VALID:
            # It replaces the older one or adds to it: until that is known both stay, and a person may review it.
            return LabelResult("EXTEND", float(p[EXTEND]), pair.evidence(rule="model", instead_of="UPDATE") | found)
        rest[UPDATE] = -1
        best = int(rest.argmax())
        label, probability = CLASSES[best], float(p[best])
        if probability < MIN_PROBABILITY:
            return _abstain(pair, CLASSES[int(p.argmax())], 1 - float(p.max()), found)
        if label != "NONE":
            return LabelResult(label, probability, pair.evidence(rule="model") | found)
        if raw.argmax() == UPDATE:
            return _abstain(pair, "UPDATE", probability, found)
        return LabelResult("NONE", probability, {"rule": "model"} | found)


def _conflict(label: str, features: Mapping[str, float]) -> str:
    """Returns the conflict that the pair encoder reads, where it agrees with the label."""
    if label == "EXTEND" and features["meaning_conditional"] > features["meaning_extend"]:
        return "conditional"
    if label == "NONE" and features["meaning_static"] >= MIN_STATIC:
        return "static"
    return ""


def _is_repetition(pair: PreparedPair) -> bool:
    return pair.verdict.evidence.get("rule") in ("same text", "same value")


def _result_of_rules(pair: PreparedPair, found: Mapping[str, JsonValue] | None = None) -> LabelResult:
    label, confidence, evidence = pair.verdict
    return LabelResult(label, confidence, {**evidence, **(found or {})}, decided=evidence.get("rule") != "abstain")


def _confirm_update(
    pair: PreparedPair, probability: float, is_novel: bool, features: Mapping[str, float], found: JsonObject
) -> LabelResult:
    """Returns the UPDATE of the rules unless the model contradicts it."""
    if features["another_of_its_kind"]:
        return _abstain(pair, "UPDATE", 1 - probability, found | {"veto": "another of its kind"})
    if probability < _MIN_RULE_SUPPORT and not is_novel:
        return _abstain(pair, "UPDATE", 1 - probability, found)
    return LabelResult("UPDATE", max(pair.verdict.confidence, probability), pair.verdict.evidence | found)


def _update_of_model(pair: PreparedPair, probability: float, found: JsonObject) -> LabelResult:
    """Returns UPDATE, or EXTEND where the older memory states more than what is replaced."""
    if pair.share_of_older < MIN_REPLACED_SHARE or pair.loses_statements:
        return LabelResult("EXTEND", probability, pair.evidence(rule="model", partial_update=True) | found)
    return LabelResult("UPDATE", probability, pair.evidence(rule="model") | found)


def _abstain(pair: PreparedPair, instead_of: str, confidence: float, found: JsonObject) -> LabelResult:
    evidence = pair.evidence(rule="abstain", instead_of=instead_of) | found
    return LabelResult("NONE", round(confidence, 3), evidence, decided=False)
