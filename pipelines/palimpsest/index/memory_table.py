"""The table of memories in the order of the index, and what follows from that order."""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence

import polars as pl

from palimpsest.core.batches.frame_rows import FrameRows
from palimpsest.core.batches.local_processes import map_chunks
from palimpsest.core.scopes import SCOPE
from palimpsest.index.decided_values import with_decided_values
from palimpsest.memories.memory_times import memory_times, own_clock
from palimpsest.text.memory_periods import stated_periods
from palimpsest.text.periods import Period, day_period

PeriodRow = tuple[int, float, float]
"""Row of a memory, and where one of its periods begins and ends, in years."""
_TEXTS_PER_CHUNK = 8192
MEMORY_COLUMNS = (
    "row",
    "memory_id",
    "session_id",
    "document_id",
    "ordinal",
    "unit",
    "type",
    "text",
    "title",
    "heading",
    "page",
    "speaker",
    "char_start",
    "char_end",
    "observed_at",
    "utc_offset",
    "valid_from",
    "valid_until",
    "known_from",
    "is_latest",
    "superseded_by",
    "confidence",
    "importance",
    "kind",
    "confidence_source",
    "importance_source",
    "tags",
    "token_count",
    "uri",
    "document_title",
    "support",
    "retention_until",
    "pii",
    "user_visible",
    "created_at",
    "updated_at",
)


def memory_rows(t: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Returns memories sorted by (scope, id), numbered, with version and source; `scope` numbers the scopes."""
    documents = t["documents"].select("document_id", "uri", pl.col("title").alias("document_title"))
    versions = t["versions"].select(
        "memory_id",
        "is_latest",
        pl.col("valid_from").alias("_from"),
        pl.col("valid_until").alias("_until"),
        "superseded_by",
        pl.lit(True).alias("_versioned"),
    )
    versioned = pl.col("_versioned").fill_null(False)
    return (
        with_decided_values(t["memories"], t)
        .drop("created_at", "updated_at")
        .sort(*SCOPE, "memory_id")
        .join(documents, on="document_id", how="left", maintain_order="left")
        .join(versions, on="memory_id", how="left", maintain_order="left")
        .join(
            memory_times(t["memories"], t["documents"], t["versions"]),
            on="memory_id",
            how="left",
            maintain_order="left",
        )
        .with_row_index("row")
        .with_columns(
            pl.col("row").cast(pl.Int32),
            pl.struct(SCOPE).rle_id().cast(pl.Int32).alias("scope"),
            pl.col("is_latest").fill_null(True),
            pl.when(versioned).then("_from").otherwise("valid_from").alias("valid_from"),
            pl.when(versioned).then("_until").otherwise("valid_until").alias("valid_until"),
            pl.col("token_count").fill_null(0),
        )
    )


def scope_table(memories: pl.DataFrame) -> pl.DataFrame:
    """Returns the scopes by number, with the range of rows of each."""
    return memories.group_by("scope", maintain_order=True).agg(
        pl.col(SCOPE).first(),
        pl.col("row").first().alias("first_row"),
        pl.len().cast(pl.Int32).alias("size"),
        pl.col("token_count").sum().alias("tokens"),
    )


def following_rows(order: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Returns (row, next_row) of memories that follow each other, by row."""
    number = rows.select("memory_id", "row")
    return (
        order.join(number, on="memory_id")
        .join(number.rename({"memory_id": "next_id", "row": "next_row"}), on="next_id")
        .select("row", "next_row")
        .sort("row")
    )


def find_periods(memories: pl.DataFrame) -> Iterator[list[PeriodRow]]:
    """Returns the periods of memories, chunk by chunk; other processes begin to find them at once."""
    texts = FrameRows(memories.select("row", "text", own_clock()))
    return map_chunks(_periods_of_texts, texts, _TEXTS_PER_CHUNK, "index")


def period_table(periods: Iterable[list[PeriodRow]]) -> pl.DataFrame:
    """Returns (row, begins, ends) in years of what memories state, and of the day they were observed on, by row."""
    made = [row for chunk in periods for row in chunk]
    return pl.DataFrame(made, schema={"row": pl.Int32, "begins": pl.Float64, "ends": pl.Float64}, orient="row")


def _periods_of_texts(texts: Sequence[tuple[int, str | None, dt.datetime | None]]) -> list[PeriodRow]:
    return [
        (row, begins, ends)
        for row, text, observed in texts
        for begins, ends in sorted(_memory_periods(text or "", observed))
    ]


def _memory_periods(text: str, observed: dt.datetime | None) -> set[Period]:
    if observed is None:
        return set(stated_periods(text, None))
    return {*stated_periods(text, observed.date()), day_period(observed)}
