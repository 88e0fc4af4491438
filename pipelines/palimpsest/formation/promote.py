"""Items of notes as memories: each takes place, time, privacy and trust from the memories it rests on."""

from collections.abc import Collection

import polars as pl

from palimpsest.core.code import code_hash
from palimpsest.core.ids import SCOPE, content_id
from palimpsest.core.types import REFLECTION
from palimpsest.memories.form import text_ends
from palimpsest.memories.formed import evidence_pairs, stated_memories
from palimpsest.memories.recency import own_clock
from palimpsest.relations.labelers.label_pairs import pair_keys
from palimpsest.store.tables import completed, conform
from palimpsest.text.tokenizer import count_tokens_batch

TYPES = {
    "preference": "preference",
    "inference": "inference",
    "gap": "inference",
    "emotion": "inference",
    "summary": "summary",
}
"""Types of memories by kind of item; the rest is semantic."""
IMPORTANCE = {"preference": 0.7, "decision": 0.7, "fact": 0.6, "solution": 0.6}
_SAVED, _OTHER = 0.9, 0.4


def promoted_memories(notes: pl.DataFrame, memories: pl.DataFrame, kinds: Collection[str]) -> pl.DataFrame:
    """Returns a memory for each item of the kinds, sorted by memory_id.

    It is observed when the last of its evidence is, and retained as long as all of it is. It ends with the last of its
    evidence, where all of it ends, else when its own words say so. Its span is the quote's.

    Args:
        notes: the notes table.
        memories: the memories table, with or without formed ones.
        kinds: kinds of items that become memories.
    """
    items = notes.filter(pl.col("kind").is_in(sorted(kinds)))
    evidence = stated_memories(memories).explode("chunk_ids").rename({"chunk_ids": "chunk_id"})
    rows = (
        items.select("item_id", *SCOPE, chunk_id="chunk_ids")
        .explode("chunk_id")
        .join(evidence, on=["chunk_id", *SCOPE], how="inner")
        .sort("item_id", "observed_at", "ordinal", "memory_id")
        .group_by("item_id", maintain_order=True)
        .agg(
            pl.col("ordinal", "title", "heading", "page", "speaker", "observed_at", "utc_offset", "provenance").last(),
            pl.col("valid_from", "created_at", "updated_at").max(),
            pl.when(pl.col("valid_until").is_not_null().all()).then(pl.col("valid_until").max()),
            pl.col("retention_until").min(),
            pl.col("trust").min(),
            pl.col("pii").any(),
            pl.col("user_visible").all(),
            tags=pl.col("tags").explode(empty_as_null=True).drop_nulls().unique().sort(),
            stated_confidence=pl.col("confidence").min(),
            stated_importance=pl.when(pl.col("importance_source") == "turn").then("importance").max(),
        )
    )
    default = pl.col("item_kind").replace_strict(IMPORTANCE, default=_OTHER, return_dtype=pl.Float64)
    joined = rows.join(items.rename({"kind": "item_kind"}), on="item_id", how="inner")
    date = own_clock().dt.strftime("%-d %B %Y %Y-%m-%d").fill_null("")
    formed = joined.select(
        *SCOPE,
        *("session_id", "document_id", "ordinal", "title", "heading", "page", "speaker", "char_start", "char_end"),
        *("observed_at", "utc_offset", "valid_from", "valid_until", "tags", "provenance", "retention_until", "pii"),
        *("created_at", "updated_at"),
        *("user_visible", "trust", "chunk_ids"),
        pl.Series("memory_id", [content_id("memory", REFLECTION, i) for i in joined["item_id"]], pl.String),
        pl.lit(REFLECTION).alias("unit"),
        pl.col("item_kind").alias("kind"),
        pl.col("item_kind").replace_strict(TYPES, default="semantic", return_dtype=pl.String).alias("type"),
        pl.col("statement").alias("text"),
        pl.concat_str("statement", date, separator="\n").str.strip_chars("\n").alias("search_text"),
        pl.min_horizontal("confidence", "stated_confidence").alias("confidence"),
        pl.max_horizontal(pl.when("is_saved").then(_SAVED).otherwise(default), "stated_importance").alias("importance"),
        pl.Series("token_count", count_tokens_batch(joined["statement"].to_list()), pl.Int64),
        importance_source=pl.lit("formation"),
        confidence_source=pl.lit("formation"),
    )
    return conform("memories", formed.with_columns(text_ends(formed))).sort("memory_id")


# DERIVE relations from formed memories to their evidence: they follow from the notes, and cost no label.

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
