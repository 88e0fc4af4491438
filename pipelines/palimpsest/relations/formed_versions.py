"""Versions of formed memories: those of the memories they rest on."""

import polars as pl

from palimpsest.memories.formed import evidence_pairs, formed_memories, repeated_by_formed
from palimpsest.store.tables import conform

MIN_ENDED = 0.5
"""Share of what a formed memory rests on that ended in part, from which it ends; of less, its text still says both."""


def formed_versions(memories: pl.DataFrame, stated: pl.DataFrame, ended: pl.DataFrame) -> pl.DataFrame:
    """Returns versions of the formed memories.

    One is latest iff all memories it rests on are, and no newer memory ended most of what it repeats of them; it ends
    then when it says so itself, because a summary outlasts each event in it. Else it ends with the first of them that
    ends, and what replaced that replaced it. One whose evidence is gone is not latest.

    Args:
        memories: the memories table.
        stated: versions of the others.
        ended: (newer_id, older_id, part, ended_at), the parts of the others that live newer memories ended.
    """
    of_evidence = evidence_pairs(memories).join(
        stated.rename({"memory_id": "evidence_id"}), on="evidence_id", how="left"
    )
    of_parts = repeated_by_formed(ended, memories, MIN_ENDED).select(
        memory_id="older_id",
        evidence_id="newer_id",
        is_latest=pl.lit(False),
        valid_until="ended_at",
        superseded_by="newer_id",
    )
    ends = (
        pl.concat([of_evidence, of_parts], how="diagonal")
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
