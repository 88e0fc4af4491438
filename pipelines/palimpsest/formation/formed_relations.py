"""DERIVE relations from formed memories to their evidence: they follow from the notes, and cost no label."""

import polars as pl

from palimpsest.core.code import code_hash
from palimpsest.core.ids import content_id
from palimpsest.core.scopes import SCOPE
from palimpsest.memories.formed import evidence_pairs
from palimpsest.relations.classify.label_pairs import pair_keys
from palimpsest.store.tables import completed, conform

FORMATION = "formation"
"""The labeler of these relations."""


def without_formation(relations: pl.DataFrame) -> pl.DataFrame:
    """Returns the relations that labelers, people and premises gave."""
    return completed("relations", relations).filter(pl.col("labeler").ne_missing(FORMATION))


def add_formation(relations: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns relations with a DERIVE from each formed memory to each memory it rests on, sorted by relation_id."""
    pairs = evidence_pairs(memories).rename({"memory_id": "newer_id", "evidence_id": "older_id"})
    if pairs.is_empty():
        return relations
    about = memories.select(*SCOPE, "confidence", newer_id="memory_id")
    rows = (
        pair_keys(pairs, memories)
        .join(about, on="newer_id", how="left")
        .with_columns(
            label=pl.lit("DERIVE"),
            labeler=pl.lit(FORMATION),
            evidence=pl.lit("{}"),
            program_hash=pl.lit(content_id(FORMATION, code_hash((__name__,)))),
        )
    )
    return pl.concat([conform("relations", relations), conform("relations", rows)]).sort("relation_id")
