"""Versions of formed memories: those of the memories they rest on."""

import polars as pl

from palimpsest.memories.formed import evidence_pairs, formed_memories, repeated_by_formed
from palimpsest.store.tables import conform


def formed_versions(memories: pl.DataFrame, stated: pl.DataFrame, ended: pl.DataFrame) -> pl.DataFrame:
    """Returns versions of the formed memories.

    One is latest iff all memories it rests on are, and no newer memory ended a part that it repeats; it ends then when
    it says so itself, because a summary outlasts each event in it. Else it ends with the first of them that ends, and
    what replaced that replaced it. One whose evidence is gone is not latest.

    Args:
        memories: the memories table.
        stated: versions of the others.
        ended: (older_id, part, ended_at, ended_by), the parts of the others that live newer memories ended.
    """
    repeated = repeated_by_formed(ended, memories).sort("older_id", "ended_at", "ended_by", nulls_last=True)
    first_ended = repeated.unique("older_id", keep="first", maintain_order=True).rename({"older_id": "memory_id"})
    ends = (
        evidence_pairs(memories)
        .join(stated.rename({"memory_id": "evidence_id"}), on="evidence_id", how="left")
        .join(first_ended, on="memory_id", how="left")
        .with_columns(
            is_latest=pl.col("is_latest") & pl.col("ended_by").is_null(),
            valid_until=pl.min_horizontal("valid_until", "ended_at"),
            superseded_by=pl.coalesce("superseded_by", "ended_by"),
        )
        .sort("memory_id", "is_latest", "valid_until", "evidence_id", nulls_last=True)
        .group_by("memory_id", maintain_order=True)
        .agg(
            pl.col("is_latest").all(),
            pl.col("valid_from").max(),
            pl.col("valid_until").min(),
            pl.col("superseded_by").first(),
        )
    )
    own = formed_memories(memories).drop("valid_from").rename({"valid_until": "own_end"})
    rows = own.join(ends, on="memory_id", how="left").with_columns(pl.col("is_latest").fill_null(False))
    end = pl.when("is_latest").then("own_end").otherwise("valid_until")
    rows = rows.with_columns(valid_until=pl.when(end < pl.col("valid_from")).then("valid_from").otherwise(end))
    return conform("versions", rows.select(c for c in stated.columns if c in rows.columns))
