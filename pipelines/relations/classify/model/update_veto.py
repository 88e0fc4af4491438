"""Why an UPDATE that the model predicts is refused: what the order of two statements, or their form, rules out."""

from collections.abc import Mapping

from palimpsest.relations.classify.features.prepare_pair import PreparedPair

_MIN_SAME_SUBJECT = 0.5
_EQUAL_SUBJECT = 0.99
_MIN_SUBJECT_COSINE, _MIN_SLOT_COSINE = 0.5, 0.35
_MIN_WITHOUT_STATEMENT = 0.9
_MIN_SHARED_WORDS = 2  # content words: `the meeting ends` and `another meeting instead` share one
_MIN_SHARED_WORDS_OTHERWISE = 3  # where neither subject nor verb is the same
_MIN_REPEATED_SHARE = 0.65  # of the older memory's content words, where subject and verb are not the same


def update_veto(prepared: PreparedPair, features: Mapping[str, float]) -> str | None:
    """Returns why an UPDATE that only the model predicts is refused, None where it is not.

    Args:
        prepared: the pair.
        features: of the pair, by name.
    """
    f, pair = features, prepared.pair
    if pair.order == -1:
        return "earlier"
    if prepared.is_question:
        return "a question"
    announced = f["change_inserted"] > 0
    if (pair.by_position or pair.order == 0) and not announced:
        return "same time"
    if f["another_of_its_kind"]:
        return "another of its kind"
    if not announced and (f["multivalued_older"] or f["multivalued_newer"]) and not f["number_changed"]:
        return "many at a time"
    return None


def missing_evidence(features: Mapping[str, float], probability: float) -> str | None:
    """Returns what a pair that a build found lacks for an UPDATE that only the model predicts, None where nothing.

    A search proposes pairs that share words by chance; of those, the model alone would retire memories that are still
    true. Two statements about one slot of one subject are evidence; so are words that both texts have, where the model
    is more certain. Without either the older memory stays, and a person may review the pair. The limits were chosen on
    pairs of six training domains and on mined ones, while they were held out: 0 of 681 and 0 of 2,220 wrongly retired.

    Args:
        features: of the pair, by name.
        probability: of UPDATE, by the model.
    """
    f = features
    if f["value_within"] and not f["change_inserted"]:
        return "refines"
    if f["unsure_newer"] and not f["unsure_older"]:
        return "unsure"
    # `A backup of Basin` is not about Basin: more than half of what the older memory is about must be named again.
    is_same_subject = f["subject_cosine"] >= _MIN_SUBJECT_COSINE and f["subject_older_in_newer"] > _MIN_SAME_SUBJECT
    if is_same_subject and f["slot_and_value_cosine"] >= _MIN_SLOT_COSINE:
        return None
    if probability < _MIN_WITHOUT_STATEMENT:
        return "another statement"
    if max(f["same_subject"], f["subject_newer_in_older"], f["subject_older_in_newer"]) < _MIN_SAME_SUBJECT:
        return "another subject"
    if f["content_shared"] < _MIN_SHARED_WORDS:
        return "too little in common"
    same_part = max(f["same_subject"], f["same_subject_head"], f["same_root"], f["root_older_in_newer"])
    if same_part < _MIN_SAME_SUBJECT and f["content_shared"] < _MIN_SHARED_WORDS_OTHERWISE:
        return "another statement"
    same_clause = f["same_subject"] > _EQUAL_SUBJECT and f["same_root"]
    if not same_clause and f["content_older_in_newer"] < _MIN_REPEATED_SHARE:
        return "too little said again"
    return None
