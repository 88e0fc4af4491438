"""Documents under the names that a reader of the graph expects: file name, kind of source, time of creation."""

import polars as pl

from palimpsest.core.scopes import SCOPE
from palimpsest.sources.records.extracted import CONVERSATION, SUITE_ROW

_SOURCE_TYPES = {
    CONVERSATION: "conversation",
    SUITE_ROW: "passage",
    "application/json": "conversation",
    "application/pdf": "pdf",
    "application/epub+zip": "epub",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/x-subrip": "subtitles",
    "message/rfc822": "mail",
    "text/plain": "text",
    "text/tab-separated-values": "tsv",
    "text/vtt": "subtitles",
    "text/x-rst": "rst",
}
"""Names of media types; of any other it is what follows the slash: text/markdown is markdown."""


def with_names(documents: pl.DataFrame) -> pl.DataFrame:
    """Returns a row for each document, of whatever versions.

    `filename` is the last part of its path, of an attachment its own name; `source_type` is that of the newest version,
    `created_at` is when the first was read.

    Args:
        documents: as `document_keys` returns them.
    """
    kind = pl.col("media_type").replace_strict(
        _SOURCE_TYPES, default=pl.col("media_type").str.split("/").list.last(), return_dtype=pl.String
    )
    return (
        documents.sort("document_key", "seq", nulls_last=False)
        .group_by("document_key", *SCOPE, "uri", "session_id", maintain_order=True)
        .agg(source_type=kind.last(), created_at=pl.col("ingested_at").min())
        .with_columns(filename=pl.col("uri").str.split("/").list.last().str.split("#").list.last())
    )
