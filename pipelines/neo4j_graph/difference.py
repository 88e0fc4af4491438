"""What a load must do to the rows that the server holds of one label or relationship: a pure comparison by key."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from palimpsest.neo4j_graph.graph_model import OPEN

Row = Mapping[str, Any]


@dataclass
class Difference:
    """Rows that are there, by what becomes of them.

    Attributes:
        have: keys of the build's rows that need not be made.
        delete: written by a load that was cut short, and no longer wanted: no reader ever saw them.
        close: shown until now, and not by the build.
        reopen: the build's, closed by a load that was cut short.
    """

    have: set[int] = field(default_factory=set)
    delete: list[Row] = field(default_factory=list)
    close: list[Row] = field(default_factory=list)
    reopen: list[Row] = field(default_factory=list)

    def missing(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Returns the build's rows that the server lacks."""
        return frame.filter(~pl.col("key").is_in(list(self.have))) if self.have else frame


def difference(held: Iterable[Row], wanted: set[int], number: int, afresh: bool = False) -> Difference:
    """Compares what the server holds with what the build says.

    Args:
        held: `key`, `since` and `until` of each row; `until` is None or `OPEN` where the row was not closed.
        wanted: keys of the build's rows.
        number: the load's; rows with `since` equal to it were written by this load or by one that was cut short.
        afresh: no row of an earlier load is trusted, whatever its key says.
    """
    out = Difference()
    # The newest first: a load afresh that was cut short leaves two rows of one key, of which the old one stays closed.
    for row in sorted(held, key=lambda r: r["since"] != number):
        new, is_open = row["since"] == number, row["until"] in (None, OPEN)
        if row["key"] in wanted and (new or not afresh) and row["key"] not in out.have:
            out.have.add(row["key"])
            if not is_open:
                out.reopen.append(row)
        elif new:
            out.delete.append(row)
        elif is_open:
            out.close.append(row)
    return out
