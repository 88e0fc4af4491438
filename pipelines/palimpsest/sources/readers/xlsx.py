"""XLSX: the stored values of each sheet, a table for each run of rows, by openpyxl as a stream."""

import datetime as dt
import io
import warnings
from typing import Any

from palimpsest.core.errors import Rejected
from palimpsest.sources.extracted import Extraction, Source, limit_problems
from palimpsest.sources.readers.common.clean_text import clean_text, first_date, one_line, parse_name
from palimpsest.sources.readers.common.table_rows import TableLimits, add_table
from palimpsest.sources.readers.common.text_builder import TextBuilder
from palimpsest.sources.readers.office_package import Comments, office_properties, to_transitional
from palimpsest.store.collection_config import Limits
from palimpsest.text.dates import DateOrder

_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_MAX_ROWS_SEEN = 5_000_000  # empty ones too: a sheet has at most 1,048,576


def read_xlsx(source: Source, limits: Limits) -> Extraction:
    """Reads every sheet, its name as the heading; formulas give the value that was stored with them.

    Raises:
        Rejected: encrypted, corrupt, empty or beyond the limits of rows and cells.
    """
    import openpyxl

    with warnings.catch_warnings():  # about styles and extensions that do not touch the values
        warnings.simplefilter("ignore")
        book = openpyxl.load_workbook(
            io.BytesIO(to_transitional(source.data)), read_only=True, data_only=True, keep_links=False
        )
        try:
            builder, count, seen = TextBuilder(limits.max_chars), TableLimits(limits), 0
            comments, problems = Comments(source.data), list[str]()
            for sheet in book.worksheets:
                sheet.reset_dimensions()  # what a file claims of its size is often wrong
                started = False
                table: list[list[str]] = []
                for row in sheet.iter_rows(values_only=True):
                    seen += 1
                    if seen > _MAX_ROWS_SEEN:
                        raise Rejected(f"too large: more than {_MAX_ROWS_SEEN:,} rows, most of them empty; split it")
                    values = [_text(v) for v in row] if any(v is not None for v in row) else []
                    if any(values):
                        count.count(sum(map(bool, values)))
                        if not started:
                            builder.add(
                                one_line(clean_text(sheet.title)), "heading", heading=one_line(clean_text(sheet.title))
                            )
                            started = True
                        table.append(values)
                    elif table:
                        problems += _add_table(builder, table, sheet.title, source.dates)
                        table = []
                if table:
                    problems += _add_table(builder, table, sheet.title, source.dates)
                for comment in comments.of(getattr(sheet, "_worksheet_path", "")):
                    builder.add(comment.line, "prose", heading=one_line(clean_text(sheet.title)))
        finally:
            book.close()
    if not builder.segments:
        raise Rejected("empty: no sheet holds a value")
    properties = office_properties(source.data)
    document = builder.to_document(
        source,
        _MEDIA_TYPE,
        title=parse_name(properties.pop("title", None)),
        source_time=first_date(properties, "modified", "created", order=source.dates),
        metadata=properties,
    )
    return Extraction((document,), limit_problems(problems, limits))


def _add_table(builder: TextBuilder, table: list[list[str]], sheet: str, order: DateOrder | None) -> list[str]:
    """Appends a table under the name of its sheet and returns its problems."""
    heading = one_line(clean_text(sheet))
    problems = add_table(builder, _without_empty_columns(table), order, heading=heading)
    return [f"sheet {heading}: {p}" for p in problems]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, dt.datetime):
        return value.isoformat(" ", "seconds").removesuffix(" 00:00:00")
    return str(value).strip()


def _without_empty_columns(table: list[list[str]]) -> list[list[str]]:
    width = max(map(len, table))
    used = [c for c in range(width) if any(c < len(row) and row[c] for row in table)]
    return [[row[c] if c < len(row) else "" for c in used] for row in table]
