"""What reads the parts of a scope of an index: how a statement is run, and where the scope is."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol


class Query(Protocol):
    """Runs one statement of an index."""

    def __call__(self, sql: str, values: Mapping[str, object], /) -> Any:
        """Returns the DuckDB result."""


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
