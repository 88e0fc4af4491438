"""What a load must do to the rows that the server has of one kind or relationship: a pure comparison by key."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import polars as pl

from palimpsest.neo4j_graph.model import OPEN

Row: TypeAlias = Mapping[str, Any]


@dataclass
class Difference:
    """Rows on the server, by what a load does to them.

    Attributes:
        unchanged: keys of the build's rows that need not be created.
        delete: written by an interrupted load and no longer wanted: no reader ever saw them.
        close: visible until now, and not in the build.
        reopen: in the build, closed by an interrupted load.
    """

    unchanged: set[int] = field(default_factory=set)
    delete: list[Row] = field(default_factory=list)
    close: list[Row] = field(default_factory=list)
    reopen: list[Row] = field(default_factory=list)

    def missing(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Returns the build's rows that the server lacks."""
        return frame.filter(~pl.col("key").is_in(list(self.unchanged))) if self.unchanged else frame


def difference(listed: Iterable[Row], wanted: set[int], number: int, full_reload: bool = False) -> Difference:
    """Compares what the server has with what the build has.

    Args:
        listed: `key`, `since` and `until` of each row on the server; `until` is None or `OPEN` where it is not closed.
        wanted: keys of the build's rows.
        number: the load's; rows with `since` equal to it were written by this load or by an interrupted one.
        full_reload: no row of an earlier load is trusted, whatever its key is.
    """
    out = Difference()
    # The newest first: an interrupted full reload leaves two rows of one key, of which the old one stays closed.
    for row in sorted(listed, key=lambda r: r["since"] != number):
        new, is_open = row["since"] == number, row["until"] in (None, OPEN)
        if row["key"] in wanted and (new or not full_reload) and row["key"] not in out.unchanged:
            out.unchanged.add(row["key"])
            if not is_open:
                out.reopen.append(row)
        elif new:
            out.delete.append(row)
        elif is_open:
            out.close.append(row)
    return out
