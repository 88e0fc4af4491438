"""Facts that a Markdown table states, by the headers of its columns: `| Group | Contacts |`, `| Name | Status |`."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from palimpsest.facts.document_page import FULL_NAME, Page, Span, lines, names, shorten, value_fact
from palimpsest.facts.fact import Fact
from palimpsest.facts.vocabulary import SLOTS, Filling, Predicate, fits, may_have, of_noun
from palimpsest.text.markup import shown_words

_Row = list[Span]  # the cells
_BAR = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"\s*+\|?\s*+:?-++:?\s*+(?:\|\s*+:?-++:?\s*+)*\|?\s*+")
_PERSONS = re.compile(r"(?:key |main |primary )?(?:contacts?|members?|people|persons?|maintainers?|attendees?)")
_ONES = re.compile(r"(?:full )?names?")  # of persons, or of other things
_REVIEWERS = re.compile(r"reviewed by|reviewers?")
_OWNERS = re.compile(r"(?:action |task )?owners?|assignees?|assigned to|responsible(?: person)?|who")
_TASKS = re.compile(r"(?:action |task )?items?|actions?|tasks?|to-?dos?|what")
_OF_PERSONS = {
    "member_of": re.compile(r"(?:working )?groups?|teams?|affiliation|organi[sz]ation|company|employer|department"),
    "works_as": re.compile(r"(?:job )?(?:role|title|position)s?"),
    "handle": re.compile(r"(?:github )?(?:handle|user ?name)|github(?: id)?"),
    "email": re.compile(r"e-?mail(?: address)?"),
}
"""Headers of columns that state something of the persons in another column."""
_CHECKED = frozenset({"date", "amount", "digits", "address", "status"})
"""What may fill a column whose header is a noun of the vocabulary: its words show whether they fit."""


def table_facts(page: Page) -> Iterator[Fact]:
    """Yields the facts of the tables of a memory, row by row; the place of a fact is its row.

    Persons belong to a group, work as something, or have a handle or an address; the document is `reviewed_by` those of
    a column `Reviewed by`; an `Owner` is `responsible_for` the task of the row. Of a column whose header is a noun of
    the vocabulary (`Status`, `Due date`, `Lead`) the subject is the entity that the first cell names.
    """
    for table in _tables(page.text):
        headers = [cell.words.casefold().strip(" :") for cell in table[0]]
        for row in (r for r in table[1:] if len(r) == len(headers)):
            place = (row[0].start, row[-1].end)
            yield from _of_persons(page, headers, row, place)
            yield from _of_reviewers(page, headers, row, place)
            yield from _of_owners(page, headers, row, place)
            yield from _of_nouns(page, headers, row, place)


def _column(headers: Sequence[str], *patterns: re.Pattern[str]) -> int:
    """Returns the first column whose header is what the first pattern that fits any says; -1 where there is none."""
    return next((i for p in patterns for i, header in enumerate(headers) if p.fullmatch(header)), -1)


def _of_persons(page: Page, headers: Sequence[str], row: _Row, place: tuple[int, int]) -> Iterator[Fact]:
    people = _column(headers, _PERSONS, _ONES)
    if people < 0:
        return
    for person in _persons(page, row[people], is_sure=_PERSONS.fullmatch(headers[people]) is not None):
        for predicate, pattern in _OF_PERSONS.items():
            column = _column(headers, pattern)
            if column >= 0 and (span := _filling(page, predicate, row[column])):
                yield page.fact(person, predicate, span, place)


def _of_reviewers(page: Page, headers: Sequence[str], row: _Row, place: tuple[int, int]) -> Iterator[Fact]:
    column, topic = _column(headers, _REVIEWERS), page.named.topic
    for span in names(row[column].words, row[column].start) if column >= 0 and topic else ():
        if page.person(span) or FULL_NAME.fullmatch(span.words):
            yield page.fact(topic, "reviewed_by", span, place)


def _of_owners(page: Page, headers: Sequence[str], row: _Row, place: tuple[int, int]) -> Iterator[Fact]:
    column, task = _column(headers, _OWNERS), row[max(_column(headers, _TASKS), 0)]
    for person in _persons(page, row[column], is_sure=False) if column >= 0 and not task.is_empty else ():
        yield page.fact(person, "responsible_for", Span(shorten(task.words), task.start, task.end), place)


def _of_nouns(page: Page, headers: Sequence[str], row: _Row, place: tuple[int, int]) -> Iterator[Fact]:
    subject = page.entity_at(row[0])
    for header, cell in zip(headers[1:], row[1:], strict=True) if subject else ():
        words = header.removesuffix(" date").removeprefix("minimum ")
        noun = Predicate(words) if words in SLOTS else of_noun(words)
        if noun is None or not may_have(page.type_at(row[0]), noun.name):
            continue
        if noun.name == "leads":
            for person in _persons(page, cell, is_sure=True):
                yield page.fact(person, "leads", row[0], place)
        elif _CHECKED.issuperset(SLOTS[noun.name].takes) and (span := _filling(page, noun.name, cell)):
            yield value_fact(subject, noun.name, span.words.replace("≥", ">="), place)


def _persons(page: Page, cell: Span, *, is_sure: bool) -> Iterator[str]:
    """Yields the persons whom a cell names; where the header says that they are some, any full name is one."""
    for span in names(cell.words, cell.start):
        if is_sure and page.type_at(span) == "name" and FULL_NAME.fullmatch(span.words):
            yield page.entity_at(span)
        elif person := page.person(span):
            yield person


def _filling(page: Page, predicate: str, cell: Span) -> Span | None:
    """Returns what a cell states: the words that a reader sees, where they fill the predicate."""
    words = shown_words(cell.words).strip(" *_`<>")
    if not any(c.isalnum() for c in words) or cell.is_empty:
        return None
    if predicate == "handle":
        words = f"@{words.removeprefix('@')}"
    start = cell.start + max(cell.words.find(words), 0)
    span = Span(words, start, start + len(words))
    filling = Filling(words, page.type_at(span), is_name=True, is_time=False)
    return span if fits(predicate, filling) else None


def _cells(line: str, at: int) -> _Row:
    """Returns the cells of a line of a table, without the bars, spaces and marks around them."""
    bars = [m.start() for m in _BAR.finditer(line)]
    edges = ([] if line.lstrip().startswith("|") else [-1]) + bars + ([] if line.endswith("|") else [len(line)])
    cells = []
    for left, right in pairwise(edges):
        raw = line[left + 1 : right]
        words = raw.strip(" \t*_")
        start = at + left + 1 + raw.find(words)
        cells.append(Span(words, start, start + len(words)))
    return cells


def _tables(text: str) -> Iterator[list[_Row]]:
    """Yields the tables of a text: the row of headers, and the rows below it."""
    table, before = list[_Row](), None
    for at, line in (*lines(text), (len(text), "")):
        row = _cells(line, at) if "|" in line else None
        if before is not None and _RULE.fullmatch(line) and "|" in line:
            table = [before]
        elif table and row is not None:
            table.append(row)
        elif table:
            yield table
            table = []
        before = row
