"""A memory as its form shows it: its lines, the items of its lists, and the entities that its words name."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from palimpsest.facts.fact import Fact, Named
from palimpsest.text.markup import shown_words
from palimpsest.text.words import fold

CONFIDENCE = 0.95
"""Of a fact that the form of a document states."""
_MAX_TASK_CHARS = 120
_WORD = r"[^\W\d_][\w.'’-]*"  # noqa: RUF001
FULL_NAME = re.compile(rf"{_WORD}(?: {_WORD}){{1,3}}")
"""Two to four words that may be a name."""
_HEADING = re.compile(r"\s*+(?:#{1,6}\s++|\*\*)?+(?P<title>[^*\n#:]{1,60}?):?\s*+(?:\*\*)?:?\s*+")
_ITEM = re.compile(r"(?P<indent>\s*)(?:[-*+]|\d+[.)])\s+(?:\[(?P<box>[ xX])\]\s+)?(?P<item>\S.*)")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_BETWEEN = re.compile(r"[,;/&+]|\band\b|<br\s*+/?>")
_NOTHING = frozenset({"", "-", "--", "–", "—", "?", "n/a", "na", "none", "tbd", "tba", "tbc", "name"})  # noqa: RUF001


class Span(NamedTuple):
    """Words as a reader sees them, and where the text of the memory has them."""

    words: str
    start: int
    end: int

    @property
    def is_empty(self) -> bool:
        """Whether it stands for nothing, as `-`, `N/A` and `TBD` do."""
        return self.words.casefold() in _NOTHING


class Attendee(NamedTuple):
    """Somebody who attended a meeting: the name and the handle that its list has, and the entity; empty without one."""

    name: str
    handle: str
    entity: str


@dataclass(frozen=True)
class Item:
    """An item of a list.

    Attributes:
        raw: its text without the mark and the box, with the indented lines that continue it.
        start: of the text, in characters of the memory.
        above: titles of the section and of the items that it is below, outermost first.
        box: the mark in its box: a space, `x`, or empty where it has none.
    """

    raw: str
    start: int
    above: tuple[str, ...]
    box: str

    @property
    def place(self) -> tuple[int, int]:
        """Its start and end, in characters of the memory."""
        return self.start, self.start + len(self.raw)


@dataclass(frozen=True)
class Page:
    """A memory with its entities, and who attended the meeting that its document is about."""

    text: str
    heading: str
    named: Named
    attendees: Sequence[Attendee] = ()

    def entity_at(self, span: Span) -> str:
        """Returns the entity that exactly these words name; empty where there is none."""
        return next((m.entity_id for m in self.named.mentions if (m.start, m.end) == (span.start, span.end)), "")

    def type_at(self, span: Span) -> str:
        """Returns the type of that entity; empty where there is none."""
        return self.named.types.get(self.entity_at(span), "")

    def person(self, span: Span) -> str:
        """Returns the person whom a name, a first name, initials or a handle refers to; empty where it is not known.

        Attendees count before other persons; a form that fits several of them refers to none.
        """
        words = fold(span.words)
        for forms in zip(*map(_forms, self.attendees), strict=True):
            found = {a.entity for a, form in zip(self.attendees, forms, strict=True) if words in form}
            if found:
                return found.pop() if len(found) == 1 else ""
        kind = self.type_at(span)
        is_first_name = kind == "name" and " " not in span.words and not span.words.isupper()
        return self.entity_at(span) if kind == "person" or is_first_name else ""

    def fact(self, subject: str, predicate: str, span: Span, place: tuple[int, int]) -> Fact:
        """Returns a fact of the entity that a span names, or of its words where it names none."""
        entity = self.entity_at(span)
        if entity in ("", subject):
            return value_fact(subject, predicate, span.words, place)
        return Fact(subject, predicate, entity, "", *place, False, "stated", CONFIDENCE)


def value_fact(subject: str, predicate: str, value: str, place: tuple[int, int], modality: str = "stated") -> Fact:
    """Returns a fact whose value are words."""
    return Fact(subject, predicate, "", value, *place, False, modality, CONFIDENCE)


def _forms(attendee: Attendee) -> tuple[frozenset[str], ...]:
    """Returns the words that refer to somebody, the surest first: name and handle, first name, initials."""
    name = fold(attendee.name)
    handle = fold(attendee.handle)
    initials = "".join(word[0] for word in name.split())
    return frozenset({name, handle, handle[1:]}) - {""}, frozenset({name.split()[0]}), frozenset({initials})


def is_capitalised(name: str) -> bool:
    """Returns whether the first and the last word of a name begin with a capital letter."""
    words = name.split()
    return words[0][0].isupper() and words[-1][0].isupper()


def lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields the lines of a text that are no code, each with its place."""
    at, is_code = 0, False
    for line in text.splitlines(keepends=True):
        is_fence = _FENCE.match(line) is not None
        if not is_fence and not is_code:
            yield at, line.rstrip()
        is_code ^= is_fence
        at += len(line)


def items(page: Page) -> Iterator[Item]:
    """Yields the items of the lists of a memory, with the titles that they are below."""
    section = page.heading.rsplit(" > ", 1)[-1].strip(" :")
    parents: list[tuple[int, str]] = []  # indent and title of the items that the next one may be below
    last: Item | None = None
    for at, line in lines(page.text):
        item = _ITEM.match(line)
        if item is None and line and line[0].isspace() and parents:
            if last is not None:
                last = Item(page.text[last.start : at + len(line)], last.start, last.above, last.box)
            continue
        if last is not None:
            yield last
            last = None
        if item is not None:
            indent = len(item["indent"].expandtabs(4))
            parents = [p for p in parents if p[0] < indent]
            above = (section, *(title for _, title in parents))
            last = Item(item["item"], at + item.start("item"), above, item["box"] or "")
            parents.append((indent, shown_words(item["item"]).strip(" :*_")))
        elif line:
            title = _HEADING.fullmatch(line)
            section, parents = title["title"].strip() if title else "", []
    if last is not None:
        yield last


def names(raw: str, start: int) -> Iterator[Span]:
    """Yields the names of an enumeration such as `Ana Brandt, [Jonas Feld](https://example.org) and Bo`."""
    at = 0
    for part in _BETWEEN.split(shown_words(raw)):
        words = part.strip(" \t\n*_`()~.:")
        found = raw.find(words, at)
        if found >= 0:
            at = found + len(words)
            span = Span(words, start + found, start + at)
            if not span.is_empty:
                yield span


def shorten(task: str) -> str:
    """Returns the words of a task on one line, without the marks around them; at most 120 characters."""
    return textwrap.shorten(shown_words(task).strip(" .;,:*_\n"), _MAX_TASK_CHARS, placeholder=" …")
