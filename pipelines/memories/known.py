"""When the home first read a memory, and when what it says of the memory last changed."""

import polars as pl

from palimpsest.memories.order import SCOPE

_DOCUMENT = [*SCOPE, "uri", "session_id"]


def known_from(memories: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Returns (memory_id, known_from) of undated memories: those without `observed_at` and `valid_from`.

    What was known at a moment before cannot include them, whenever they were written.

    Args:
        memories: the memories table.
        documents: the documents table, all versions: the first of them that was read counts.
    """
    first = _first_read(documents).select("document_id", known_from="first_read")
    return (
        memories.filter(undated())
        .select("memory_id", "document_id")
        .join(first, on="document_id", how="inner")
        .select("memory_id", "known_from")
        .sort("memory_id")
    )


def recorded(memories: pl.DataFrame, documents: pl.DataFrame, versions: pl.DataFrame) -> pl.DataFrame:
    """Returns (memory_id, created_at, updated_at), sorted by id, both null where the home did not read the document.

    `created_at` is when the document was first read. `updated_at` is when the version of the document that has the
    memory now was read, or, of a superseded memory, the newer one's version if that was later.

    Args:
        memories: the memories table.
        documents: the documents table, all versions.
        versions: the versions table.
    """
    read = memories.select("memory_id", "document_id").join(_first_read(documents), on="document_id", how="left")
    newer = read.select(superseded_by="memory_id", superseded_at="ingested_at")
    return (
        read.join(versions.select("memory_id", "superseded_by"), on="memory_id", how="left")
        .join(newer, on="superseded_by", how="left")
        .select(
            "memory_id", created_at="first_read", updated_at=pl.max_horizontal("ingested_at", "superseded_at")
        )
        .sort("memory_id")
    )  # fmt: skip


def _first_read(documents: pl.DataFrame) -> pl.DataFrame:
    """Returns (document_id, ingested_at, first_read): when this version of a document was read, and its first."""
    first = documents.group_by(_DOCUMENT).agg(first_read=pl.col("ingested_at").min())
    rows = documents.select("document_id", "ingested_at", *_DOCUMENT)
    return rows.join(first, on=_DOCUMENT, how="left", nulls_equal=True).drop(_DOCUMENT)


def undated() -> pl.Expr:
    """Tells of each memory whether neither its source nor its text says when it is from."""
    return pl.col("observed_at").is_null() & pl.col("valid_from").is_null()
