"""Facts that the form of a document states: header fields, lists of who attended, action items, versions and tables.

They need no reading of sentences: a list below `Present` names one person an item, `Ana to write the notes` says who is
responsible for what, and `PostgreSQL >= 12` is a version. `table_facts` reads tables.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby

import polars as pl

from palimpsest.entities.scope_evidence import person_names
from palimpsest.facts.document_page import (
    FULL_NAME,
    Attendee,
    Item,
    Page,
    Span,
    is_capitalised,
    items,
    names,
    shorten,
    value_fact,
)
from palimpsest.facts.fact import Fact, Named
from palimpsest.facts.table_facts import table_facts
from palimpsest.facts.vocabulary import Filling, fits, is_occupation, may_have, of_noun
from palimpsest.text.document_status import AUTHOR, stated_status
from palimpsest.text.markup import shown_words
from palimpsest.text.words import word_set

_ASIDE = re.compile(r"(?<!\s)\s*+[<(][^<>()]*[>)]")


def document_facts(
    memories: pl.DataFrame, documents: pl.DataFrame, named: Mapping[str, Named]
) -> Iterator[tuple[str, Fact]]:
    """Yields (memory_id, fact) of current documents; the first memory of one states its header fields.

    Facts of the document itself are stated where its title is an entity.

    Args:
        memories: the memories table.
        documents: the documents table.
        named: the entities of each memory.
    """
    about = {
        document_id: (json.loads(metadata or "{}"), time)
        for document_id, metadata, time in documents.filter("is_current")
        .select("document_id", "metadata", "source_time")
        .iter_rows()
    }
    rows = (
        memories.filter((pl.col("unit") != "turn") & pl.col("document_id").is_in(list(about)))
        .sort("document_id", "ordinal", "memory_id")
        .select("document_id", "memory_id", "text", "heading")
        .iter_rows()
    )
    nobody = Named((), {})
    for document_id, group in groupby(rows, key=lambda row: row[0]):
        pages = {i: Page(text, heading or "", named.get(i, nobody)) for _, i, text, heading in group}
        attendees = [a for page in pages.values() for item in items(page) if (a := _attendee(page, item))]
        is_first = True
        for memory_id, page in pages.items():
            if is_first and (topic := page.named.topic):
                is_first = False
                fields = _of_fields(topic, *about[document_id], len(page.text))
                yield from ((memory_id, fact) for fact in fields)
            there = replace(page, attendees=attendees)
            yield from ((memory_id, fact) for fact in _of_page(there))


def _of_fields(topic: str, metadata: Mapping[str, object], time: object, end: int) -> Iterator[Fact]:
    status = _ASIDE.sub("", shown_words(stated_status(metadata))).strip(" .,*_`")
    authors = person_names([shown_words(str(metadata.get(AUTHOR) or ""))])
    stated = [("status", status), *(("written_by", name) for name in authors)]
    day = str(time)[:10]
    is_review = any("review" in name.casefold() and str(value).startswith(day) for name, value in metadata.items())
    stated += [("dated", day)] if time is not None and not is_review else []
    for predicate, words in stated:
        if words:
            yield value_fact(topic, predicate, words, (0, end))


def _of_page(page: Page) -> Iterator[Fact]:
    for item in items(page):
        if attendee := _attendee(page, item):
            yield from _of_attendee(page, item, attendee)
        elif not _is_below(_ATTENDING, item):
            yield from _of_action(page, item)
            yield from _of_version(page, item)
    yield from table_facts(page)


def _is_below(title: re.Pattern[str], item: Item) -> bool:
    return title.fullmatch(item.above[-1]) is not None


# Who attended: `- Ana Brandt (@abrandt, Corvid)`.

_ATTENDING = re.compile(
    r"(?:members |people |also )?(?:present|attendees|attendance|in attendance|attending|participants"
    r"|attended(?: by)?)",
    re.IGNORECASE,
)
_HANDLE = re.compile(r"(?<![\w.@/])@[A-Za-z0-9][\w-]*")
_ASIDES = re.compile(r"\(([^()]*)\)?|(?:^|\s)[-–—]\s+([^(]*)|,\s+([^(]*)")  # noqa: RUF001
_MAX_GROUP_WORDS = 5
_IN_MEETING = word_set(
    """
    scribe chair co-chair cochair host facilitator moderator note notes notetaker note-taker taker taking minutes
    secretary timekeeper regrets remote remotely online virtual virtually person phone zoom observer guest late left
    leaving partial partially absent excused apologies joined joining until first last only half present presenting
    presenter speaker voting non-voting regular alternate emeritus invited expert participant attendee he she they him
    her them at-large minute hour min
    """
)


def _attendee(page: Page, item: Item) -> Attendee | None:
    """Returns whom an item below `Present` names; an empty box, or a line through it, says that one was not there."""
    if not _is_below(_ATTENDING, item) or item.box == " " or item.raw.startswith("~~"):
        return None
    words = shown_words(item.raw)
    handle = _HANDLE.match(words)
    words = words[handle.end() :].lstrip(" -–—:(") if handle else words  # noqa: RUF001
    name = FULL_NAME.match(words.lstrip("*_"))
    if name is None or not is_capitalised(name[0]):
        return None
    handle = handle or _HANDLE.search(words)
    start, end = item.start + max(item.raw.find(name[0]), 0), item.place[1]
    mentions = [m for m in page.named.mentions if m.start == start and m.end <= end]
    entity = max(mentions, key=lambda m: m.end).entity_id if mentions else ""
    return Attendee(name[0], handle[0] if handle else "", entity)


def _of_attendee(page: Page, item: Item, attendee: Attendee) -> Iterator[Fact]:
    topic, entity = page.named.topic, attendee.entity
    if topic and entity in ("", topic):
        yield value_fact(topic, "attended_by", attendee.name, item.place)
    elif topic:
        yield replace(value_fact(topic, "attended_by", "", item.place), object_entity=entity)
    if entity and attendee.handle:
        yield value_fact(entity, "handle", attendee.handle, item.place)
    after = item.raw.find(attendee.name) + len(attendee.name)
    for aside in _ASIDES.finditer(item.raw, after) if entity else ():
        number = aside.lastindex or 0
        for span in names(aside[number], item.start + aside.start(number)):
            if _is_group(page, span):
                yield page.fact(entity, "member_of", span, item.place)


def _is_group(page: Page, span: Span) -> bool:
    """Returns whether words beside a name are where one belongs, and not a handle, a role or a remark."""
    words = span.words.lower().split()
    if not span.words[0].isupper() or len(words) > _MAX_GROUP_WORDS or "@" in span.words:
        return False
    if of_noun(words[-1]) is not None or is_occupation(f"a {span.words}") or not _IN_MEETING.isdisjoint(words):
        return False
    return fits("member_of", Filling(span.words, page.type_at(span), is_name=True, is_time=False))


# Who is responsible for what: `- Ana to write the notes`, and below `Action items` also `- notes: Ana`.

_ACTION_WORDS = r"(?:action(?: items?| points?)?|actions|next steps?|to-?dos?|follow[- ]?ups?)"
_ACTIONS = re.compile(rf"(?:open |new |our )?{_ACTION_WORDS}", re.IGNORECASE)
_LABEL = re.compile(rf"\W*(?:{_ACTION_WORDS}|AI)[\s*_]*[:?][\s*_:?]*+(?=[(@\w])", re.IGNORECASE)
_WORD = r"[^\W\d_][\w.'’-]*"  # noqa: RUF001
_COMPANY = frozenset({"team", "others", "co", "all"})
_DOER = rf"@?{_WORD}(?: {_WORD}){{0,2}}?"
_DOERS = rf"\(?(?P<doers>{_DOER}(?:(?:,? and| &| \+|,) {_DOER}){{0,5}}?)\)?"
_NO_TASK = (
    r"(?!(?:the|an?|his|her|their|my|our|your|this|that|have|not|need|miss|leave|no|never|be(?! \w+ing\b)|probably)\b)"
)
_SAID = r"(?!(?:I|We|You|It|This|That|Yes|No|Not)\b)"  # what follows is what one said
_WILL = r"(?:(?:is |are )?going to|to|will)(?: be(?= \w+ing\b))?"
_ARROW = r"(?<!\s)\s*+(?:→|->)"
_DASH = r"(?<!\s)\s++[–—-]+"  # noqa: RUF001
_PROMISE = re.compile(rf"{_DOERS}(?:,|{_DASH}|{_ARROW})?\s+{_WILL}\s+{_NO_TASK}(?P<task>[a-z].*)", re.DOTALL)
_DOER_FIRST = re.compile(rf"{_DOERS}(?::|{_DASH}|{_ARROW})\s+{_SAID}(?P<task>\S.*)", re.DOTALL)
_DOER_LAST = re.compile(rf"(?P<task>\S.*?)(?::|{_DASH}|{_ARROW})\s+{_DOERS}[.\s]*", re.DOTALL)
_UNCLEAR = re.compile(r"\b(?:it|them|him|her|this|these|those)\b", re.IGNORECASE)
_MAX_UNCLEAR_WORDS = 6  # of a task that names what it is about by a pronoun: `merge it`
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


def _of_action(page: Page, item: Item) -> Iterator[Fact]:
    label = _LABEL.match(item.raw)
    is_action = label is not None or any(_ACTIONS.fullmatch(title) for title in item.above)
    after = label.end() if label else 0
    forms = (_PROMISE, _DOER_FIRST, _DOER_LAST) if is_action else (_PROMISE,)
    for match in filter(None, (form.fullmatch(item.raw, after) for form in forms)):
        doers = list(names(match["doers"], item.start + match.start("doers")))
        if match.re is _PROMISE and not all(_is_doer(doer.words) for doer in doers):
            continue
        people = sorted({person for doer in doers if (person := page.person(doer))})
        task = shorten(_SENTENCE_END.split(shown_words(match["task"]))[0])
        if _UNCLEAR.search(task) and len(task.split()) <= _MAX_UNCLEAR_WORDS:
            return
        modality = "past" if item.box in ("x", "X") else "stated"
        for person in people if task else ():
            yield value_fact(person, "responsible_for", task, item.place, modality)
        if people:
            return


def _is_doer(words: str) -> bool:
    return is_capitalised(words) or words[0] == "@" or words.split()[-1] in _COMPANY


# Minimum versions: `- PostgreSQL >= 12 (2019)`.

_AT_LEAST = re.compile(
    r"(?P<name>[^\s`>≥=].*?)(?<!\s)(?:\s*+(?:>=|≥|=>)\s*+v?(?P<least>\d[\w.]*)"
    r"|\s++(?P<later>\d[\w.]*?)(?:\+| (?:or|and) (?:later|newer|higher|above|greater))(?!\w))"
    r"\s*+(?:[(,;:].*|[-–—]\s.*|\.)?"  # noqa: RUF001
)


def _of_version(page: Page, item: Item) -> Iterator[Fact]:
    match = _AT_LEAST.fullmatch(item.raw)
    if match is None:
        return
    for span in names(match["name"], item.start):
        entity = page.entity_at(span)
        if entity and span.words == match["name"].strip(" *_") and may_have(page.type_at(span), "version"):
            yield value_fact(entity, "version", f">= {match['least'] or match['later']}", item.place)
