"""Which part of an older statement a newer one ends: whole clauses, by the words that the encoder reads as outdated."""

import re
from collections.abc import Sequence
from typing import TypeAlias

from scipy.special import expit, logit

from palimpsest.text.clauses import clause_spans, merge_spans
from palimpsest.text.parse import parse_texts
from palimpsest.text.sentences import memory_sentence_spans

MIN_OUTDATED = 0.6
"""Mean probability of a clause's words from which it is outdated."""
MIN_DEPENDENT = 0.4
"""The same for a clause that states nothing alone, where another one of its sentence is outdated."""

OF_LIKELIEST, MARGIN = 0.85, 0.3
"""A clause also is outdated from this share of the likeliest clause's log odds on, less the margin."""
MAX_LEFT = 2
"""A rest of no more words states nothing: `[…] and eleven.`"""

_WORD = re.compile(r"[^\W\d_]+")
_FINITE = frozenset({"VBD", "VBP", "VBZ", "MD"})
_SUBJECTS = frozenset({"nsubj", "nsubjpass", "expl", "csubj"})

Span: TypeAlias = tuple[int, int]
Words: TypeAlias = Sequence[tuple[Span, float]]
"""(start, end) of the words of a text, and the probability that each is outdated."""


def outdated_part(text: str, words: Words) -> tuple[Span, ...]:
    """Returns the spans of the clauses that are outdated; none where that is all of the text.

    The likeliest clause is outdated where none is likely enough: that something ends is decided already. All of the
    text is outdated with the only verb in it: `third floor, no lift` states nothing without `We rent a flat`.

    Args:
        text: of the older statement.
        words: of it, as `ChangeReading` has them.
    """
    clauses = [(clause, mean) for clause in clause_spans(text) if (mean := _mean(clause, words)) is not None]
    if len(clauses) < 2:
        return ()
    likeliest = max(mean for _, mean in clauses)
    least = min(MIN_OUTDATED, likeliest, float(expit(OF_LIKELIEST * logit(likeliest) - MARGIN)))
    ended = [clause for clause, mean in clauses if mean >= least]
    sentences = [s for s in memory_sentence_spans(text) if any(_overlap(s, clause) for clause in ended)]
    beside = [c for c, mean in clauses if mean >= MIN_DEPENDENT and any(_overlap(s, c) for s in sentences)]
    part = merge_spans([*ended, *_without_statement(text, beside)])
    edges = [0, *(at for span in part for at in span), len(text)]
    rest = " ".join(text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))
    if len(_WORD.findall(rest)) <= MAX_LEFT or _has_all_verbs(text, part, rest):
        return ()
    return tuple(part)


def _without_statement(text: str, clauses: Sequence[Span]) -> list[Span]:
    """Returns the clauses that have no finite verb with a subject."""
    parses = parse_texts([text[start:end] for start, end in clauses])
    return [
        clause
        for clause, parse in zip(clauses, parses, strict=True)
        if _FINITE.isdisjoint(parse.tags) or _SUBJECTS.isdisjoint(parse.deps)
    ]


def _has_all_verbs(text: str, part: Sequence[Span], rest: str) -> bool:
    """Returns whether there are finite verbs in a part of a text, and none in the rest."""
    of_part, of_rest = parse_texts([" ".join(text[start:end] for start, end in part), rest])
    return not _FINITE.isdisjoint(of_part.tags) and _FINITE.isdisjoint(of_rest.tags)


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _mean(clause: Span, words: Words) -> float | None:
    inside = [p for span, p in words if _overlap(span, clause)]
    return sum(inside) / len(inside) if inside else None
