"""Since when the home knows what no date tells: the first time its document was read."""

import polars as pl

from palimpsest.memory.order import SCOPE

_DOCUMENT = [*SCOPE, "uri", "session_id"]


def known_from(memories: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Returns (memory_id, known_from) of undated memories: those without `observed_at` and `valid_from`.

    What was known at a moment before cannot include them, whenever they were written.

    Args:
        memories: the memories table.
        documents: the documents table, all versions: the first of them that was read counts.
    """
    first = documents.group_by(_DOCUMENT).agg(known_from=pl.col("ingested_at").min())
    line = documents.select("document_id", *_DOCUMENT).join(first, on=_DOCUMENT, how="left", nulls_equal=True)
    return (
        memories.filter(undated())
        .select("memory_id", "document_id")
        .join(line.select("document_id", "known_from"), on="document_id", how="inner")
        .select("memory_id", "known_from")
        .sort("memory_id")
    )


def undated() -> pl.Expr:
    """Tells of each memory whether neither its source nor its text says when it is from."""
    return pl.col("observed_at").is_null() & pl.col("valid_from").is_null()
