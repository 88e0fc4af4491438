"""The scope columns: (collection, user_id, project_id), the isolation boundary of every derived table.

`project_id` is never null in a table: "" is the user's general memory, so that no join drops its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the query path imports this module, and polars is not in the base install
    import polars as pl

SCOPE = ("collection", "user_id", "project_id")
GENERAL = ""
"""The project_id of what belongs to no project."""

ScopeKey = tuple[str, str, str]


def scope_parts(collection: str, user_id: str, project_id: str = GENERAL) -> tuple[str, ...]:
    """Returns what ids are made of for a scope: the project only where there is one, so that older ids stay."""
    return (collection, user_id, project_id) if project_id else (collection, user_id)


def by_scope(frame: pl.DataFrame) -> dict[ScopeKey, pl.DataFrame]:
    """Splits a table by its scope columns; sorted by scope, rows in their order."""
    parts = frame.partition_by(SCOPE, as_dict=True, maintain_order=True)
    return {(str(c), str(u), str(p)): rows for (c, u, p), rows in sorted(parts.items())}
