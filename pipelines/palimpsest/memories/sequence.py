"""The order of turns in a conversation and of memories in a document: which memory follows each."""

import re

import polars as pl

from palimpsest.core.scopes import SCOPE
from palimpsest.memories.formed import stated_memories

_NUMBER = re.compile(r"\d+")
_DIGITS = 20


def turn_order(memories: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Returns (memory_id, next_id) of each turn that another follows in its session; sorted by memory_id.

    Turns are the memories of unit `turn` whose document version is current. A session has one `session_id`, else is one
    file. In it turns are in the order of their sources, where numbers in a uri count as numbers, then of their places
    in them. Nothing crosses a scope.

    Args:
        memories: the memories table.
        documents: the documents table.
    """
    current = documents.filter("is_current").select("document_id", "uri")
    uris = current["uri"].unique()
    natural = pl.DataFrame(
        {"uri": uris, "natural": [natural_key(u) for u in uris]}, schema_overrides={"natural": pl.String}
    )
    file = pl.col("uri").str.split("#").list.first()
    turns = (
        memories.filter(pl.col("unit") == "turn")
        .select("memory_id", *SCOPE, "document_id", "session_id", "ordinal")
        .join(current.unique("document_id"), on="document_id", how="inner")
        .join(natural, on="uri", how="left")
        .with_columns(
            session=pl.when(pl.col("session_id").is_null())
            .then(pl.concat_str(pl.lit("f"), file))
            .otherwise(pl.concat_str(pl.lit("s"), "session_id"))
        )
        .sort(*SCOPE, "session", "natural", "uri", "ordinal", "memory_id")
    )
    return (
        turns.with_columns(next_id=pl.col("memory_id").shift(-1).over(*SCOPE, "session"))
        .filter(pl.col("next_id").is_not_null())
        .select("memory_id", "next_id")
        .sort("memory_id")
    )


def document_order(memories: pl.DataFrame) -> pl.DataFrame:
    """Returns (memory_id, next_id) of each memory that another follows in its document version; sorted by memory_id.

    Turns are excluded: those of a session follow each other over files. So are formed memories.

    Args:
        memories: the memories table.
    """
    return (
        stated_memories(memories)
        .filter((pl.col("unit") != "turn") & pl.col("document_id").is_not_null())
        .sort(*SCOPE, "document_id", "ordinal", "memory_id")
        .with_columns(next_id=pl.col("memory_id").shift(-1).over(*SCOPE, "document_id"))
        .filter(pl.col("next_id").is_not_null())
        .select("memory_id", "next_id")
        .sort("memory_id")
    )


def natural_key(uri: str) -> str:
    """Returns a key under which `turn 9` comes before `turn 10`."""
    return _NUMBER.sub(lambda m: m.group().lstrip("0").zfill(_DIGITS), uri)
