"""A table as a notebook shows it: every row's text in full, for a person must read what they judge."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

_CELL = "text-align:left;vertical-align:top;white-space:pre-wrap;overflow-wrap:anywhere;max-width:40em"


@dataclass(frozen=True)
class Table:
    """Rows with their columns; as HTML the words of sources are escaped and nothing is cut."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(c)}</th>" for c in self.columns)
        body = "".join(f"<tr>{''.join(_cell(v) for v in row)}</tr>" for row in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def __repr__(self) -> str:
        lines = [" | ".join(self.columns), *(" | ".join(_format_cell(v) for v in row) for row in self.rows)]
        return "\n".join(lines)


def table(rows: pl.DataFrame | Sequence[Mapping[str, Any]]) -> Table:
    """Returns a frame, or rows of equal keys, as a table that shows every text in full."""
    if isinstance(rows, pl.DataFrame):
        return Table(tuple(rows.columns), tuple(rows.rows()))
    columns = tuple(rows[0]) if rows else ()
    return Table(columns, tuple(tuple(row[c] for c in columns) for row in rows))


def _cell(value: Any) -> str:
    return f'<td style="{_CELL}">{html.escape(_format_cell(value))}</td>'


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "\n".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
