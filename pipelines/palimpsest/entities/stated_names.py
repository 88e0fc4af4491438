"""Finds what a text itself says about names: that two of them are one, or who has an office.

Each statement is inside one sentence, between names that are already found; nothing is guessed.
"""

import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from palimpsest.entities.find_names import CODE, MAX_NAME_CHARS, MentionCandidate, entity_key

# Acronyms that a text explains: `Long Form (LF)`, `LF, short for Long Form`. A long form must spell its acronym.

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


_QUOTE = r"[\"“”'‘’]?"  # noqa: RUF001
_THE = rf"(?:the\s++|an?\s++)?{_QUOTE}"
_OFTEN = (
    r"(?:also|often|sometimes|usually|commonly|better|formerly|previously|originally|once|now|simply|otherwise|generally|"
    r"internally|currently|locally|affectionately)"
)
# The whole text between two names that are one. A name that others call a person by needs `_CALLS`.
_BETWEEN = tuple(
    (why, re.compile(pattern, re.IGNORECASE))
    for why, pattern in (
        (
            "short for",
            rf"{_QUOTE},?\s*+\(?(?:is|was|are|being)?\s*+(?:an?\s++|the\s++)?(?:short(?:\s++form)?|shorthand|"
            rf"abbreviation|acronym|nickname|diminutive)\s++(?:for|of)\s++{_THE}",
        ),
        ("stands for", rf"{_QUOTE}\s++(?:stands|stood)\s++for\s++{_THE}"),
        (
            "also called",
            rf"{_QUOTE},?\s*+\(?\s*+(?:who\s++|which\s++)?(?:(?:is|was|are|were)\s++{_OFTEN}?|{_OFTEN})\s*+"
            rf"(?:called|known\s++as|referred\s++to\s++as|nicknamed|dubbed|code-?named)\s++{_THE}",
        ),
        (
            "also called",
            rf"{_QUOTE},?\s*+\(?\s*+(?:known\s++as|nicknamed|dubbed|code-?named|alias|aka|a\.k\.a\.)\s++"
            rf"{_THE}",
        ),
        (
            "formerly",
            rf"{_QUOTE}(?:,|\s*+\()\s*+(?:formerly|previously|originally|née|nee|né)\s++"
            rf"(?:called\s++|known\s++as\s++|named\s++)?{_THE}",
        ),
        ("formerly", rf"{_QUOTE}\s*+\(\s*+(?:now|born|or|today|until\s++\d{{4}}|since\s++\d{{4}})\s++{_THE}"),
        (
            "goes by",
            rf"{_QUOTE},?\s++(?:who\s++)?(?:(?:now|also|usually|still)\s++)?(?:goes|went|go)\s++(?:now\s++)?by\s++"
            rf"(?:(?:the|her|his)\s++(?:[\w-]+\s++)?name\s++(?:of\s++)?)?{_THE}",
        ),
        (
            "renamed",
            rf"{_QUOTE},?\s++(?:(?:was|is|has\s++been|will\s++be|gets|got|being)\s++)?(?:renamed|rebranded)"
            rf"(?:\s++(?:to|as|into))?\s++{_THE}",
        ),
        (
            "renamed",
            rf"{_QUOTE}\s++(?:has\s++|have\s++)?(?:changed|changes)\s++(?:his|her|its|their|the)\s++(?:[\w-]+\s++)?"
            rf"name\s++to\s++{_THE}",
        ),
        (
            "renamed",
            rf"{_QUOTE}(?:'s|’s)?\s++(?:new|old|former|real|full|official|code|maiden|married|nick)[\s-]?name\s++"  # noqa: RUF001
            rf"(?:is|was|will\s++be)\s++{_THE}",
        ),
        (
            "another name",
            rf"{_QUOTE},?\s++(?:is\s++)?(?:another|the\s++(?:new|old|former|full|official|other))\s++name\s++"
            rf"(?:for|of)\s++{_THE}",
        ),
    )
)
_FIRST_IS_ALIAS = ("short for", "stands for", "another name")
_LOOSE = ("also called", "formerly")
_PART = re.compile(r"\b(?:of|in|near|at|from|by|on|for)\s++(?:the\s++)?[\"“‘']?$", re.IGNORECASE)  # noqa: RUF001
_BORN = re.compile(r"\b(?:née|nee|né|born)\b", re.IGNORECASE)
_HINT = re.compile(
    r"short|stand|stood|abbrev|acronym|nick|diminutive|call|known|refer|dubbed|code|alias|a\.?k\.?a|former|previous|"
    r"original|answer|prefer|n[eé]e?\b|now|born|\(|go|went|nam|brand|sign|writes|is\b|bec|has\b|as\b|to\b|into\b",
    re.IGNORECASE,
)
_RENAMING = re.compile(r"\b(?:renam|rebrand)\w+\s++(?:the\s++)?[\"“‘']?$", re.IGNORECASE)  # noqa: RUF001
_INTO = re.compile(rf"{_QUOTE}\s++(?:to|as|into)\s++{_THE}", re.IGNORECASE)
_CALLS = re.compile(
    r"[^.!?\n]{0,90}?\b(?:everyone|everybody|people|we|they|you|friends|colleagues|some|most|(?:his|her|their|our|the|my)"
    r"\s++[\w-]+)(?:\s++(?:here|all|just|also|simply|still|often|now))*\s++(?:calls?|called)\s++(?:him|her|it|them|this|that)"
    rf"\s++{_THE}",
    re.IGNORECASE,
)
_MYSELF = re.compile(r"\b(?:calls?|called)\s++me\s++[\"“‘']?$|\bI\s++(?:now\s++|also\s++)?go\s++by\s++[\"“‘']?$")  # noqa: RUF001
_NUMBER = re.compile(
    rf"[^.!?\n]{{0,60}}?\b(?:model|type|code|project|working)\s*+(?:number|name|no\.?|designation)\s*+(?:is|was|of|:)?\s*+{_THE}"
    r"|[^.!?\n]{0,60}?\b(?:sold|marketed|listed|shipped)\s++(?:under|as)\s++(?:the\s++(?:name|number|label|brand)\s++(?:of\s++)?)?"
    rf"{_QUOTE}",
    re.IGNORECASE,
)
_IS = re.compile(
    r"(?:\s++(?:has\s++|got\s++|is\s++)?(?:re)?married(?:\s++and|,)?(?:\s++\w+){0,2}?)?\s++(?:now\s++)?(?:is(?:\s++now)?|became|has\s++become|"
    r"(?:signs|writes|publishes)(?:\s++(?:her|his|their)\s++[a-z-]+)?\s++as)\s++(?:now\s++)?",
    re.IGNORECASE,
)
_ANSWERS = re.compile(r"[^.!?;\n]{0,60}\b(?:answers?\s++to|signs?\s++(?:as|with)|prefers)\s++[\"“‘']?")  # noqa: RUF001
_BRACKET = re.compile(r"\s++\(\s*+")

_OF = r"(?:[A-Z][\w&-]*(?:\s++(?:of\s++|for\s++|the\s++)*[A-Z][\w&-]*)*|[a-z-]{3,}(?!\s++[A-Z]))"
_OFFICE = re.compile(
    r"\b(?:(?:deputy\s++|vice\s++|acting\s++)?(?:head|director|chief|manager|lead|leader|president|chair(?:man|woman|person)?|"
    r"mayor|minister|secretary|dean|treasurer|editor)\s++(?:of|for)\s++(?!both|all|any|each|one|his|her|its|their|this)"
    rf"(?:the\s++)?{_OF}|(?:managing|technical|executive)\s++director)\b"
)
_AFTER_HOLDER = re.compile(
    r"(?:,\s*+(?:who\s++(?:is|was)\s++)?|\s++\(|\s++(?:is|was|became|becomes|has\s++been|as|will\s++be)\s++)(?:now\s++|still\s++)?"
    r"(?:the\s++|our\s++|their\s++|its\s++|your\s++|my\s++|a\s++)?(?:new\s++|former\s++|old\s++)?",
    re.IGNORECASE,
)
_CHARS_BEFORE_OFFICE, _CHARS_AFTER_OFFICE = 30, 8  # between an office and its holder
_SENTENCE_END = re.compile(r"[.!?]\s++|\n")
_BEFORE_HOLDER = re.compile(r"(?:,|:|\s++is(?:\s++now)?|\s++was)\s++", re.IGNORECASE)


def find_stated_names(
    text: str, names: list[MentionCandidate], speaker: str | None = None
) -> Iterator[MentionCandidate]:
    """Yields a `stated` candidate for each pair of names that the text says are one, and `role` candidates for offices.

    Args:
        text: the memory's text.
        names: what `find_names` found in it.
        speaker: of the text, for `call me B`.
    """
    yield from find_acronyms(text)
    if speaker:
        for b in names:
            if _MYSELF.search(text, max(0, b.char_start - 24), b.char_start):
                yield b._replace(kind="stated", initial=False, same_as=entity_key(speaker), why="called")
    subjects = _sentence_subjects(text, names)
    for (a, b), first in zip(itertools.pairwise(names), subjects, strict=True):
        gap = text[a.char_end : b.char_start]
        if b.char_start < a.char_end or not _HINT.search(gap):
            continue
        if len(gap) <= 60 and (why := _statement_between(text, a, b, gap)):
            yield _stated_candidate(a, b, why) if why in _FIRST_IS_ALIAS else _stated_candidate(b, a, why)
        elif first is not None:
            between = text[first.char_end : b.char_start]
            if _CALLS.fullmatch(between):
                yield _stated_candidate(b, first, "called")
            elif _NUMBER.fullmatch(between):
                yield _stated_candidate(b, first, "sold as")
    yield from _offices(text, names)


def _statement_between(text: str, a: MentionCandidate, b: MentionCandidate, gap: str) -> str | None:
    for why, pattern in _BETWEEN:
        if pattern.fullmatch(gap):
            # `a book by Vale, also called Tides`: the book is called so
            part = why in _LOOSE and _PART.search(text, max(0, a.char_start - 24), a.char_start)
            surname = " " in a.key and " " not in b.key and _BORN.search(gap)
            return None if part or surname else why
    if _INTO.fullmatch(gap) and _RENAMING.search(text, max(0, a.char_start - 24), a.char_start):
        return "renamed"
    if _BRACKET.fullmatch(gap) and b.kind == "code" and text[b.char_end : b.char_end + 1] == ")":
        return "in brackets"
    a_words, b_words = a.key.split(), b.key.split()
    if len(b_words) == 1 and len(b.key) > 2 and a_words[0].startswith(b.key) and _ANSWERS.fullmatch(gap):
        return "goes by"
    if _IS.fullmatch(gap) and len(a_words) <= len(b_words) == 2 and a_words[0] == b_words[0]:
        return "renamed"
    return None


def _sentence_subjects(text: str, names: list[MentionCandidate]) -> Iterator[MentionCandidate | None]:
    """Yields for each name but the first the first name before it in its sentence, codes excluded, or None."""
    starts = [0, *(m.end() for m in _SENTENCE_END.finditer(text))]
    first = 0
    for i, b in enumerate(names[1:]):
        start = starts[bisect_right(starts, b.char_start) - 1]
        while first <= i and (names[first].char_end <= start or names[first].kind == "code"):
            first += 1
        yield names[first] if first <= i else None


def _stated_candidate(b: MentionCandidate, a: MentionCandidate, why: str) -> MentionCandidate:
    return MentionCandidate(b.surface, b.key, "stated", False, b.cue, a.key, why, b.char_start, b.char_end)


def _offices(text: str, names: list[MentionCandidate]) -> Iterator[MentionCandidate]:
    """Yields each office in small letters, with its holder where the words next to it say so."""
    starts, longest = [n.char_start for n in names], max((n.char_end - n.char_start for n in names), default=0)
    for m in _OFFICE.finditer(text):
        start, end = m.span()
        holder = None
        near = bisect_left(starts, start - _CHARS_BEFORE_OFFICE - longest)
        for n in names[near : bisect_right(starts, end + _CHARS_AFTER_OFFICE)]:
            if n.kind != "name" or len(n.surface) < 3 or CODE.fullmatch(n.surface):
                continue
            before, after = text[n.char_end : start], text[end : n.char_start]
            if (n.char_end <= start and len(before) <= _CHARS_BEFORE_OFFICE and _AFTER_HOLDER.fullmatch(before)) or (
                n.char_start >= end and len(after) <= _CHARS_AFTER_OFFICE and _BEFORE_HOLDER.fullmatch(after)
            ):
                holder = n
        key = entity_key(m.group())
        same_as, why = (holder.key, "office") if holder else (None, None)
        yield MentionCandidate(m.group(), key, "role", False, "", same_as, why, start, end)
