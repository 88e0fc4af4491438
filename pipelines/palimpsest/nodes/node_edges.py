"""Edges between nodes: each is made by something in the texts, and names the rule and the memories that show it."""

from collections.abc import Iterable

import polars as pl

from palimpsest.core.ids import SCOPE
from palimpsest.store.tables import Schema

MAX_EVIDENCE = 20
"""Memories that an edge names at most."""
_MIN_SHARED, _MIN_TOPIC_SHARE, _TOPICS_PER_ENTITY = 2, 0.4, 2
EDGE: Schema = {
    **dict.fromkeys(("source_id", "target_id", *SCOPE, "type"), pl.String),
    "weight": pl.Float64,
    "provenance": pl.String,
    "memory_ids": pl.List(pl.String),
}


def edge_rows(frame: pl.DataFrame, type_: str, provenance: str) -> pl.DataFrame:
    """Returns edges of one type from (source_id, target_id, scope, weight, memory_ids or memory_id)."""
    if "memory_ids" not in frame.columns:
        one = pl.concat_list("memory_id") if "memory_id" in frame.columns else pl.lit([], pl.List(pl.String))
        frame = frame.with_columns(memory_ids=one)
    rows = frame.with_columns(type=pl.lit(type_), provenance=pl.lit(provenance))
    return rows.select(pl.col(c).cast(t) for c, t in EDGE.items())


def entity_topic_edges(mentions: pl.DataFrame, topic_memories: pl.DataFrame) -> pl.DataFrame:
    """Returns `related_to` edges of an entity to the topics that most of its memories belong to, at most two."""
    named = mentions.select("entity_id", "memory_id", *SCOPE).unique()
    sizes = named.group_by("entity_id").agg(size=pl.len())
    shared = (
        named.join(topic_memories.select("topic_id", "memory_id"), on="memory_id")
        .group_by("entity_id", "topic_id", *SCOPE)
        .agg(n=pl.len(), memory_ids=pl.col("memory_id").sort().head(MAX_EVIDENCE))
        .join(sizes, on="entity_id")
        .with_columns(weight=(pl.col("n") / pl.col("size")).round(2))
        .filter((pl.col("n") >= _MIN_SHARED) & (pl.col("weight") >= _MIN_TOPIC_SHARE))
        .sort("entity_id", "weight", "topic_id", descending=[False, True, False])
        .with_columns(rank=pl.int_range(pl.len()).over("entity_id"))
        .filter(pl.col("rank") < _TOPICS_PER_ENTITY)
        .rename({"entity_id": "source_id", "topic_id": "target_id"})
    )
    return edge_rows(shared, "related_to", "shared memories")


def document_edges(titled: pl.DataFrame, relations: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Returns `depends_on` edges between what documents are about where metadata states that one extends the other."""
    uris = documents.filter("is_current").select("document_id", *SCOPE, "uri")
    about = titled.select("document_id", "entity_id").join(uris, on="document_id").select(*SCOPE, "uri", "entity_id")
    extends = relations.filter(pl.col("label") == "EXTEND")
    both = (
        extends.join(about.rename({"uri": "newer_uri", "entity_id": "source_id"}), on=[*SCOPE, "newer_uri"])
        .join(about.rename({"uri": "older_uri", "entity_id": "target_id"}), on=[*SCOPE, "older_uri"])
        .filter(pl.col("source_id") != pl.col("target_id"))
        .with_columns(weight=pl.lit(1.0))
    )
    return edge_rows(both, "depends_on", "document extends")


def series_edges(dated: pl.DataFrame, by: str, provenance: str) -> pl.DataFrame:
    """Returns `precedes` edges: each event to the next later one with the same value of `by` in its scope.

    Args:
        dated: (node_id, scope, `by`, date) and `memory_ids` where known.
        by: the column of what the events have in common.
        provenance: of the edges.
    """
    group = [*SCOPE, by]
    days = dated.sort(*group, "date", "node_id")
    steps = (
        days.select(*group, "date")
        .unique()
        .sort(*group, "date")
        .with_columns(later=pl.col("date").shift(-1).over(group))
    )
    evidence = ("memory_ids",) if "memory_ids" in dated.columns else ()
    left = days.join(steps.drop_nulls("later"), on=[*group, "date"]).select(
        *group, "later", *evidence, source_id="node_id"
    )
    right = days.select(*group, later="date", target_id="node_id")
    return edge_rows(left.join(right, on=[*group, "later"]).with_columns(weight=pl.lit(1.0)), "precedes", provenance)


def unique_edges(parts: Iterable[pl.DataFrame], nodes: pl.DataFrame) -> pl.DataFrame:
    """Returns one edge for each (source, target, type) between two nodes of one scope, sorted.

    The strongest weight counts, the rules are joined, and at most `MAX_EVIDENCE` memories are named. `related_to` has
    no direction: it goes from the smaller id to the larger.
    """
    rows = pl.concat(list(parts))
    is_swapped = (pl.col("type") == "related_to") & (pl.col("source_id") > pl.col("target_id"))
    rows = rows.with_columns(
        source_id=pl.when(is_swapped).then("target_id").otherwise("source_id"),
        target_id=pl.when(is_swapped).then("source_id").otherwise("target_id"),
    ).filter(pl.col("source_id") != pl.col("target_id"))
    scoped = nodes.select(*SCOPE, "node_id")
    for end in ("source_id", "target_id"):
        rows = rows.join(scoped.rename({"node_id": end}), on=[*SCOPE, end], how="semi")
    return (
        rows.group_by("source_id", "target_id", *SCOPE, "type")
        .agg(
            pl.col("weight").max().clip(0.0, 1.0).round(3),
            pl.col("provenance").unique().sort().str.join("; "),
            pl.col("memory_ids").explode().drop_nulls().unique().sort().head(MAX_EVIDENCE),
        )
        .sort("source_id", "target_id", "type")
    )
