"""Nodes of the graph that people look at, and windows: one frame of properties for each kind."""

from collections.abc import Mapping

import polars as pl

from palimpsest.core.ids import SCOPE, content_id
from palimpsest.index.memory_table import versioned_memories
from palimpsest.sources.extracted import CONVERSATION, SUITE_ROW

# Documents under the names that a reader of the graph expects: file name, kind of source, time of creation.

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


_MEMORY_PROPERTIES = (
    "memory_id",
    *SCOPE,
    "session_id",
    "text",
    "type",
    "unit",
    "title",
    "heading",
    "speaker",
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
    "trust",
    "retention_until",
    "pii",
    "user_visible",
    "language",
    "tags",
    "token_count",
    "created_at",
    "updated_at",
    "windows",
)
_WINDOW_PROPERTIES = ("window_id", "memory_id", *SCOPE, "is_latest")
_SEPARATOR = "\x1f"


def node_rows(
    t: Mapping[str, pl.DataFrame],
    memories: pl.DataFrame,
    windows: pl.DataFrame,
    documents: pl.DataFrame,
    nodes: pl.DataFrame,
) -> dict[str, pl.DataFrame]:
    """Returns the nodes by kind, with the properties of each.

    Args:
        t: the tables of a build by name.
        memories: as `memory_rows` returns them.
        windows: as `window_rows` returns them.
        documents: as `document_keys` returns them.
        nodes: as `graph_nodes` returns them.
    """
    return {
        "Collection": memories.select(pl.col("collection").alias("name"), "collection").unique().sort("name"),
        "User": memories.select("user_id", username="user_id").unique().sort("user_id"),
        "Document": with_names(documents),
        "Revision": _revisions(documents, memories),
        "Chunk": _chunks(t["chunks"]),
        "Node": nodes,
        "Memory": memories.select(*_MEMORY_PROPERTIES, "text_hash"),
        "Window": windows.select(*_WINDOW_PROPERTIES, "text_hash"),
    }


def document_keys(documents: pl.DataFrame) -> pl.DataFrame:
    """Returns documents with `document_key`: the same for all versions of a document."""
    key = (
        pl.when(project_id="")
        .then(_joined("collection", "user_id", "uri", "session_id"))
        .otherwise(_joined(*SCOPE, "uri", "session_id"))
        .map_elements(lambda s: content_id("document", *s.split(_SEPARATOR)), return_dtype=pl.String)
    )
    return documents.with_columns(key.alias("document_key"))


def memory_rows(t: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Returns memories with their version, times, first vector and number of further windows, by (scope, id).

    Raises:
        ValueError: a memory has no row in embed_inputs.
    """
    inputs = _numbered_inputs(t["embed_inputs"])
    windows = inputs.group_by("memory_id").agg((pl.len() - 1).cast(pl.Int64).alias("windows"))
    first = inputs.filter(pl.col("number") == 0).drop("number")
    memories = (
        versioned_memories(t)
        .join(first, on="memory_id", how="left", maintain_order="left")
        .join(windows, on="memory_id", how="left", maintain_order="left")
        .with_columns(pl.col("tags").fill_null([]))
    )
    if without_vector := memories.filter(pl.col("text_hash").is_null())["memory_id"].head(1).to_list():
        raise ValueError(f"memory {without_vector[0]} has no row in embed_inputs")
    return memories


def window_rows(embed_inputs: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns the windows of memories beyond the first, by `window_id`."""
    return (
        _numbered_inputs(embed_inputs)
        .filter(pl.col("number") > 0)
        .join(memories.select("memory_id", *SCOPE, "is_latest"), on="memory_id")
        .with_columns(pl.format("{}:{}", "memory_id", "number").alias("window_id"))
        .sort("window_id")
    )


def _numbered_inputs(embed_inputs: pl.DataFrame) -> pl.DataFrame:
    """Returns the text hashes of memories, numbered from 0 inside each memory."""
    inputs = embed_inputs.sort("memory_id", "kind", "ordinal", "text_hash").select("memory_id", "text_hash")
    return inputs.with_columns(pl.int_range(pl.len()).over("memory_id").alias("number"))


def _revisions(documents: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns one row a document version, with the place of each of its memories; lists by memory id."""
    lists = {"ordinal": "ordinals", "page": "pages", "char_start": "starts", "char_end": "ends"}
    places = (
        memories.sort("memory_id")
        .group_by("document_id", maintain_order=True)
        .agg(
            pl.col("memory_id").alias("memory_ids"),
            *(pl.col(column).fill_null(-1).alias(name) for column, name in lists.items()),
        )
    )
    return (
        documents.select("document_id", *SCOPE, "title", "media_type", "content_hash", "source_time", "is_current")
        .unique("document_id")
        .join(places, on="document_id", how="left")
        .sort("document_id")
    )


def _chunks(chunks: pl.DataFrame) -> pl.DataFrame:
    return (
        chunks.sort("chunk_id", "document_id")
        .unique("chunk_id", keep="first", maintain_order=True)
        .select("chunk_id", *SCOPE, "text", "heading", "page", "speaker", "said_at", "token_count")
    )


def _joined(*columns: str) -> pl.Expr:
    return pl.concat_str([pl.col(c).fill_null("") for c in columns], separator=_SEPARATOR)
