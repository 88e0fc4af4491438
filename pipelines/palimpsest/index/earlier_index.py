"""What the index of the build before has of this build's texts: their periods, and the words of unchanged scopes.

Both follow from texts alone, and finding them is half of the work on an index. The caller makes sure that the same code
wrote the earlier one. What of it cannot be read is found anew.
"""

import tempfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

from palimpsest.core.ids import SCOPE
from palimpsest.index.memory_table import PERIODS, ScopeWords

_TEXT = ("memory_id", "text", "observed_at", "utc_offset")
"""What the periods of a memory follow from, and its id."""


def earlier_periods(earlier: Path | None, memories: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Returns the periods (row, begins, ends) that an earlier index has of memories, and the other memories.

    Args:
        earlier: the index; None where there is none.
        memories: row and `_TEXT` of every memory.
    """
    nothing = pl.DataFrame(schema=PERIODS)
    read = _read(
        earlier,
        {
            "memories": f"SELECT row AS earlier, {', '.join(_TEXT)} FROM memories",
            "periods": "SELECT row AS earlier, begins, ends FROM periods",
        },
    )
    if not read:
        return nothing, memories
    own = memories.select("row", *_TEXT).with_columns(pl.col("observed_at").dt.replace_time_zone(None))
    known = own.join(read["memories"].cast(own.drop("row").schema), on=_TEXT, nulls_equal=True).select("row", "earlier")
    periods = known.join(read["periods"], on="earlier").select(*PERIODS).cast(PERIODS)
    return periods, memories.join(known, on="row", how="anti", maintain_order="left")


def earlier_words(earlier: Path | None, scopes: pl.DataFrame) -> list[ScopeWords]:
    """Returns the words of those scopes whose texts are as they were in an earlier index, in order of their numbers.

    Args:
        earlier: the index; None where there is none.
        scopes: see `scope_table`.
    """
    found = _read(earlier, {"scopes": f"SELECT scope AS earlier, first_row, {', '.join(SCOPE)}, words_key FROM scopes"})
    if not found:
        return []
    named = scopes.select("scope", *SCOPE, "words_key")
    known = named.join(found["scopes"], on=[*SCOPE, "words_key"]).sort("scope")
    if known.is_empty():
        return []
    read = _read(
        earlier,
        {
            "terms": "SELECT scope AS earlier, term, first, df FROM terms ORDER BY first",
            "postings": "SELECT row, score FROM postings ORDER BY rowid",
        },
    )
    return _words_of(known, read["terms"], read["postings"]) if read else []


def _words_of(known: pl.DataFrame, terms: pl.DataFrame, postings: pl.DataFrame) -> list[ScopeWords]:
    """Returns the words of scopes (scope, earlier, first_row): terms of a scope, and their postings, are adjacent."""
    rows, scores = postings["row"].to_numpy(), postings["score"].to_numpy()
    starts = np.flatnonzero(np.diff(terms["earlier"].to_numpy(), prepend=-1))
    place = {terms["earlier"][a]: (a, b) for a, b in pairwise([*starts.tolist(), terms.height])}
    made = []
    for scope, earlier, first_row in known.select("scope", "earlier", "first_row").iter_rows():
        start, end = place[earlier]
        own = terms[start:end]
        first, last = own["first"][0], own["first"][-1] + own["df"][-1]
        counted = own.select("term", pl.col("first") - first, "df")
        made.append(ScopeWords(scope, counted, rows[first:last] - np.int32(first_row), scores[first:last]))
    return made


def _read(path: Path | None, statements: Mapping[str, str]) -> dict[str, pl.DataFrame]:
    """Returns what statements read of an index, by name; nothing where there is none, or it cannot be read."""
    if path is None or not path.is_file():
        return {}
    try:
        with tempfile.TemporaryDirectory() as folder, duckdb.connect(str(path), read_only=True) as db:
            read = {}
            for table, statement in statements.items():
                part = Path(folder) / f"{table}.parquet"
                db.execute(f"COPY ({statement}) TO $path (FORMAT parquet)", {"path": str(part)})
                read[table] = pl.read_parquet(part, memory_map=False)
            return read
    except (duckdb.Error, OSError):
        return {}
