"""Until when memories hold by their own words, where neither a turn nor a document states it in a field."""

import datetime as dt

import polars as pl

from palimpsest.memories.memory_times import own_clock
from palimpsest.text.stated_ends import ENDS_PATTERN, stated_end

_TIME = pl.Datetime("us", "UTC")
_SAME = ("memory_id", "observed_at", "utc_offset", "valid_from")


def text_ends(rows: pl.DataFrame, previous: pl.DataFrame | None = None) -> pl.Series:
    """Returns `valid_until` of some memories: the stated one, else the end of the last day that the text states.

    Days are those of the speaker's clock, UTC where that is unknown. A text states no end of a memory without a day,
    and none that is not after `valid_from`.

    Args:
        rows: memory_id, text, observed_at, utc_offset, and the stated valid_from and valid_until.
        previous: memories of an earlier build made by the same code: what had no end then has none in its text.
    """
    open_rows = rows.select(*_SAME, "text", "valid_until").filter(
        pl.col("valid_until").is_null()
        & pl.col("observed_at").is_not_null()
        & pl.col("text").str.contains(ENDS_PATTERN)
    )
    if previous is not None:
        endless = previous.filter(pl.col("valid_until").is_null())
        open_rows = open_rows.join(endless, on=_SAME, how="anti", nulls_equal=True)
    said = open_rows.select("text", own_clock(), pl.col("utc_offset").fill_null(0)).iter_rows()
    found_ends = [_end_of(stated_end(text, at.date()), offset) for text, at, offset in said]
    ends = open_rows.select("memory_id", text_end=pl.Series(found_ends, dtype=_TIME))
    found = rows.select("memory_id", "valid_from", "valid_until").join(
        ends, on="memory_id", how="left", maintain_order="left"
    )
    is_after = pl.col("valid_from").is_null() | (pl.col("text_end") > pl.col("valid_from"))
    return found.select(pl.coalesce("valid_until", pl.when(is_after).then("text_end")))["valid_until"]


def _end_of(day: dt.date | None, utc_offset: int) -> dt.datetime | None:
    """Returns the first instant after a day of a clock so many minutes east of UTC."""
    after = dt.timedelta(days=1, minutes=-utc_offset)
    return dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC) + after if day else None
