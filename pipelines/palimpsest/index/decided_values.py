"""Values that people decided of memories, in place of those that their sources give."""

from collections.abc import Mapping

import polars as pl


def with_decided_values(memories: pl.DataFrame, tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Returns memories with the confidence that was decided; one that was pruned is past its retention.

    Its retention ends in what readers see and not in the tables, so that it is not served, and not deleted either.

    Args:
        memories: rows with memory_id, confidence, confidence_source and retention_until.
        tables: of a build; without `decided_memories` nothing was decided.
    """
    decided = tables.get("decided_memories")
    if decided is None or decided.is_empty():
        return memories
    values = decided.select("memory_id", "pruned_at", _decided="confidence")
    is_decided = pl.col("_decided").is_not_null()
    return (
        memories.join(values, on="memory_id", how="left", maintain_order="left")
        .with_columns(
            retention_until=pl.min_horizontal("retention_until", "pruned_at"),
            confidence=pl.coalesce("_decided", "confidence"),
            confidence_source=pl.when(is_decided).then(pl.lit("decision")).otherwise("confidence_source"),
        )
        .drop("pruned_at", "_decided")
    )
