"""Acronyms that a text explains: `Long Form (LF)`, `LF, short for Long Form`. A long form must spell its acronym."""

import re
from collections.abc import Iterator

from palimpsest.entities.names.find_names import MAX_NAME_CHARS, MentionCandidate, entity_key

# A capital, and another one after which no `&` comes: no text matches in two ways, so that none is read twice.
_SHORT = r"[A-Z](?:[A-Za-z]*+&)*+[a-z]*+[A-Z][A-Za-z]*"
_EXPLAINED = re.compile(
    r"(?:(?<!\s)\s*+\(|,\s*+(?:or|abbreviated(?:\s++as)?|in\s++short)(?=\s))\s*+(?:the\s++|or\s++|short(?:\s++form)?:?\s++)?"
    rf"({_SHORT}?)s?(?=\s*+[),;.]|\s++for\s++short)"
)
# Where an acronym explains nothing, its letters are passed over, and group 1 is empty.
_EXPLAINS = re.compile(
    rf"\b(?:({_SHORT})s?(?:\s*+(?:\(|(?:,\s*+)?(?:which\s++|that\s++)?(?:(?:is|are|was)\s++)?(?:an?\s++|the\s++)?"
    r"(?:short\s++for|abbreviation\s++(?:of|for)|acronym\s++(?:of|for)|stands?\s++for|means))|\s++(?:is|are)|\s*+[=:])"
    r"\s*+(?:the\s++|an?\s++)?[\"“‘']?|[A-Z][A-Za-z&]*+)"  # noqa: RUF001
)
_WORD = re.compile(r"[^\W_]+")
_LINKS = re.compile(r"of|the|de|del|la|le|for|and|in|on|to|with|a|an|at|by|y|et|und", re.IGNORECASE)
_STOP = re.compile(r"[.;:!?()\n,]")


def find_acronyms(text: str) -> Iterator[MentionCandidate]:
    """Yields two candidates for each acronym that a text explains: the long form, and the acronym that refers to it."""
    for m in _EXPLAINED.finditer(text):
        first = _spelled_before(text, m.start(), m.group(1))
        if (first := _letters_before(text, m.start(), m.group(1)) if first is None else first) is not None:
            long = text[first : m.start()].rstrip()
            yield from _long_and_short(text, (first, first + len(long)), m.span(1), "long form")
    for m in _EXPLAINS.finditer(text):
        if m.group(1) and (end := _spelled_after(text, m.end(), m.group(1))) is not None:
            yield from _long_and_short(text, (m.end(), end), m.span(1), "long form")


def _long_and_short(text: str, long: tuple[int, int], short: tuple[int, int], why: str) -> Iterator[MentionCandidate]:
    name, letters = text[slice(*long)], text[slice(*short)]
    key = entity_key(name)
    if key and len(name) <= MAX_NAME_CHARS:
        yield MentionCandidate(name, key, "name", False, "", None, None, *long)
        yield MentionCandidate(letters, entity_key(letters), "stated", False, "", key, why, *short)


def _letters(short: str) -> list[str]:
    return [c.casefold() for c in short if c.isalpha()]


def _word_initials(words: list[re.Match[str]]) -> list[str]:
    return [w.group()[0].casefold() for w in words if not _LINKS.fullmatch(w.group())]


def _spelled_before(text: str, before: int, short: str) -> int | None:
    """Returns where the long form starts that ends at `before`; in small letters the acronym needs three."""
    letters = _letters(short)
    words = list(_WORD.finditer(text, max(0, before - 120), before))[-2 * len(letters) :]
    for first in range(len(words) - 1, -1, -1):
        if _word_initials(words[first:]) == letters and _may_start_long_form(words[first], letters):
            return words[first].start()
    return None


def _letters_before(text: str, before: int, short: str) -> int | None:
    """Returns where a long form starts that contains the acronym's letters in order, half of which begin a word.

    The search of Schwartz and Hearst 2003, from the right, where first letters alone do not spell it.
    """
    stops = [m.end() for m in _STOP.finditer(text, max(0, before - 120), before)]
    words = list(_WORD.finditer(text, max(stops, default=max(0, before - 120)), before))[-2 * len(short) :]
    letters, at, initials = _letters(short), before, 0
    if not words or len(letters) < 3 or len(letters) != len(short):
        return None
    for n, letter in reversed(list(enumerate(letters))):
        at -= 1
        while at >= words[0].start() and (text[at].casefold() != letter or (n == 0 and text[at - 1 : at].isalnum())):
            at -= 1
        if at < words[0].start():
            return None
        initials += not text[at - 1 : at].isalnum()
    return at if 2 * initials >= len(letters) and short.casefold() not in text[at:before].casefold() else None


def _spelled_after(text: str, at: int, short: str) -> int | None:
    """Returns where the long form ends that starts at `at`."""
    letters = _letters(short)
    stop = _STOP.search(text, at, at + 120)
    words = list(_WORD.finditer(text, at, stop.start() if stop else min(len(text), at + 120)))[: 2 * len(letters)]
    for last in range(1, len(words) + 1):
        if _word_initials(words[:last]) == letters and not _LINKS.fullmatch(words[last - 1].group()):
            return words[last - 1].end() if _may_start_long_form(words[0], letters) and words[0].start() == at else None
    return None


def _may_start_long_form(first: re.Match[str], letters: list[str]) -> bool:
    word = first.group()
    if _LINKS.fullmatch(word):
        return False
    return len(letters) > 1 and (word[0].isupper() or len(letters) > 2)
