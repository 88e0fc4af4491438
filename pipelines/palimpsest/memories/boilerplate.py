"""Lines that recur across the documents of a collection: navigation, signatures, attendance, calls to subscribe.

They are found by how many documents have them, not by what they say: numbers, addresses and marks aside, a short text
that a tenth of the documents have says nothing of any of them. They are kept, and shown with `--include-hidden`.
"""

import polars as pl

from palimpsest.core.ids import SCOPE
from palimpsest.text.markup import WEB_ADDRESS

BOILERPLATE = "boilerplate"
"""Tag of these memories."""
_MIN_DOCUMENTS = 4
_MIN_SHARE = 0.1
_MAX_CHARACTERS = 240
_NOISE = rf"{WEB_ADDRESS}|\S+@\S+|\d+|[^\p{{L}}\d\s]+"


def find_boilerplate(memories: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Returns (memory_id, text, documents) of memories that recur, with how many documents have their text.

    Turns of conversations are not looked at: what people say again, they mean.

    Args:
        memories: the memories table.
        documents: the documents table.
    """
    current = documents.filter("is_current").select("document_id", "uri")
    key = pl.col("text").str.to_lowercase().str.replace_all(_NOISE, " ").str.replace_all(r"\s+", " ").str.strip_chars()
    chunks = (
        memories.filter(pl.col("unit") != "turn")
        .join(current, on="document_id", how="inner")
        .with_columns(key=key, all_documents=pl.col("uri").n_unique().over(SCOPE))
    )
    counted = chunks.with_columns(documents=pl.col("uri").n_unique().over(*SCOPE, "key"))
    return counted.filter(
        (pl.col("text").str.len_chars() <= _MAX_CHARACTERS)
        & (pl.col("documents") >= pl.max_horizontal(_MIN_DOCUMENTS, pl.col("all_documents") * _MIN_SHARE))
    ).select("memory_id", "text", "documents")


def set_apart(memories: pl.DataFrame, recurring: pl.DataFrame) -> pl.DataFrame:
    """Returns memories of which those that recur are hidden and have the tag `boilerplate`."""
    is_one = pl.col("memory_id").is_in(recurring["memory_id"].implode())
    tags = pl.col("tags").fill_null([]).list.concat(pl.lit([BOILERPLATE])).list.unique().list.sort()
    return memories.with_columns(
        user_visible=pl.when(is_one).then(False).otherwise("user_visible"),
        tags=pl.when(is_one).then(tags).otherwise("tags"),
    )
