"""Facts that the form of a document states: its status, author and day, and who attended a meeting.

They need no reading of sentences: header fields are metadata, and a list below `Present` names one person an item.
"""

import json
import re
from collections.abc import Iterator, Mapping

import polars as pl

from palimpsest.entities.scope_evidence import person_names
from palimpsest.facts.fact import Fact, Named
from palimpsest.text.document_status import AUTHOR, stated_status
from palimpsest.text.markup import shown_words

_CONFIDENCE = 0.95
_ASIDE = re.compile(r"\s*[<(][^<>()]*[>)]")
_ATTENDING = re.compile(
    r"(?:members |people |also )?(?:present|attendees|attendance|in attendance|attending|participants|attended)",
    re.IGNORECASE,
)
_HEADING = re.compile(r"\s*(?:#{1,6}\s+|\*\*)?(?P<title>[^*\n#:]{1,60}?):?\s*(?:\*\*)?:?\s*")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?P<item>\S.*)")
_NAME = re.compile(r"[^\W\d_][\w.'’-]*(?: (?:[^\W\d_][\w.'’-]*)){1,3}")  # noqa: RUF001


def document_facts(
    memories: pl.DataFrame, documents: pl.DataFrame, named: Mapping[str, Named]
) -> Iterator[tuple[str, Fact]]:
    """Yields (memory_id, fact) of documents whose title is an entity; their first memory states the header fields.

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
    rows = memories.filter(pl.col("unit") != "turn").sort("document_id", "ordinal", "memory_id")
    seen: set[str] = set()
    for memory_id, document_id, text, heading in rows.select("memory_id", "document_id", "text", "heading").iter_rows():
        if document_id not in about or memory_id not in named or not (topic := named[memory_id].topic):
            continue
        if document_id not in seen:
            seen.add(document_id)
            yield from ((memory_id, fact) for fact in _of_fields(topic, *about[document_id], len(text)))
        yield from ((memory_id, fact) for fact in _of_lists(topic, text, heading or "", named[memory_id]))


def _of_fields(topic: str, metadata: Mapping[str, object], time: object, end: int) -> Iterator[Fact]:
    status = _ASIDE.sub("", shown_words(stated_status(metadata))).strip(" .,*_`")
    authors = person_names([shown_words(str(metadata.get(AUTHOR) or ""))])
    stated = [("status", status), *(("written_by", name) for name in authors)]
    stated += [("dated", str(time)[:10])] if time is not None else []
    for predicate, words in stated:
        if words:
            yield Fact(topic, predicate, "", words, 0, end, False, "stated", _CONFIDENCE)


def _of_lists(topic: str, text: str, heading: str, named: Named) -> Iterator[Fact]:
    """Yields who attended, by the items of lists below `Present`, `Attendees` and the like."""
    parts = heading.rsplit(" > ", 1)
    is_inside, at = _ATTENDING.fullmatch(parts[-1].strip(" :")) is not None, 0
    for line in text.splitlines(keepends=True):
        item = _ITEM.match(line) if is_inside or "[x]" in line else None
        if item is None and line.strip():
            title = _HEADING.fullmatch(line.rstrip("\n"))
            is_inside = title is not None and _ATTENDING.fullmatch(title["title"].strip()) is not None
        elif item is not None and is_inside:
            name = _NAME.match(shown_words(re.sub(r"^\[[ xX]\]\s*", "", item["item"])))
            if name is not None and all(w[0].isupper() for w in (name[0].split()[0], name[0].split()[-1])):
                start = at + item.start("item")
                end = start + len(item["item"].rstrip())
                entity = next((m.entity_id for m in named.mentions if start <= m.start and m.end <= end), "")
                value = "" if entity and entity != topic else name[0]
                yield Fact(
                    topic, "attended_by", entity if not value else "", value, start, end, False, "stated", _CONFIDENCE
                )
        at += len(line)
