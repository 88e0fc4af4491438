"""Tables of many rows as text: a line `| a | b |` for each row, in blocks of a chunk's size that repeat the header."""

import re
from collections.abc import Iterable, Sequence

from palimpsest.core.errors import Rejected
from palimpsest.sources.readers.common.clean_text import clean_text, one_line
from palimpsest.sources.readers.common.text_builder import TextBuilder
from palimpsest.sources.readers.common.validity import find_validity_columns, parse_validity
from palimpsest.sources.records.extracted import Kind
from palimpsest.sources.records.stated_fields import StatedFields
from palimpsest.store.limits import Limits
from palimpsest.text.dates import DateOrder

_BLOCK_CHARS = 1_200  # about 400 tokens of a table
_MAX_HEADER_CHARS = 300
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
    header = lines[0] if len(lines) > 1 and _is_header(rows[0]) else None
    block: list[str] = []
    size = 0
    for line in lines:
        if block and size + len(line) > _BLOCK_CHARS:
            add("\n".join(block), "table")
            block = [header] if header else []
            size = len(header or "")
        block.append(line)
        size += len(line)
    if block:
        add("\n".join(block), "table")


def _is_header(row: Sequence[str]) -> bool:
    cells = [c.strip() for c in row if c.strip()]
    return len(cells) > 1 and sum(map(len, cells)) <= _MAX_HEADER_CHARS and not any(_NUMBER.fullmatch(c) for c in cells)
