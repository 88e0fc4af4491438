"""What the text of a document states of itself before its body: title, date, status, and what it replaces.

Read are lines `Field: value` above the second heading, in paragraphs, lists and tables that consist of them, and
sections named `Status` or like another field. Prose states nothing.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice

from palimpsest.sources.extracted import ExtractedDocument, Segment, StatedRelation
from palimpsest.sources.readers.common.clean_text import one_line, title_from_uri
from palimpsest.sources.readers.common.document_references import (
    RELATION_FIELDS,
    named_documents,
    resolve_path,
    stated_replacements,
)
from palimpsest.sources.readers.common.document_time import (
    DATE_FIELDS,
    FROM_PROPERTIES,
    explain_date,
    find_stated_time,
    normalize_field,
)
from palimpsest.text.dates import DateOrder, is_ambiguous, parse_stated_time, written_dates
from palimpsest.text.document_status import STATUS, is_status, may_replace, stated_status

_READ = re.compile(rf"text/(?:plain|markdown|x-rst|html)|{FROM_PROPERTIES.pattern}")
_MAX_LINES, _MAX_SECTION_LINES, _MAX_PART_CHARS, _MAX_VALUE_CHARS, _MAX_STATUS_CHARS = 60, 12, 5_000, 500, 80
_FIELD = re.compile(r"[*_:]{0,3}(?P<name>[A-Za-z][A-Za-z /_-]{1,30}?)[*_ ]*:(?!//)[*_]*\s*(?P<value>.*)", re.ASCII)
_STATUS_HEADING = re.compile(r"[#=\s]*status\s*[:\u2013\u2014-]\s*(?P<value>.+)", re.IGNORECASE)
_MARKER = re.compile(r"\s*[-+*>•]\s+(?:\[[xX]\]\s+)?")
_COMMENT = re.compile(r"<!--.*?-->|~~.*?~~", re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
_BRACKETS = re.compile(r"^[\[{<].*[\]}>]$")
_PLACEHOLDER = re.compile(r"[|{}…]|^\[.*\]$|^\[ \]|[A-Za-z]\s*/\s*[A-Za-z]+\s*/\s*[A-Za-z]")
_OTHER_NAMES = {
    **dict.fromkeys(("state", "decisionstatus", "documentstatus"), "status"),
    **dict.fromkeys(("decisiondate", "dateofdecision", "meetingdate", "decidedon"), "date"),
}
_KNOWN = {"title", "status", *DATE_FIELDS, *RELATION_FIELDS}
_RFC = re.compile(r"^Request for Comments:\s*\d", re.MULTILINE)
_RFC_DATE = re.compile(r"\s((?:\d{1,2} )?[A-Z][a-z]+ \d{4})$", re.MULTILINE)


@dataclass(frozen=True)
class DocumentHead:
    """The known fields that a head states, each with its values in order."""

    values: dict[str, list[str]] = field(default_factory=dict)

    def one(self, name: str) -> str:
        """Returns the value of a field; empty where the head has several."""
        found = {one_line(v).casefold(): one_line(v) for v in self.values.get(name, ())}
        return next(iter(found.values())) if len(found) == 1 else ""

    @property
    def status(self) -> str:
        """The status in a few words: the line that names what replaced the document, else the first."""
        lines = self.values.get("status", [])
        replaced = (v for v in lines if any(label == "UPDATED_BY" for _, label in stated_replacements(v)))
        return one_line(_LINK.sub(r"\1", next(replaced, lines[0] if lines else "")))[:_MAX_STATUS_CHARS].strip(" .;,*_")

    def time(self, order: DateOrder | None) -> datetime | None:
        """Returns the time of the strongest field that is one date, see `document_time.DATE_FIELDS`."""
        for name in DATE_FIELDS:
            days = written_dates(self.one(name), order)[0]
            if when := parse_stated_time(self.one(name), order):
                return when
            if len(days) == 1:
                day = days.pop()
                return datetime(day.year, day.month, day.day, tzinfo=UTC)
        return None

    def relations(self, uri: str) -> set[StatedRelation]:
        """Returns the relations of the document at `uri`, by its fields and its status."""
        found = {r for line in self.values.get("status", ()) for r in stated_replacements(line)}
        for name, label in RELATION_FIELDS.items():
            found |= {(other, label) for value in self.values.get(name, ()) for other in named_documents(value)}
        return {StatedRelation(resolve_path(name, uri), label) for name, label in found}


def add_document_head(
    document: ExtractedDocument, order: DateOrder | None = None, is_dated: bool = False
) -> tuple[ExtractedDocument, bool, list[str]]:
    """Returns a document with what its head states where nothing better does, whether anything dates it, and problems.

    Front matter wins, and so does the date of a web page; the properties of an Office or PDF file do not. What a draft
    or a rejected proposal states to replace stays: both are true, so that the relation is EXTEND.

    Args:
        document: of any format; only documents of prose have a head.
        order: what comes first in dates of three numbers.
        is_dated: its date is not to be changed.
    """
    if not _READ.fullmatch(document.media_type):
        return document, is_dated, []
    head = read_head(document.text, document.segments)
    metadata = dict(document.metadata)
    if head.status and not stated_status(metadata):
        metadata[STATUS] = head.status
    relations = {*document.relations, *head.relations(document.uri)}
    if not may_replace(stated_status(metadata)):
        relations = {replace(r, label="EXTEND") if r.label == "UPDATE" else r for r in relations}
    is_open = not is_dated and (document.source_time is None or bool(FROM_PROPERTIES.fullmatch(document.media_type)))
    when = head.time(order) if is_open else None
    unclear = next((v for n in DATE_FIELDS if is_open and is_ambiguous(v := head.one(n))), "") if when is None else ""
    named_by_file = document.title == title_from_uri(document.uri)
    return (
        replace(
            document,
            title=(named_by_file and head.one("title")) or document.title,
            source_time=when or document.source_time,
            metadata=metadata,
            relations=tuple(sorted(relations, key=lambda r: (r.other_uri, r.label))),
        ),
        is_dated or when is not None,
        [f"head of the text: {unclear!r} {explain_date(unclear)}"] if unclear else [],
    )


def update_document_head(
    before: ExtractedDocument, after: ExtractedDocument, order: DateOrder | None = None
) -> ExtractedDocument:
    """Returns an edited document with what its head states now in place of what it stated before."""
    if not _READ.fullmatch(after.media_type):
        return after
    head = read_head(before.text, before.segments)
    is_dated = head.time(order) == after.source_time and not find_stated_time(after.metadata, order)
    open_document = replace(
        after,
        title=title_from_uri(after.uri) if after.title == head.one("title") else after.title,
        source_time=None if is_dated else after.source_time,
        metadata={name: value for name, value in after.metadata.items() if name != STATUS},
        relations=tuple(r for r in after.relations if r not in head.relations(after.uri)),
    )
    return add_document_head(open_document, order)[0]


def read_head(text: str, segments: Iterable[Segment]) -> DocumentHead:
    """Returns the fields that a document states above its second heading and in sections named like a field.

    Fields with several titles or states are a list of things: such a text has no head.
    """
    head = DocumentHead()
    once: dict[str, str] = {}
    end = sum(len(line) + 1 for line in text.split("\n", _MAX_LINES)[:_MAX_LINES])
    section, left, has_title, is_open, after_rfc = "", 0, False, True, False
    for s in segments:
        is_open = is_open and s.char_start < end
        part = text[s.char_start : min(s.char_end, s.char_start + _MAX_PART_CHARS)]
        if s.kind == "heading":
            path = (s.heading or "").split(" > ")
            inline = _STATUS_HEADING.match(part)
            key = "status" if inline else _key(path[-1])
            is_first = key not in head.values and (is_open or key == "status")
            section, left = (key if is_first and len(path) <= 2 else ""), _MAX_SECTION_LINES
            if inline and section:
                _add(head, "status", inline["value"])
            if not key:
                is_open = is_open and not (has_title or head.values)
                has_title = True
        elif section:
            for _, line in islice(_lines(part), left):
                _add(head, section, line)
                left -= 1
        elif is_open and s.kind in ("prose", "table"):
            if after_rfc:
                _add(head, "title", part)
            after_rfc = bool(_RFC.search(part))
            fields = _rfc_fields(part) if after_rfc else _field_lines(part)
            if any(once.setdefault(key, v) != v for n, v in fields if (key := _key(n)) in ("title", "status")):
                return DocumentHead()
            for name, value in fields:
                _add_field(head, name, value)
    return head


def _key(name: str) -> str:
    """Returns the known field of a name, empty where it is none."""
    key = normalize_field(name.strip(" *_:"))
    key = _OTHER_NAMES.get(key, key)
    return key if key in _KNOWN else ""


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yields (what joins it to the line before, text) of each line, without comments and marks of lists.

    A line that is not indented begins anew: nothing joins it.
    """
    for line in _COMMENT.sub("", text).splitlines():
        mark = _MARKER.match(line)
        if plain := line[mark.end() if mark else 0 :].strip():
            yield (", " if mark else " ") if line[0].isspace() else "", plain


def _field_lines(text: str) -> list[tuple[str, str]]:
    """Returns (name, value) of a paragraph, list or table that consists of fields; nothing of any other."""
    found: list[tuple[str, str]] = []
    rows: list[list[str]] = []
    for joint, line in _lines(text):
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif is_field := _FIELD.fullmatch(line):
            found.append((is_field["name"], is_field["value"]))
        elif joint and found:
            found[-1] = (found[-1][0], found[-1][1] + joint + line)
        else:
            return []
    rows = [row for row in rows if not all(re.fullmatch(r":?-+:?|", cell) for cell in row)]
    if len(rows) == 2 and not _key(rows[1][0]):
        found += zip(*rows, strict=False)
    return found + [(row[0], row[1]) for row in rows if len(row) == 2]


def _rfc_fields(text: str) -> list[tuple[str, str]]:
    """Returns (name, value) of the left column of an RFC's first lines, and the month in the right one."""
    left = (re.split(r"\s{3,}", line.strip())[0] for line in text.splitlines())
    found = [(m["name"], m["value"]) for line in left if (m := _FIELD.fullmatch(line))]
    return found + [("date", month) for month in _RFC_DATE.findall(text)]


def _add_field(head: DocumentHead, name: str, value: str) -> None:
    """Adds a field; one such as `Superseded: 2024-05-01 by ADR-12` is a line of the status."""
    if not (key := _key(name)) and stated_replacements(f"{name}: {value}"):
        _add(head, "status", f"{name}: {value}")
    else:
        _add(head, key, value)


def _add(head: DocumentHead, key: str, value: str) -> None:
    """Adds a value where the field is known and the value is no placeholder of a template."""
    value = value.strip(" \t|*_" if key == "status" else " \t|")[:_MAX_VALUE_CHARS]
    placeholder = _PLACEHOLDER if key == "status" or key in DATE_FIELDS else _BRACKETS
    is_placeholder = key not in RELATION_FIELDS and placeholder.search(_LINK.sub(r"\1", value))
    if not key or not value or is_placeholder or (key == "status" and not is_status(value)):
        return
    head.values.setdefault(key, []).append(value)
