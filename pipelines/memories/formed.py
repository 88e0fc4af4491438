"""Which memories are formed from others: unit `reflection`. They rest on the chunks of the memories they name."""

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
