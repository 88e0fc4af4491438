"""What reads the parts of a scope of an index: how a statement is run, and where the scope is."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import duckdb


class Query(Protocol):
    """Runs one statement of an index."""

    def __call__(self, sql: str, values: Mapping[str, object], /) -> Any:
        """Returns the DuckDB result."""


def read_clocks(query: Query, sql: str, values: Mapping[str, object]) -> Any:
    """Runs a statement that names `utc_offset`; an index of an earlier version has none, and every offset is null."""
    try:
        return query(sql, values)
    except duckdb.BinderException:
        return query(sql.replace("utc_offset", "NULL::BIGINT"), values)


class Range(NamedTuple):
    """Where a scope is in the tables: its first row, how many rows, and its number."""

    first: int
    size: int
    number: int

    @property
    def rows(self) -> dict[str, int]:
        """Values of a statement that reads its rows."""
        return {"first": self.first, "last": self.first + self.size - 1}

    @property
    def scope(self) -> dict[str, int]:
        """Values of a statement that reads by its number."""
        return {"scope": self.number}
