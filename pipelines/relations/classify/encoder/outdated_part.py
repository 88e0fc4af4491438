"""Which part of an older statement a newer one ends: whole clauses, by the words that the encoder reads as outdated."""

import re
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from scipy.special import logit

from palimpsest.text.clauses import clause_spans, merge_spans
from palimpsest.text.parse import parse_texts

MIN_OUTDATED = 0.6
"""Mean probability of a clause's words from which it is outdated."""
OF_LIKELIEST, MARGIN = 0.85, 0.3
"""It also is from this share of the likeliest clause's log odds on, less the margin: some texts have low ones.

Chosen on held-out worlds: .13 instead of .18 of the changes keep what ended.
"""
MAX_LEFT = 2
"""A rest of no more words states nothing: `[…] and eleven.`"""
_FINITE = frozenset({"VBD", "VBP", "VBZ", "MD"})
_ALMOST = 1e-3
_WORD = re.compile(r"[^\W\d_]+")

Span: TypeAlias = tuple[int, int]
Words: TypeAlias = Sequence[tuple[Span, float]]
"""(start, end) of the words of a text, and the probability that each is outdated."""


def outdated_part(text: str, words: Words) -> tuple[Span, ...]:
    """Returns the spans of the clauses that are outdated; none where that is all of the text.

    The likeliest clause always is: that something ends is decided already. All of the text is outdated with the only
    verb in it: `third floor, no lift` states nothing without `We rent a flat`.

    Args:
        text: of the older statement.
        words: of it, as `ChangeReading` has them.
    """
    clauses = [(clause, mean) for clause in clause_spans(text) if (mean := _mean(clause, words)) is not None]
    if len(clauses) < 2:
        return ()
    odds = logit(np.clip([mean for _, mean in clauses], _ALMOST, 1 - _ALMOST))
    is_outdated = (odds >= min(logit(MIN_OUTDATED), OF_LIKELIEST * odds.max() - MARGIN)) | (odds == odds.max())
    part = merge_spans([clause for (clause, _), ended in zip(clauses, is_outdated, strict=True) if ended])
    edges = [0, *(at for span in part for at in span), len(text)]
    rest = " ".join(text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))
    return tuple(part) if len(_WORD.findall(rest)) > MAX_LEFT and _states(rest, text) else ()


def _states(rest: str, text: str) -> bool:
    """Returns whether the rest of a text has a finite verb, or the text has none."""
    of_rest, of_text = parse_texts([rest, text])
    return not _FINITE.isdisjoint(of_rest.tags) or _FINITE.isdisjoint(of_text.tags)


def _mean(clause: Span, words: Words) -> float | None:
    inside = [p for span, p in words if span[0] < clause[1] and clause[0] < span[1]]
    return sum(inside) / len(inside) if inside else None
