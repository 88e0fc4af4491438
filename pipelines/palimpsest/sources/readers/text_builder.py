"""Text built part by part with the exact span of each, and the headings above the current place."""

import re
import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from palimpsest.core.errors import Rejected
from palimpsest.core.ids import JsonObject
from palimpsest.sources.extracted import ExtractedDocument, Kind, Segment, Source, StatedFields
from palimpsest.sources.find_secrets import shorten_value
from palimpsest.sources.readers.document_head import explain_date, explain_reversed, is_reversed
from palimpsest.sources.readers.encodings import clean_text, one_line, title_from_uri
from palimpsest.store.collection_config import Limits
from palimpsest.text.dates import NO_DATE_WORDS, DateOrder, parse_stated_end, parse_stated_time
from palimpsest.text.markup import shown_words

_MAX_HEADING_CHARS = 200


class HeadingPath:
    """The headings above the current place."""

    def __init__(self) -> None:
        self._stack: list[tuple[int, str]] = []

    def push(self, level: int, title: str) -> str | None:
        """Enters a heading (1 is the highest level) and returns the path that ends with it."""
        while self._stack and self._stack[-1][0] >= level:
            self._stack.pop()
        if title := one_line(title)[:_MAX_HEADING_CHARS]:
            self._stack.append((level, title))
        return self.path

    @property
    def path(self) -> str | None:
        """The headings joined with " > ", null above the first."""
        return self.below(())

    def below(self, items: Iterable[str]) -> str | None:
        """Returns the path of what is part of list items, the outermost first; null where there is nothing above."""
        return " > ".join([*(title for _, title in self._stack), *items]) or None


# What a list item says of the items below it, and a paragraph of the list that follows it.

_MAX_LABEL_CHARS, _MAX_LABEL_SOURCE_CHARS = 120, 1_000
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[.!?]$")


def item_label(words: str) -> tuple[str, bool]:
    """Returns what stands for a list item above the items below it, and whether it only introduces those.

    `Attendees:` says nothing without them; `Matteo: we should wait` does.
    """
    line = one_line(shown_words(words[:_MAX_LABEL_SOURCE_CHARS]))
    label = line.rstrip(": ")
    is_introduction = line.endswith(":") and len(label) <= _MAX_LABEL_CHARS and not _SENTENCE_END.search(label)
    return textwrap.shorten(label, _MAX_LABEL_CHARS, placeholder="…"), is_introduction


def list_introduction(words: str) -> tuple[str, bool]:
    """Returns the same of a paragraph before a list: its last sentence, empty where it does not end with a colon."""
    line = one_line(words)
    if not line.endswith(":"):
        return "", False
    last = max((m.end() for m in _SENTENCE_END.finditer(line)), default=0)
    label, is_introduction = item_label(line[last:])
    return label, is_introduction and not last


class TextBuilder:
    """Joins parts to one text and records the exact span of each."""

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self._parts: list[str] = []
        self._length = 0
        self.segments: list[Segment] = []

    def add(
        self,
        text: str,
        kind: Kind,
        *,
        prefix: str = "",
        gap: str = "\n\n",
        heading: str | None = None,
        page: int | None = None,
        speaker: str | None = None,
        said_at: datetime | None = None,
        stated: StatedFields | None = None,
    ) -> None:
        r"""Appends a segment.

        Args:
            text: of the segment.
            kind: its role.
            prefix: text directly before the segment, outside of its span.
            gap: text between it and the segment before.
            heading: see `Segment`, as all that follow.
            page: from 1.
            speaker: who says it.
            said_at: when, in UTC.
            stated: what it states of its memory.

        Raises:
            Rejected: the text would be longer than the limit.
        """
        lead = (gap if self._parts else "") + prefix
        start = self._length + len(lead)
        self._length = start + len(text)
        if self._length > self._max_chars:
            raise Rejected(f"too large: more than {self._max_chars:,} characters of text; split the source")
        self._parts += (lead, text)
        self.segments.append(Segment(start, self._length, kind, heading, page, speaker, said_at, stated))

    @property
    def text(self) -> str:
        """The whole text so far."""
        return "".join(self._parts)

    def to_document(
        self,
        source: Source,
        media_type: str,
        *,
        title: str | None = None,
        source_time: datetime | None = None,
        metadata: JsonObject | None = None,
    ) -> ExtractedDocument:
        """Returns the document of a source; without a title it has the name of its file."""
        return ExtractedDocument(
            uri=source.uri,
            media_type=media_type,
            text=self.text,
            title=title or title_from_uri(source.uri),
            source_time=source_time,
            metadata=metadata or {},
            segments=tuple(self.segments),
        )


def first_heading(segments: Iterable[Segment]) -> str | None:
    """Returns the path of the first heading; null where there is none."""
    return next((s.heading for s in segments if s.kind == "heading" and s.heading), None)


# When a turn or a row of a table is valid: its `valid_from` and `valid_until`.


_FROM, _UNTIL = {"validfrom"}, {"validuntil", "validto"}


class ValidityColumns(NamedTuple):
    """The columns of a table that state when its rows are valid; None for one that is not there."""

    starts: int | None
    ends: int | None

    def cells(self, row: Sequence[str]) -> tuple[str | None, str | None]:
        """Returns the two cells of a row, which may be shorter than the header."""
        first, second = (row[c] if c is not None and c < len(row) else None for c in self)
        return first, second


def find_validity_columns(header: Sequence[str]) -> ValidityColumns | None:
    """Returns where a header names `valid_from` or `valid_until` (`Valid from`, `valid-to`), None where it does not."""
    names = [re.sub(r"[-_\s]", "", cell).lower() for cell in header]
    starts, ends = (next((i for i, n in enumerate(names) if n in wanted), None) for wanted in (_FROM, _UNTIL))
    return None if starts is None and ends is None else ValidityColumns(starts, ends)


def parse_validity(starts: Any, ends: Any, order: DateOrder | None = None) -> tuple[StatedFields | None, list[str]]:
    """Returns when something is valid, None where neither value is a date, and a problem for each that should be one.

    Args:
        starts: the value of `valid_from`.
        ends: the value of `valid_until`; a day, month or year is included whole.
        order: what comes first in dates of three numbers.
    """
    first, last = parse_stated_time(starts, order), parse_stated_end(ends, order)
    problems = [
        f"{name} {shorten_value(value)!r} {explain_date(value)}"
        for name, value, found in (("valid_from", starts, first), ("valid_until", ends, last))
        if found is None and str(value or "").strip().lower() not in NO_DATE_WORDS
    ]
    if is_reversed(starts, ends, order):
        return None, [explain_reversed(starts, ends)]
    if first is None and last is None:
        return None, problems
    return StatedFields(
        valid_from=first.astimezone(UTC).isoformat() if first else None, valid_until=last.isoformat() if last else None
    ), problems


# Tables of many rows as text: a line `| a | b |` for each row, in blocks of a chunk's size that repeat the header.

TABLE_BLOCK_CHARS = 1_200
"""Size of a part of a table: about 400 tokens."""

_MAX_HEADER_CHARS = 300
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(r"[^A-Za-z\d]*+\d[^A-Za-z]*+")


class TableLimits:
    """Counts the rows and cells of one source against its limits; empty ones are free."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._rows, self._cells = limits, 0, 0

    def count(self, cells: int) -> None:
        """Counts one row.

        Raises:
            Rejected: it is one too many.
        """
        self._rows, self._cells = self._rows + 1, self._cells + cells
        if self._rows > self._limits.max_rows or self._cells > self._limits.max_cells:
            raise Rejected(
                f"too large: more than {self._limits.max_rows:,} rows or {self._limits.max_cells:,} cells; split the "
                "table, or keep it where it can be queried and describe it here"
            )


def format_row(cells: Iterable[str]) -> str:
    """Returns a row as text on one line, empty when every cell is empty; empty cells at the end are left out."""
    words = [one_line(clean_text(c)) for c in cells]
    while words and not words[-1]:
        words.pop()
    return "| " + " | ".join(words) + " |" if words else ""


def add_table(
    builder: TextBuilder,
    rows: Sequence[Sequence[str]],
    order: DateOrder | None = None,
    heading: str | None = None,
    page: int | None = None,
) -> list[str]:
    """Appends the rows of one table; the header, where the first row is one, begins every block.

    Rows that are valid at other times, by columns `valid_from` and `valid_until`, are separate blocks. Returns a
    problem for each cell there that is not a date.

    Raises:
        Rejected: the text would be longer than the limit of the builder.
    """
    columns = find_validity_columns(rows[0]) if rows else None
    if columns is None or len(rows) < 2:
        _add_rows(builder, rows, heading, page)
        return []
    problems: list[str] = []
    parts: list[tuple[StatedFields | None, list[Sequence[str]]]] = []
    for number, row in enumerate(rows[1:], 2):
        stated, wrong = parse_validity(*columns.cells(row), order)
        problems += (f"row {number}: {p}" for p in wrong)
        if not parts or parts[-1][0] != stated:
            parts.append((stated, [rows[0]]))
        parts[-1][1].append(row)
    for stated, block in parts:
        _add_rows(builder, block, heading, page, stated)
    return problems


def _add_rows(
    builder: TextBuilder,
    rows: Sequence[Sequence[str]],
    heading: str | None,
    page: int | None,
    stated: StatedFields | None = None,
) -> None:
    def add(text: str, kind: Kind) -> None:
        builder.add(text, kind, heading=heading, page=page, stated=stated)

    lines = [line for row in rows if (line := format_row(row))]
    if len(lines) == 1 and lines[0].count(" | ") == 0:
        add(lines[0][2:-2], "prose")
        return
    for block in table_blocks(lines, has_header=_is_header(rows[0]) if rows else False):
        add("\n".join(block), "table")


def _is_header(row: Sequence[str]) -> bool:
    cells = [c.strip() for c in row if c.strip()]
    return len(cells) > 1 and sum(map(len, cells)) <= _MAX_HEADER_CHARS and not any(_NUMBER.fullmatch(c) for c in cells)


def table_blocks(rows: Sequence[str], *, has_header: bool) -> list[list[str]]:
    """Returns the rows of a table in blocks; the first row begins each of them where it is the header."""
    head = list(rows[:1]) if has_header and len(rows) > 1 else []
    blocks: list[list[str]] = []
    size = 0
    for row in rows:
        if not blocks or (size + len(row) > TABLE_BLOCK_CHARS and len(blocks[-1]) > len(head)):
            blocks.append(list(head) if blocks else [])
            size = sum(map(len, blocks[-1]))
        blocks[-1].append(row)
        size += len(row)
    return blocks


def looks_like_header(rows: Sequence[str]) -> bool:
    """Returns whether the first row has no number where most others have one."""
    others = rows[1:]
    return bool(others) and not _DIGIT.search(rows[0]) and 2 * sum(bool(_DIGIT.search(r)) for r in others) > len(others)
