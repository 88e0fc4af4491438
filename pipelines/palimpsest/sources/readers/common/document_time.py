"""When a document is from: by what it states, else its name, else its title, else the properties of the file.

docs/sources.md lists the fields and their order.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import PurePosixPath
from typing import Any

from palimpsest.sources.extracted import CONVERSATION, QUOTED_IN, SUITE_ROW, ExtractedDocument, format_value
from palimpsest.text.dates import (
    DATE_ORDER_HINT,
    NO_DATE_WORDS,
    DateOrder,
    is_ambiguous,
    parse_stated_end,
    parse_stated_time,
    written_dates,
)

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
)
"""Fields of front matter and sidecars that date a document, the strongest first; see `normalize_field`."""

_VALIDITY = ("validfrom", "validuntil")
_SEPARATOR = " > "
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
    if found is not None and (own is None or own.date() != found):
        time = datetime(found.year, found.month, found.day, tzinfo=UTC)
        return replace(document, source_time=time), []
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
        if found is None and not unclear and end >= 3:
            found, _ = _one("-".join(parts[end - 3 : end]), order) if parts[end - 3].isdigit() else (None, [])
    return found, unclear


def _title_date(document: ExtractedDocument, order: DateOrder | None) -> tuple[date | None, list[str]]:
    """Returns the date in the title, else in the first heading; none where its sibling headings name other days."""
    paths = [s.heading.split(_SEPARATOR) for s in document.segments if s.kind == "heading" and s.heading]
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


def _one(text: str, order: DateOrder | None) -> tuple[date | None, list[str]]:
    days, unclear = written_dates(text, order)
    return (next(iter(days)) if len(days) == 1 else None), sorted(unclear)
