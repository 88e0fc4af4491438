"""What an UPDATE needs beside a probability: positive evidence in the pair itself."""

from collections.abc import Mapping
from typing import Any

_SAME = 0.99
_COMMON = 2  # content words: `the meeting ends` and `another meeting instead` share one
_MUCH = 3  # where neither subject nor verb is the same
_SAID_AGAIN = 0.65  # of the older's content words, where subject and verb are not the same


def veto(order: int | None, by_place: bool, asks: bool, f: Mapping[str, Any]) -> str:
    """Says why an UPDATE that only the model sees may not be one, or nothing.

    Args:
        order: 1 where the newer is known to be later, 0 for the same time, -1 for earlier, None where a date lacks.
        by_place: only their places in one document tell which is newer.
        asks: what the newer has to do with in the older is a question.
        f: the pair's features.
    """
    if order == -1:
        return "earlier"
    if asks:
        return "a question"
    announced = f["change_inserted"] > 0
    if (by_place or order == 0) and not announced:
        return "same time"
    if f["value_within"] and not announced:
        return "refines"
    if f["unsure_newer"] and not f["unsure_older"]:
        return "unsure"
    if not announced and (f["many_held_older"] or f["many_held_newer"]) and not f["number_changed"]:
        return "many at a time"
    if f["another_of_its_kind"]:
        return "another of its kind"
    if max(f["same_subject"], f["subject_newer_in_older"], f["subject_older_in_newer"]) < 0.5:
        return "another subject"
    if f["content_shared"] < _COMMON:
        return "too little in common"
    one_place = max(f["same_subject"], f["same_subject_head"], f["same_root"], f["root_older_in_newer"])
    if one_place < 0.5 and f["content_shared"] < _MUCH:
        return "another statement"
    one_frame = f["same_subject"] > _SAME and f["same_root"]
    if not one_frame and f["content_older_in_newer"] < _SAID_AGAIN:
        return "too little said again"
    return ""
