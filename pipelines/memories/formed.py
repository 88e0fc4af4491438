"""Which memories are formed from others: unit `reflection`. They rest on the chunks of the memories they name."""

import json
from collections.abc import Collection

import polars as pl

from palimpsest.core.memory_units import REFLECTION


def stated_memories(memories: pl.DataFrame) -> pl.DataFrame:
    """Returns the memories that are text of a source: all but formed ones."""
    return memories.filter(pl.col("unit").ne_missing(REFLECTION))


def formed_memories(memories: pl.DataFrame) -> pl.DataFrame:
    """Returns the memories that are formed from others."""
    return memories.filter(pl.col("unit") == REFLECTION)


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


def repeated_by_formed(pairs: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns pairs with each formed memory that repeats the older one, or the part of it that is meant, in its place.

    Args:
        pairs: (older_id, part, ...); `part` is null for the whole text, else the JSON of spans of it in characters.
        memories: the memories table.
    """
    if formed_memories(memories).is_empty() or pairs.is_empty():
        return pairs.clear()
    places = memories.select("memory_id", "document_id", "char_start", "char_end")
    found = (
        pairs.join(evidence_pairs(memories), left_on="older_id", right_on="evidence_id")
        .join(places, on="memory_id")
        .join(places, left_on="older_id", right_on="memory_id", suffix="_older")
    )
    columns = ("part", "document_id", "document_id_older", "char_start_older", "char_start", "char_end")
    is_repeated = [_repeats(*row) for row in found.select(columns).iter_rows()]
    repeating = (
        found.filter(pl.Series(is_repeated, dtype=pl.Boolean)).drop("older_id").rename({"memory_id": "older_id"})
    )
    return repeating.select(pairs.columns)


def _repeats(part: str | None, document: str, older_document: str, at: int, start: int, end: int) -> bool:
    """Returns whether what is in [start, end) of a document has a part of the memory that starts at `at`."""
    if part is None:
        return True
    return document == older_document and any(start <= at + (a + b) / 2 < end for a, b in json.loads(part))
