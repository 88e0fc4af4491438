"""Sentences with exact offsets. Rules, not a model: end marks, line structure, and abbreviations that look like ends.

Two splitters, because their texts differ: `document_sentence_spans` reads a whole document with its layout and bounds a
sentence's length; `memory_sentence_spans` reads one memory, whose list marks are no part of a sentence.
"""

import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semantic_text_splitter import TextSplitter


# ruff: noqa: RUF001 (the marks of other scripts are meant)


MAX_SENTENCE_CHARS = 1_500
_WINDOW_CHARS = 20_000

# Every alternative can begin only where a run of its characters begins, so that no text takes quadratic time.
_BREAK = re.compile(
    r"""
      (?<!\n)\n(?:[^\S\n]*+\n)++                                          # blank lines
    | \n(?=[^\S\n]*+(?:[-*+•‣◦|]|\d{1,3}[.)]|[A-Za-z][.)])[^\S\n])        # a list item or a table's row
    | (?<![.!?…])[.!?…]++["'”’»)\]*_`]*+(?=\s)                            # end marks
    | (?<![。！？])[。！？]++[」』”’）]*+
    """,
    re.VERBOSE,
)
_LAST_WORD = re.compile(r"[^\s(\[\"'“‘/]+\Z")
_NEXT = re.compile(r"\s*+[\"'“‘«(\[*_`]*+(\S)?")
_DOTTED = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]")
_MARKER = re.compile(r"\s*+(?:(?:[-*+•‣◦]|\d{1,3}[.)]|[A-Za-z][.)]|>)[^\S\n]++)*+")
_WORD = re.compile(r"\w")
_SPACE = re.compile(r"\s")
_TITLES = "mr mrs ms mx dr prof st mt gen col lt sgt capt cmdr rev hon sen rep gov pres messrs mme mlle"
_PHRASES = "e.g i.e cf vs viz al approx ca resp incl esp misc ph.d m.d b.a m.a ing dipl"
_PLACES = "no nos nr fig figs eq eqs sec sect ch chap vol p pp art par ref refs tab ver v"
_MONTHS = "jan feb mar apr jun jul aug sep sept oct nov dec"
_NEVER_LAST = frozenset([*_TITLES.split(), *_PHRASES.split()])
_BEFORE_NUMBER = frozenset([*_PLACES.split(), *_MONTHS.split()])

_MEMORY_BREAK = re.compile(
    r"(?<=[.!?\u2026])([\"'\u201d\u2019)\]]*+)\s++(?=[\"'\u201c\u2018(\[]*+[^\W_])"
    r"|(?<!\s)[^\S\n]*+\n\s*+(?:[-*\u2022]|\d++[.)])\s++|(?<![ \t])[ \t]*+\n[ \t]*+(?:\n\s*+|(?![a-z\s]))"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|prof|sr|jr|st|vs|etc|e\.g|i\.e|no|inc|ltd|co|corp|approx|fig|eq|dept|est)|\b[A-Z])\.$", re.I
)


def document_sentence_spans(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Returns the spans of the sentences in `text[start:end]`, white space trimmed, none longer than the maximum.

    A span without any letter or digit joins the one before it.
    """
    spans: list[tuple[int, int]] = []
    at = start
    for m in _BREAK.finditer(text, start, end):
        mark = m.group()
        if mark[0] == "\n" or mark[0] in "。！？" or _ends_sentence(text, at, m, end):
            _append(text, at, m.end(), spans)
            at = m.end()
    _append(text, at, end, spans)
    return [piece for s, e in spans for piece in (_split_long(text, s, e) if e - s > MAX_SENTENCE_CHARS else ((s, e),))]


def memory_sentence_spans(text: str) -> list[tuple[int, int]]:
    """Returns (start, end) of each sentence of a memory's text, white space trimmed, in order.

    A blank line, a list item and a line break before anything but a small letter end a sentence too.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for m in _MEMORY_BREAK.finditer(text):
        if "\n" not in m.group() and _ABBREVIATION.search(text, max(start, m.start() - 12), m.start()):
            continue
        spans.append((start, m.start() + len(m.group(1) or "")))
        start = m.end()
    spans.append((start, len(text)))
    return [trimmed for s, e in spans if (trimmed := _trim(text, s, e))]


def _trim(text: str, start: int, end: int) -> tuple[int, int] | None:
    part = text[start:end]
    stripped = part.strip()
    if not stripped:
        return None
    start += len(part) - len(part.lstrip())
    return start, start + len(stripped)


def skip_list_marker(text: str, start: int, end: int) -> int:
    """Returns where the words of a sentence begin: after the bullet, number or quote mark of its list item.

    A mark with a letter (`X)`) is one only where a word follows it.
    """
    m = _MARKER.match(text, start, end)
    at = m.end() if m else start
    while at < end and text[at].isspace():
        at += 1
    words_follow = any(c.isalnum() for c in text[at:end])
    return at if at < end and (words_follow or not any(c.isalpha() for c in text[start:at])) else start


def _append(text: str, start: int, end: int, spans: list[tuple[int, int]]) -> None:
    span = _trim(text, start, end)
    if span is None:
        return
    if spans and not _WORD.search(text, *span):
        spans[-1] = (spans[-1][0], span[1])
    else:
        spans.append(span)


def _ends_sentence(text: str, at: int, m: re.Match[str], end: int) -> bool:
    after = _NEXT.match(text, m.end(), end)
    follows = (after and after[1]) or ""
    if follows.islower():
        return False
    if text[m.start()] != "." or text[m.start() : m.start() + 2] == "..":
        return True
    found = _LAST_WORD.search(text, max(at, m.start() - 24), m.start())
    if not found:
        return True
    word = found.group()
    low = word.lower()
    if low in _NEVER_LAST or (low in _BEFORE_NUMBER and follows.isdigit()):
        return False
    if len(word) == 1 and word.isalpha() and word.isupper() and word != "I":
        return False  # an initial
    if _DOTTED.fullmatch(word) and word.isupper():
        return False  # U.S. Army
    # The number of a list item is at the start of its line.
    line_start = text.rfind("\n", max(at - 1, 0), found.start()) + 1 or at
    return not (word.isdigit() and len(word) <= 3 and not text[line_start : found.start()].strip())


def _split_long(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Splits what is too long for one sentence at lines, else words, else characters."""
    pieces = []
    while start < end:
        stop = min(start + _WINDOW_CHARS, end)
        if stop < end:  # the splitter takes quadratic time: it sees windows that end at a space where there is one
            spaces = [m.start() for m in _SPACE.finditer(text, stop - MAX_SENTENCE_CHARS, stop)]
            stop = spaces[-1] if spaces else stop
        pieces += [(start + at, start + at + len(piece)) for at, piece in _splitter().chunk_indices(text[start:stop])]
        start = stop
    return pieces


@cache
def _splitter() -> "TextSplitter":
    from semantic_text_splitter import TextSplitter

    return TextSplitter(MAX_SENTENCE_CHARS)


# Clauses of a text with exact offsets: the parts of which one can be outdated while the others still hold.

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


# Whether a statement takes back, corrects or goes on about one just made: `scratch that`, `I misspoke`, `He's late`.
#
# What it is about then stands in the turns before it, whose words it need not share. English only.

_MAX_CHARS = 160
"""A longer statement says itself what it is about."""
_SAID = r"(?:that|this|it|what i (?:said|told|wrote|just said)|(?:the|my) (?:last|previous|above|earlier)\b)"
_TAKES_BACK = re.compile(
    rf"\b(?:scratch|forget|ignore|disregard|strike|skip|undo|delete|cancel) {_SAID}"
    r"|\bi (?:misspoke|mistyped|misread|meant|mean)\b|\bmy (?:mistake|bad|error)\b|\btypo\b|\bcorrection\b"
    r"|\b(?:no|oh|oops|sorry|actually|ah)[,.!]? (?:wait|no|it'?s|that'?s|make (?:it|that)|not)\b"
    r"|\bwait[,.]? (?:no|it)\b"
    r"|\b(?:that|this|it|which) (?:was|is) (?:wrong|not right|outdated|old)\b|\bthat'?s (?:wrong|not right|outdated)\b"
    r"|\bmake (?:it|that)\b|\binstead\b|^(?:sorry|oops|correction|no|actually)\b",
    re.IGNORECASE,
)
_GOES_ON = re.compile(r"(?:And |But |So )?(?:He|She|It|They|That|Those)(?:'|’|\b)", re.IGNORECASE)


def refers_back(text: str) -> bool:
    """Returns whether a statement is about what was said just before it."""
    given = text.strip()
    return len(given) <= _MAX_CHARS and bool(_TAKES_BACK.search(given) or _GOES_ON.match(given))
