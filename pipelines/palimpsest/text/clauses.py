"""Clauses of a text with exact offsets: the parts of which one can be outdated while the others still hold."""

import re
from collections.abc import Sequence
from itertools import pairwise

from palimpsest.text.sentences import memory_sentence_spans

MIN_CLAUSE_CHARS = 8
"""A shorter piece belongs to the clause before it."""
_BOUNDARY = re.compile(
    r";(?=\s)\s*|,\s+(?=\S)|\s[\u2013\u2014-]\s|\s+(?=(?:and|but|so|while|because|though|although|plus)\s)",
    re.IGNORECASE,
)


def clause_spans(text: str) -> list[tuple[int, int]]:
    """Returns (start, end) of the clauses of a text, in order; together they cover its sentences.

    A clause ends where a sentence, a part between commas, semicolons or dashes ends, and before a conjunction. A label
    before a colon, as in `Owner: Maria`, belongs to what it labels.
    """
    spans: list[tuple[int, int]] = []
    for start, end in memory_sentence_spans(text):
        ends = [m.end() for m in _BOUNDARY.finditer(text, start, end) if m.end() < end]
        for at, until in pairwise([start, *ends, end]):
            is_short = until - at < MIN_CLAUSE_CHARS
            if is_short and spans and spans[-1][1] == at:
                spans[-1] = (spans[-1][0], until)
            elif until > at:
                spans.append((at, until))
    return spans


def merge_spans(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns spans in order, those that touch or overlap as one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def covers(text: str, spans: Sequence[tuple[int, int]]) -> bool:
    """Returns whether nothing but marks and white space of a text is outside of the spans."""
    outside, at = [], 0
    for start, end in merge_spans(spans):
        outside.append(text[at:start])
        at = end
    rest = "".join([*outside, text[at:]])
    return not any(c.isalnum() for c in rest)
