"""When the home first read a memory, and when it last changed what it has of it."""

import polars as pl

from palimpsest.core.scopes import SCOPE

_DOCUMENT = [*SCOPE, "uri", "session_id"]


def memory_times(memories: pl.DataFrame, documents: pl.DataFrame, versions: pl.DataFrame) -> pl.DataFrame:
    """Returns (memory_id, known_from, created_at, updated_at), sorted by id; null where the home read no document.

    `created_at` is when the document was first read. `updated_at` is when the version of the document that has the
    memory now was read, or, of a superseded memory, the newer one's version if that was later. `known_from` is
    `created_at` of memories without `observed_at` and `valid_from`: what was known before cannot include
    them, whenever they were written.

    Args:
        memories: the memories table.
        documents: the documents table, all versions: the first of them that was read counts.
        versions: the versions table.
    """
    first = documents.group_by(_DOCUMENT).agg(created_at=pl.col("ingested_at").min())
    dates = documents.select("document_id", "ingested_at", *_DOCUMENT).join(
        first, on=_DOCUMENT, how="left", nulls_equal=True
    )
    read = memories.select("memory_id", "document_id", undated=is_undated()).join(
        dates.select("document_id", "ingested_at", "created_at"), on="document_id", how="left"
    )
    newer = read.select(superseded_by="memory_id", superseded_at="ingested_at")
    return (
        read.join(versions.select("memory_id", "superseded_by"), on="memory_id", how="left")
        .join(newer, on="superseded_by", how="left")
        .select(
            "memory_id",
            pl.when("undated").then("created_at").alias("known_from"),
            "created_at",
            updated_at=pl.max_horizontal("ingested_at", "superseded_at"),
        )
        .sort("memory_id")
    )


def is_undated() -> pl.Expr:
    """Returns whether neither the source nor the text of a memory has a time."""
    return pl.col("observed_at").is_null() & pl.col("valid_from").is_null()
