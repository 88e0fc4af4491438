"""What the text of a document states of itself before its body: title, date, status, and what it replaces.

Read are lines `Field: value` above the second heading, in paragraphs, lists and tables that consist of them, and
sections named `Status` or like another field. Prose states nothing. What was read is no text: it makes no memory.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from palimpsest.sources.extracted import (
    CONVERSATION,
    HEADINGS,
    QUOTED_IN,
    SUITE_ROW,
    ExtractedDocument,
    RelationLabel,
    Segment,
    StatedRelation,
    format_value,
)
from palimpsest.sources.readers.encodings import one_line, title_from_uri
from palimpsest.text.dates import (
    DATE_ORDER_HINT,
    NO_DATE_WORDS,
    DateOrder,
    day_of_dateline,
    is_ambiguous,
    parse_stated_end,
    parse_stated_time,
    written_dates,
)
from palimpsest.text.document_status import (
    AUTHOR,
    STATED_IN_TEXT,
    STATUS,
    TAGS,
    is_status,
    may_replace,
    stated_status,
)

# How documents name each other where one states that it replaces another: links, numbers, file names and titles.

RELATION_FIELDS: dict[str, RelationLabel] = {
    **dict.fromkeys(("supersedes", "supercedes", "replaces", "obsoletes"), "UPDATE"),
    **dict.fromkeys(("supersededby", "supercededby", "replacedby", "obsoletedby"), "UPDATED_BY"),
    "requires": "EXTEND",
}
"""Fields that name other documents, see `normalize_field`. `updates` and `amends` are none: they retire nothing."""

STATUS_FIELDS = ("status", "withdrawalreason", "deprecated")
"""Fields whose value may name what replaced the document: `Superseded by ADR-12`."""

_MAX_TITLE_CHARS = 150
_SUPERSEDE = r"super(?:s|c|sc)ede"
_BY = rf"(?:{_SUPERSEDE}d|replaced|obsoleted|deprecated)\W{{1,4}}by|(?:deprecated|withdrawn)\W{{1,3}}in favou?r of"
_VERB = re.compile(rf"\b(?:(?P<by>{_BY})|{_SUPERSEDE}s|replaces|obsoletes)\b", re.IGNORECASE)
# What may stand before the verb in a line of a status; after any other word the line is prose.
_BEFORE = re.compile(
    r"(?:[\W\d_]|\b(?:accepted|approved|adopted|implemented|deprecated|superseded|replaced|obsolete|rejected|done|final"
    r"|active|status|this|adr|rfc|pep|decision|record|document|proposal|is|was|has|been|now|and|but|it)\b)*",
    re.IGNORECASE,
)
_PARTLY = re.compile(r"\b(?:parts?|partly|partially|some|aspects?|portions?|sections?)\b", re.IGNORECASE)
_LINK_TEXT = re.compile(r"\[[^\]]*\](?:\([^)]*\))?")
_DATE = re.compile(
    r"(?<![\w/-])(?:\d{4}-\d\d-\d\d|\d{1,2}[ -][A-Z][a-z]+[ -]\d{4}|[A-Z][a-z]+ \d{1,2},? \d{4})(?![\w-])"
)
_FILLER = re.compile(r"(?:[\s*\"'“”(=,&/+;-]|:(?!\w+:`)|\b(?:the|by|and|or|also)\b)*", re.IGNORECASE)
_SEPARATOR = re.compile(r"[*\"'”)]*\s*(?:[,&/+]|and\b|or\b)", re.IGNORECASE)
_REFERENCE = re.compile(
    r"\[\[(?P<page>[^\]|]+)(?:\|[^\]]*)?\]\]"
    r"|\[(?P<label>(?:[^\[\]]|\[[^\]]*\])*)\](?:\(<?(?P<target>[^()\s>]+)>?(?:\s[^)]*)?\)|\[[^\]]*\])?"
    r"|:\w+:`[~!]?(?:[^`<]*<)?(?P<role>[^`>]+)>?`"
    r"|`[^`<]*<(?P<embedded>[^`>]+)>`_*"
    r"|(?:xref|link):(?P<macro>[^\[\s]+)\[[^\]]*\]|<<(?P<anchor>[^,#>]+)[^>]*>>"
    r"|`?(?P<series>(?i:adr|pep|rfc|eip|erc|kep)|[A-Z]{2,8}|(?i:decision|record|number|no\.?))"
    r"[ \-_#:]*0*(?P<number>\d{1,6})(?!\w|[-_.]\w)"
    r"|`?(?P<file>[\w./-]+\.(?:md|markdown|rst|txt|adoc|html?|pdf|docx)\b|\w*\d\w*[-_][\w-]*\w|[a-z]+-\d+)"
    r"|`?#?(?P<bare>\d{1,6})(?=`?\s*(?:$|[,.;:()&/|]|and\b|or\b))"
)
_NO_SERIES = ("decision", "record", "number", "no", "no.")


def stated_replacements(line: str) -> list[tuple[str, RelationLabel]]:
    """Returns the documents that a line of a status names: `Superseded by [9. Ferry](0009-ferry.md)`, UPDATED_BY.

    What is said of a part of a document, or in the middle of a sentence, replaces nothing.
    """
    line = _DATE.sub("", line)
    found: list[tuple[str, RelationLabel]] = []
    start = 0
    verbs = list(_VERB.finditer(line))
    for n, verb in enumerate(verbs):
        before = line[start : verb.start()]
        after = line[verb.end() : verbs[n + 1].start() if n + 1 < len(verbs) else None]
        if not _BEFORE.fullmatch(before) or _PARTLY.search(_LINK_TEXT.sub("", before + after)):
            return found
        found += [(name, "UPDATED_BY" if verb["by"] else "UPDATE") for name in named_documents(after)]
        start = verb.end() + max((r.end() for r in _references(after)), default=0)
    return found


def named_documents(text: str) -> list[str]:
    """Returns the documents that a text names at its start; where it names none so, all of it as a title."""
    if names := [name for reference in _references(text) if (name := _name(reference))]:
        return names
    title = one_line(text).strip(" .:;,*_\"'`“”()")
    is_title = 3 < len(title) <= _MAX_TITLE_CHARS and "[" not in title and title.lower() not in NO_DATE_WORDS
    return [title] if is_title else []


def _references(text: str) -> Iterator[re.Match[str]]:
    at = 0
    while True:
        filler = _FILLER.match(text, at)
        found = _REFERENCE.match(text, filler.end() if filler else at)
        if found is None:
            return
        yield found
        at = found.end()
        if not _SEPARATOR.match(text, at):
            return


def _name(found: re.Match[str]) -> str:
    """Returns the name in a reference as the documents stage looks it up: a path, `adr-12`, `12` or a title."""
    if found["number"]:
        series = found["series"].lower()
        return found["number"] if series in _NO_SERIES else f"{series}-{found['number']}"
    if found["role"]:
        return re.sub(r"^[A-Za-z]+[- ](?=\d+$)", "", found["role"])
    target = next((t for t in found.group("target", "embedded", "macro", "anchor", "page", "file") if t), "")
    target = re.sub(r"[?#].*", "", target)
    label = next(iter(named_documents(found["label"] or "")), "")
    if "://" in target and label and target.rstrip("/").rpartition("/")[2].isdigit():  # an issue, not a document
        return label
    return target or label or found["bare"] or ""


def resolve_path(name: str, uri: str) -> str:
    """Returns a path in the document at `uri` as one relative to the collection's folder; other names as they are.

    A path that leads out of the collection keeps what is below, and one that begins with `/` is of the collection.
    """
    if "://" in name or ("/" not in name and "." not in name):
        return name
    folder = "" if name.startswith("/") else posixpath.dirname(uri)
    return re.sub(r"^(?:\.\./)+", "", posixpath.normpath(posixpath.join(folder, name.lstrip("/"))))


# When a document is from: by what it states, else its name, else its title, else the properties of the file.
#
# docs/sources.md lists the fields and their order.

DATE_FIELDS = (
    "updated",
    "updatedat",
    "lastupdated",
    "lastmodified",
    "lastmod",
    "modified",
    "date",
    "published",
    "publishedat",
    "publishdate",
    "pubdate",
    "created",
    "createdat",
    "datecreated",
    "creationdate",
    "startdate",
    "datestarted",
    "lastreviewed",
    "lastreviewedat",
    "lastreviewedon",
    "reviewed",
    "reviewedon",
)
"""Fields of front matter and sidecars that date a document, the strongest first; see `normalize_field`."""

_VALIDITY = ("validfrom", "validuntil")
_HEADING_SEPARATOR = " > "
# Programs write these when a file is saved or made from a template: a date that people wrote counts more.
FROM_PROPERTIES = re.compile(r"application/(?:pdf|vnd\.openxmlformats-officedocument\..+)")


def normalize_field(name: str) -> str:
    """Returns a field's name as compared: `Last-Updated`, `last_updated` and `lastUpdated` are one field."""
    return re.sub(r"[-_ ]", "", name).lower()


def find_stated_time(metadata: Mapping[str, Any], order: DateOrder | None = None) -> datetime | None:
    """Returns the date that metadata states: the first of the `DATE_FIELDS` that is a date."""
    fields: dict[str, list[Any]] = {}
    for name, value in metadata.items():
        fields.setdefault(normalize_field(name), []).append(value)
    values = (value for field in DATE_FIELDS for value in fields.get(field, ()))
    return next((when for value in values if (when := parse_stated_time(value, order))), None)


def check_dates(metadata: Mapping[str, Any], where: str, order: DateOrder | None = None) -> list[str]:
    """Returns a line for each field that should be a date and is not, with the fix.

    Args:
        metadata: fields of front matter or of a sidecar.
        where: what contains them, as messages show it.
        order: what comes first in dates of three numbers.
    """
    problems = []
    for name, value in metadata.items():
        field = normalize_field(name)
        if field not in (*DATE_FIELDS, *_VALIDITY) or value is None or parse_stated_time(value, order):
            continue
        if isinstance(value, str) and value.strip().lower() in NO_DATE_WORDS:
            continue
        if field == "published" and isinstance(value, bool):  # many sites state whether a page is published
            continue
        problems.append(f"{where}: {name}: {format_value(value)} {explain_date(value, '; write YYYY-MM-DD')}")
    starts, ends = (next((v for n, v in metadata.items() if n == f), None) for f in ("valid_from", "valid_until"))
    if is_reversed(starts, ends, order):
        problems.append(f"{where}: {explain_reversed(starts, ends)}")
    return problems


def is_reversed(starts: object, ends: object, order: DateOrder | None = None) -> bool:
    """Returns whether something stated to be valid from one time until another ends before it starts."""
    first, last = parse_stated_time(starts, order), parse_stated_end(ends, order)
    return first is not None and last is not None and last <= first


def explain_reversed(starts: object, ends: object) -> str:
    """Returns the problem of a validity that ends before it starts, which counts as not stated."""
    return f"valid_from {format_value(starts)} is after valid_until {format_value(ends)}; neither is used: correct one"


def explain_date(value: object, fix: str = "") -> str:
    """Returns why a value is no date, for a message, and how to change that."""
    return f"may be two days; {DATE_ORDER_HINT}" if is_ambiguous(value) else f"is not a date{fix}"


def add_document_time(
    document: ExtractedDocument, order: DateOrder | None = None, properties_count: bool = False
) -> tuple[ExtractedDocument, list[str]]:
    """Returns a document with the date of its name or title where it states none itself, and problems.

    A date in the name or the title counts more than the properties of an Office or PDF file, which programs write;
    where they name the same day, the property has the time too. A row of a suite and a quote stay as they are, and so
    does every document with a date where `properties_count`.
    """
    if document.media_type == SUITE_ROW or QUOTED_IN in document.metadata:
        return document, []
    own = document.source_time
    if own is not None and (properties_count or not FROM_PROPERTIES.fullmatch(document.media_type)):
        return document, []
    found, unclear = find_name_date(document.uri, order)
    if found is None and document.media_type != CONVERSATION:
        found, more = _title_date(document, order)
        unclear += more
        found = found or _day_below_title(document, order)
    if found is not None and (own is None or own.date() != found):
        return replace(document, source_time=_midnight(found)), []
    if own is None and unclear:
        return document, [f"name or title: {unclear[0]!r} may be two days; the document is undated: {DATE_ORDER_HINT}"]
    return document, []


def find_name_date(uri: str, order: DateOrder | None = None) -> tuple[date | None, list[str]]:
    """Returns the one full date in a file's name, else in the nearest folder's, and dates there that are unclear.

    Folders of year, month and day (`2026/03/02/`) are a date; year and month alone are none. Of an attachment, which
    has its name behind the `#`, only that name counts.
    """
    path, attached, name = uri.rpartition("#")
    if attached:
        return _one(name, order)
    parts = PurePosixPath(path or name).parts
    found, unclear = _one(parts[-1], order) if parts else (None, [])
    for end in range(len(parts) - 1, 0, -1):
        if found or unclear:
            break
        found, unclear = _one(parts[end - 1], order)
        if found is None and not unclear and (year := _YEAR_FOLDER.fullmatch(parts[end - 1])):
            found = _day_in_year(parts[-1], year[1], order)
        if found is None and not unclear and end >= 3:
            found, _ = _one("-".join(parts[end - 3 : end]), order) if parts[end - 3].isdigit() else (None, [])
    return found, unclear


def _day_in_year(name: str, year: str, order: DateOrder | None) -> date | None:
    """Returns the one day that a file name without a year states: `03-02.md`, `june-29.md`."""
    day = _MONTH_DAY.search(name)
    return _one(f"{year}-{day[1]}" if day else f"{PurePosixPath(name).stem}-{year}", order)[0]


def _title_date(document: ExtractedDocument, order: DateOrder | None) -> tuple[date | None, list[str]]:
    """Returns the date in the title, else in the first heading; none where its sibling headings name other days."""
    paths = [s.heading.split(_HEADING_SEPARATOR) for s in document.segments if s.kind == "heading" and s.heading]
    first = paths[0][-1] if paths else ""
    stated = document.title if document.title != first else ""
    days, unclear = written_dates(stated, order)
    if not days and first:
        days, more = written_dates(first, order)
        unclear |= more
        for path in paths:
            if len(path) == len(paths[0]):
                days = days | written_dates(path[-1], order)[0]
    return (next(iter(days)) if len(days) == 1 else None), sorted(unclear)


def _day_below_title(document: ExtractedDocument, order: DateOrder | None) -> date | None:
    """Returns the day, or the last day of the range, that is all of the first line below the title."""
    prose = next((s for s in document.segments if s.kind not in ("aside", "fields", *HEADINGS)), None)
    if prose is None or sum(s.kind == "heading" and s.char_start < prose.char_start for s in document.segments) > 1:
        return None
    return day_of_dateline(document.text[prose.char_start : prose.char_end].split("\n", 1)[0], order)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _one(text: str, order: DateOrder | None) -> tuple[date | None, list[str]]:
    days, unclear = written_dates(text, order)
    return (next(iter(days)) if len(days) == 1 else None), sorted(unclear)


_READ = re.compile(rf"text/(?:plain|markdown|x-rst|html)|{FROM_PROPERTIES.pattern}")
_MAX_LINES, _MAX_SECTION_LINES, _MAX_PART_CHARS, _MAX_VALUE_CHARS, _MAX_STATUS_CHARS = 60, 12, 5_000, 500, 80
_FIELD = re.compile(r"[*_:]{0,3}(?P<name>[A-Za-z][A-Za-z /_-]{1,30}?)[*_ ]*:(?!//)[*_]*\s*(?P<value>.*)", re.ASCII)
_STATUS_HEADING = re.compile(r"[#=\s]*status\s*[:\u2013\u2014-]\s*(?P<value>.+)", re.IGNORECASE)
_HISTORY = re.compile(r"(?:(?:revision|document|version|change) )?history|change ?log", re.IGNORECASE)
_ENTRY = re.compile(r"\|?\s*([^|:\u2013\u2014]{6,40}?)\s*(?:[|:\u2013\u2014]|\s-\s)")
_MARKER = re.compile(r"\s*[-+*>•]\s+(?:\[[xX]\]\s+)?")
_STRUCK_OUT = re.compile(r"<!--.*?-->|~~.*?~~", re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
_BRACKETS = re.compile(r"^[\[{<].*[\]}>]$")
_PLACEHOLDER = re.compile(r"[|{}…]|^\[.*\]$|^\[ \]|[A-Za-z]\s*/\s*[A-Za-z]+\s*/\s*[A-Za-z]")
_OTHER_NAMES = {
    **dict.fromkeys(("state", "decisionstatus", "documentstatus"), "status"),
    **dict.fromkeys(("revdate", "decisiondate", "dateofdecision", "meetingdate", "decidedon", "when"), "date"),
    **dict.fromkeys(("datelastrevised", "lastrevised", "lastedited"), "updated"),
    **dict.fromkeys(("authors", "writtenby"), "author"),
    **dict.fromkeys(("keywords", "labels"), "tags"),
}
_KNOWN = {"title", "status", "author", "tags", *DATE_FIELDS, *RELATION_FIELDS}
# Fields of proposals that say nothing about their subject; what else a head names, such as who was there, is text.
_ADMINISTRATIVE = re.compile(
    "adr|bdfldelegate|category|contact|contenttype|delegate|discussionsto|featurename|issue|lastcalldeadline|nep|pep|"
    "posthistory|prs?|pythonversion|resolution|rfc|rfcpr|rustissue|sponsor|stage|teams|topic|trackingissue|type|version"
)
_ONCE = ("title", "status")
_YEAR_FOLDER = re.compile(r"(\d{4})(?:[-_]\d\d)?")
_MONTH_DAY = re.compile(r"(?<!\d)(\d\d-\d\d)(?![-\d])")
_RFC = re.compile(r"^Request for Comments:\s*\d", re.MULTILINE)
_RFC_DATE = re.compile(r"\s((?:\d{1,2} )?[A-Z][a-z]+ \d{4})$", re.MULTILINE)


@dataclass(frozen=True)
class DocumentHead:
    """The known fields that a head states, each with its values in order, and the spans of what states them."""

    values: dict[str, list[str]] = field(default_factory=dict)
    spans: list[tuple[int, int]] = field(default_factory=list)

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
            if days:  # `2019-05-13, updated 2023-02-05`
                return _midnight(max(days))
        first = next(iter(self.values.get("status", ())), "")
        decided = set() if list(stated_replacements(first)) else written_dates(first, order)[0]
        return _midnight(max(decided)) if decided else None  # `Accepted on 2020-02-18`

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
    stated = {normalize_field(name) for name in metadata}
    for name, field_name in (("author", AUTHOR), ("tags", TAGS)):
        if name in head.values and not stated & {name, f"{name}s"}:
            metadata[field_name] = ", ".join(dict.fromkeys(map(one_line, head.values[name])))
    relations = {*document.relations, *head.relations(document.uri)}
    if not may_replace(stated_status(metadata)):
        relations = {replace(r, label="EXTEND") if r.label == "UPDATE" else r for r in relations}
    is_open = not is_dated and (document.source_time is None or bool(FROM_PROPERTIES.fullmatch(document.media_type)))
    when = head.time(order) if is_open else None
    unclear = next((v for n in DATE_FIELDS if is_open and is_ambiguous(v := head.one(n))), "") if when is None else ""
    file_name = title_from_uri(document.uri)
    title = file_name if _is_section(document.title, document.segments, head) else document.title
    return (
        replace(
            document,
            title=(title == file_name and head.one("title")) or title,
            source_time=when or document.source_time,
            metadata=metadata,
            relations=tuple(sorted(relations, key=lambda r: (r.other_uri, r.label))),
            segments=_set_aside(document.text, document.segments, head.spans),
        ),
        is_dated or when is not None,
        [f"head of the text: {unclear!r} {explain_date(unclear)}"] if unclear else [],
    )


def _is_section(title: str, segments: Sequence[Segment], head: DocumentHead) -> bool:
    """Returns whether a title is the heading of the first of several sections below the fields: `# Summary`."""
    tops = [s for s in segments if s.kind == "heading" and s.heading and _HEADING_SEPARATOR not in s.heading]
    starts = [start for start, _ in head.spans]
    return len(tops) > 1 and tops[0].heading == title and bool(starts) and min(starts) < tops[0].char_start


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
        metadata={name: value for name, value in after.metadata.items() if name not in STATED_IN_TEXT},
        relations=tuple(r for r in after.relations if r not in head.relations(after.uri)),
    )
    return add_document_head(open_document, order)[0]


def _set_aside(text: str, segments: Sequence[Segment], spans: Sequence[tuple[int, int]]) -> tuple[Segment, ...]:
    """Returns the segments with spans as fields; a text of nothing but fields stays as it is."""
    out: list[Segment] = []
    for s in segments:
        edges = [(max(a, s.char_start), min(b, s.char_end)) for a, b in spans if a < s.char_end and b > s.char_start]
        at = s.char_start
        for start, end in edges:
            out += _trimmed(text, replace(s, char_start=at, char_end=start))
            out += _trimmed(text, replace(s, char_start=start, char_end=end, kind="fields"))
            at = end
        out += _trimmed(text, replace(s, char_start=at)) if edges else [s]
    return tuple(out if any(s.kind not in ("aside", *HEADINGS) for s in out) else segments)


def _trimmed(text: str, s: Segment) -> list[Segment]:
    part = text[s.char_start : s.char_end]
    start = s.char_start + len(part) - len(part.lstrip())
    return [replace(s, char_start=start, char_end=start + len(part.strip()))] if part.strip() else []


def read_head(text: str, segments: Sequence[Segment]) -> DocumentHead:
    """Returns the fields that a document states above its second heading and in sections named like a field.

    Fields with several titles or states are a list of things: such a text has no head. The last day that begins an
    entry of a section `History` is when the document was modified.
    """
    head = DocumentHead()
    once: dict[str, str] = {}
    end = sum(len(line) + 1 for line in text.split("\n", _MAX_LINES)[:_MAX_LINES])
    section, left, is_first, has_title, is_open, after_rfc = "", 0, False, False, True, False
    days: list[date] = []  # of the entries of a section `History`
    for s in _blocks(text, segments):
        is_open = is_open and s.char_start < end
        part = text[s.char_start : min(s.char_end, s.char_start + _MAX_PART_CHARS)]
        if s.kind == "heading":
            path = (s.heading or "").split(" > ")
            inline = _STATUS_HEADING.match(part)
            key = "status" if inline else _key(path[-1])
            is_first = key not in head.values
            is_of_document = len(path) <= 2 and (key == "status" or (is_first and is_open))
            section, left = (key if is_of_document else ""), _MAX_SECTION_LINES
            if len(path) <= 2 and _HISTORY.fullmatch(path[-1].strip()):
                section = "history"
            if inline and section and is_first:
                _add(head, "status", inline["value"])
            if not key:
                is_open = is_open and not (has_title or head.values)
                has_title = True
        elif section == "history":
            entries = filter(None, (_ENTRY.match(line.text) for line in _lines(part)))
            days += filter(None, (day_of_dateline(entry[1]) for entry in entries))
        elif section:
            for line in islice(_lines(part), left):
                if is_first:
                    _add(head, section, line.text)
                if _is_alone(section, line.text):
                    head.spans.append((s.char_start + line.start, s.char_start + line.end))
                left -= 1
        elif is_open and s.kind != "code":
            if after_rfc:
                _add(head, "title", part)
            is_rfc = bool(_RFC.search(part))
            fields = _rfc_fields(part) if is_rfc else _field_lines(part)
            if any(once.setdefault(key, f.value) != f.value for f in fields if (key := _key(f.name)) in _ONCE):
                return DocumentHead()
            known = [f for f in fields if _add_field(head, f.name, f.value)]
            if is_rfc or after_rfc or (s.kind == "table" and len(known) > 1):
                head.spans.append((s.char_start, s.char_end))
            else:
                head.spans.extend((s.char_start + f.start, s.char_start + f.end) for f in known)
            after_rfc = is_rfc
    if days:
        head.values.setdefault("modified", [max(days).isoformat()])
    return head


def _blocks(text: str, segments: Iterable[Segment]) -> Iterator[Segment]:
    """Yields segments, paragraphs and list items without a blank line between them as one; none below a list item."""
    heading: str | None = None
    block: Segment | None = None
    for s in segments:
        heading = s.heading if s.kind == "heading" else heading
        if s.kind == "label" or s.heading != heading:
            continue
        is_text = s.kind in ("prose", "aside")
        if block and is_text and not text[block.char_end : s.char_start].strip(" \t").removeprefix("\n").strip(" \t"):
            block = replace(block, char_end=s.char_end)
            continue
        if block:
            yield block
        block = s if is_text else None
        if not is_text:
            yield s
    if block:
        yield block


def _key(name: str) -> str:
    """Returns the known field of a name, empty where it is none."""
    key = normalize_field(name.strip(" *_:").replace("(s)", "s"))
    key = _OTHER_NAMES.get(key, key)
    return key if key in _KNOWN else ""


def _is_alone(key: str, line: str) -> bool:
    """Returns whether a line of the section of a field is its value, and nothing that somebody wrote about it."""
    words = _LINK.sub(r"\1", line)
    if key in DATE_FIELDS:
        return len(words) <= _MAX_STATUS_CHARS and bool(re.search(r"\d{4}", words))
    is_short = len(words) <= _MAX_STATUS_CHARS and (key != "status" or is_status(words))
    return is_short or key in ("title", *RELATION_FIELDS)


class _Line(NamedTuple):
    """A line without marks of lists, its span, and what joins it to the line before: nothing where it begins anew."""

    joint: str
    text: str
    start: int
    end: int


class _Field(NamedTuple):
    """A stated field and the span of its lines."""

    name: str
    value: str
    start: int = 0
    end: int = 0


def _lines(text: str) -> Iterator[_Line]:
    """Yields the lines that have text, without what is struck out; one that is not indented begins anew."""
    at = 0
    for line in _STRUCK_OUT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text).splitlines(keepends=True):
        mark = _MARKER.match(line)
        if plain := line[mark.end() if mark else 0 :].strip():
            yield _Line((", " if mark else " ") if line[0].isspace() else "", plain, at, at + len(line.rstrip()))
        at += len(line)


def _field_lines(text: str) -> list[_Field]:
    """Returns the fields of a paragraph, list or table that consists of them; nothing of any other."""
    found: list[_Field] = []
    rows: list[list[str]] = []
    for line in _lines(text):
        if line.text.startswith("|"):
            rows.append([cell.strip() for cell in line.text.strip("|").split("|")])
        elif is_field := _FIELD.fullmatch(line.text):
            found.append(_Field(is_field["name"], is_field["value"], line.start, line.end))
        elif line.joint and found:
            last = found[-1]
            found[-1] = last._replace(value=last.value + line.joint + line.text, end=line.end)
        else:
            return []
    rows = [row for row in rows if not all(re.fullmatch(r":?-+:?|", cell) for cell in row)]
    if len(rows) == 2 and not _key(rows[1][0]):
        found += [_Field(*pair) for pair in zip(*rows, strict=False)]
    return found + [_Field(name, value) for name, value in (row for row in rows if len(row) == 2)]


def _rfc_fields(text: str) -> list[_Field]:
    """Returns the fields in the left column of an RFC's first lines, and the month in the right one."""
    left = (re.split(r"\s{3,}", line.strip())[0] for line in text.splitlines())
    found = [_Field(m["name"], m["value"]) for line in left if (m := _FIELD.fullmatch(line))]
    return found + [_Field("date", month) for month in _RFC_DATE.findall(text)]


def _add_field(head: DocumentHead, name: str, value: str) -> bool:
    """Adds a field and returns whether it is one of a document; `Superseded: 2024-05-01 by ADR-12` is of the status."""
    if not (key := _key(name)) and stated_replacements(f"{name}: {value}"):
        key, value = "status", f"{name}: {value}"
    _add(head, key, value)
    return bool(key) or bool(_ADMINISTRATIVE.fullmatch(normalize_field(name.strip(" *_:"))))


def _add(head: DocumentHead, key: str, value: str) -> None:
    """Adds a value where the field is known and the value is no placeholder of a template."""
    value = value.strip(" \t|*_" if key == "status" else " \t|")[:_MAX_VALUE_CHARS]
    placeholder = _PLACEHOLDER if key == "status" or key in DATE_FIELDS else _BRACKETS
    is_placeholder = key not in RELATION_FIELDS and placeholder.search(_LINK.sub(r"\1", value))
    if not key or not value or is_placeholder or (key == "status" and not is_status(value)):
        return
    head.values.setdefault(key, []).append(value)
