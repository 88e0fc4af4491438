"""Which part of an older statement a newer one ends: whole clauses, by the words that the encoder reads as outdated."""

from collections.abc import Sequence
from typing import TypeAlias

from palimpsest.text.clauses import clause_spans, covers, merge_spans
from palimpsest.text.parse import parse_texts

MIN_OUTDATED = 0.6
"""Mean probability of a clause's words from which it is outdated."""

_FINITE = frozenset({"VBD", "VBP", "VBZ", "MD"})

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
    clauses = clause_spans(text)
    means = [_mean(clause, words) for clause in clauses]
    known = [m for m in means if m is not None]
    if len(clauses) < 2 or not known:
        return ()
    least = min(MIN_OUTDATED, max(known))
    ended = [clause for clause, mean in zip(clauses, means, strict=True) if mean is not None and mean >= least]
    part = merge_spans(ended)
    if covers(text, part) or _has_all_verbs(text, part):
        return ()
    return tuple(part)


def _has_all_verbs(text: str, part: Sequence[Span]) -> bool:
    """Returns whether there are finite verbs in a part of a text, and none outside."""
    inside = " ".join(text[start:end] for start, end in part)
    edges = [0, *(at for span in part for at in span), len(text)]
    outside = " ".join(text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))
    of_part, of_rest = parse_texts([inside, outside])
    return not _FINITE.isdisjoint(of_part.tags) and _FINITE.isdisjoint(of_rest.tags)


def _mean(clause: Span, words: Words) -> float | None:
    inside = [p for (start, end), p in words if start < clause[1] and end > clause[0]]
    return sum(inside) / len(inside) if inside else None
