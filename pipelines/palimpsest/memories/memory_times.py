"""When a memory was said, when the home first read it, and when it last changed what it has of it."""

import polars as pl

from palimpsest.core.ids import DOCUMENT, VERSION_ORDER

_STATED = ("title", "source_time", "utc_offset", "kind", "metadata", "trust")
"""What a document version states of all its memories."""


def stated_since(documents: pl.DataFrame) -> pl.DataFrame:
    """Returns (document_id, stated_since): when the version was read since which title, time and metadata are equal.

    Args:
        documents: the documents table, all versions.
    """
    ordered = documents.sort(VERSION_ORDER)
    runs = ordered.with_columns(run=pl.struct(_STATED).rle_id().over(DOCUMENT))
    return runs.select("document_id", stated_since=pl.col("ingested_at").min().over(*DOCUMENT, "run"))


def memory_times(memories: pl.DataFrame, documents: pl.DataFrame, versions: pl.DataFrame) -> pl.DataFrame:
    """Returns (memory_id, known_from, created_at, updated_at), sorted by id; null where the home read no document.

    `created_at` is when a version of its document that has the memory was first read. `updated_at` is when its heading,
    what it states or what its document states changed, or, of a superseded memory, when the newer one or the version of
    its document that left it out was read, if that was later: a version that leaves a memory alone does not update it.
    `known_from` is `created_at` of memories without `observed_at` and `valid_from`: what was known before cannot
    include them, whenever they were written.

    Args:
        memories: the memories table.
        documents: the documents table, all versions.
        versions: the versions table.
    """
    read = documents.select(superseded_by="document_id", superseded_at="ingested_at").unique("superseded_by")
    newer = pl.concat([memories.select(superseded_by="memory_id", superseded_at="created_at"), read])
    return (
        memories.select("memory_id", "created_at", "updated_at", undated=is_undated())
        .join(versions.select("memory_id", "superseded_by"), on="memory_id", how="left")
        .join(newer, on="superseded_by", how="left")
        .select(
            "memory_id",
            pl.when("undated").then("created_at").alias("known_from"),
            "created_at",
            pl.max_horizontal("updated_at", "superseded_at"),
        )
        .sort("memory_id")
    )


def own_clock() -> pl.Expr:
    """Returns `observed_at` as the clock of the speaker showed it, for its day; UTC where `utc_offset` is null."""
    return pl.col("observed_at") + pl.duration(minutes=pl.col("utc_offset").fill_null(0))


def is_undated() -> pl.Expr:
    """Returns whether neither the source nor the text of a memory has a time."""
    return pl.col("observed_at").is_null() & pl.col("valid_from").is_null()
