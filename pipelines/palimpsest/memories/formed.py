"""Which memories are formed from others: unit `reflection`. They rest on the chunks of the memories they name."""

import json
from collections.abc import Collection

import polars as pl

from palimpsest.core.ids import BY_MODEL, REFLECTION


def stated_memories(memories: pl.DataFrame) -> pl.DataFrame:
    """Returns the memories that are text of a source: all but formed ones."""
    return memories.filter(pl.col("unit").ne_missing(REFLECTION))


def formed_memories(memories: pl.DataFrame) -> pl.DataFrame:
    """Returns the memories that are formed from others."""
    return memories.filter(pl.col("unit") == REFLECTION)


def model_memories(memories: pl.DataFrame) -> pl.DataFrame:
    """Returns the memories that a language model formed; rules repeat the words of a turn, which has its own pairs."""
    return formed_memories(memories).filter(pl.col("confidence_source") == BY_MODEL)


def evidence_pairs(memories: pl.DataFrame) -> pl.DataFrame:
    """Returns (memory_id, evidence_id): each formed memory with the memories it rests on, sorted.

    Args:
        memories: the memories table.
    """
    chunks = stated_memories(memories).select(evidence_id="memory_id", chunk_id="chunk_ids").explode("chunk_id")
    named = formed_memories(memories).select("memory_id", chunk_id="chunk_ids").explode("chunk_id")
    return named.join(chunks, on="chunk_id", how="inner").select("memory_id", "evidence_id").unique().sort(pl.all())


def rests_on(memories: pl.DataFrame, chunk_ids: Collection[str]) -> pl.DataFrame:
    """Returns the formed memories that rest on any of some chunks."""
    named = formed_memories(memories)
    shared = pl.col("chunk_ids").list.set_intersection(pl.lit(sorted(chunk_ids), dtype=pl.List(pl.String)))
    return named.filter(shared.list.len() > 0)


def repeated_by_formed(pairs: pl.DataFrame, memories: pl.DataFrame, min_share: float = 0.0) -> pl.DataFrame:
    """Returns pairs with each formed memory that repeats the older one in its place, in order.

    A formed memory that rests on the newer one, or is newer itself, has no pair with it, and of several pairs with one
    newer memory the first.

    Args:
        pairs: (newer_id, older_id, part, ...); `part` is null for the whole text, else the JSON of spans of it in
            characters.
        memories: the memories table.
        min_share: how much of what the formed memory rests on must be meant, 0 to 1; it is less than 1 where a part is
            meant, and never 0.
    """
    if formed_memories(memories).is_empty() or pairs.is_empty():
        return pairs.clear()
    evidence = evidence_pairs(memories)
    places = memories.select("memory_id", "document_id", "char_start", "char_end", said="observed_at")
    found = (
        pairs.join(evidence, left_on="older_id", right_on="evidence_id", maintain_order="left")
        .join(evidence, left_on=["memory_id", "newer_id"], right_on=["memory_id", "evidence_id"], how="anti")
        .join(places, on="memory_id", maintain_order="left")
        .join(places, left_on="older_id", right_on="memory_id", suffix="_older", maintain_order="left")
        .join(memories.select(newer_id="memory_id", said_newer="observed_at"), on="newer_id", maintain_order="left")
        .filter((pl.col("said_newer") >= pl.col("said")).fill_null(True))
    )
    columns = ("part", "document_id", "document_id_older", "char_start_older", "char_start", "char_end")
    shares = pl.Series([_share(*row) for row in found.select(columns).iter_rows()], dtype=pl.Float64)
    return (
        found.filter((shares > 0) & (shares >= min_share))
        .drop("older_id")
        .rename({"memory_id": "older_id"})
        .unique(["newer_id", "older_id"], keep="first", maintain_order=True)
        .select(pairs.columns)
    )


def _share(part: str | None, document: str, older_document: str, at: int, start: int, end: int) -> float:
    """Returns how much of [start, end) of a document is in a part of the memory that starts at `at`."""
    if part is None:
        return 1.0
    if document != older_document or start >= end:
        return 0.0
    covered: int = sum(max(0, min(end, at + b) - max(start, at + a)) for a, b in json.loads(part))
    return covered / (end - start)
