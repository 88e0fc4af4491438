"""Topics of a synthetic build, and the nodes and edges of the graph: a broad topic a cluster, narrow ones below it."""

from collections.abc import Mapping

import numpy as np
import polars as pl

from palimpsest.core.ids import content_id
from palimpsest.nodes.node_tables import READS, build_nodes
from palimpsest.store.tables import conform, empty

_NARROW = 25  # topics below each broad one
_RELATED = 2  # further narrow topics of the same broad one that each is related to


def with_topics(
    rng: np.random.Generator, tables: Mapping[str, pl.DataFrame], cluster: np.ndarray, words: np.ndarray
) -> dict[str, pl.DataFrame]:
    """Returns the tables with topics, and with the nodes and edges that a build derives from them.

    Args:
        rng: draws the narrow topic of each memory.
        tables: memories, documents, versions, entities and mentions.
        cluster: of each memory.
        words: the vocabulary, for labels.
    """
    memories = tables["memories"].select("memory_id", "collection", "user_id")
    narrow = cluster * _NARROW + rng.integers(0, _NARROW, len(cluster))
    placed = memories.with_columns(narrow=pl.Series(narrow), broad=pl.Series(cluster))
    scope = ("collection", "user_id")
    levels = {
        level: placed.select(*scope, number=level).unique().sort(*scope, "number") for level in ("broad", "narrow")
    }
    topics = {level: _with_ids(frame, level, words) for level, frame in levels.items()}
    members = placed.join(topics["narrow"].rename({"number": "narrow"}), on=[*scope, "narrow"]).with_columns(
        relevance=pl.lit(0.7)
    )
    parents = (
        topics["narrow"]
        .with_columns(broad=pl.col("number") // _NARROW)
        .join(
            topics["broad"].select(*scope, pl.col("topic_id").alias("target_id"), broad="number"), on=[*scope, "broad"]
        )
    )
    below = parents.select(*scope, "target_id", source_id="topic_id", kind=pl.lit("subtopic_of"), weight=pl.lit(0.8))
    related = [
        parents.select(
            *scope,
            source_id="topic_id",
            target_id=pl.col("topic_id").shift(-n).over(*scope, "broad"),
            kind=pl.lit("related_to"),
            weight=pl.lit(0.5),
        ).drop_nulls()
        for n in range(1, _RELATED + 1)
    ]
    made = {
        **{name: tables.get(name, empty(name)) for name in READS},
        "topics": conform(
            "topics", pl.concat([t.drop("number").with_columns(size=pl.lit(1)) for t in topics.values()])
        ),
        "topic_edges": conform("topic_edges", pl.concat([below.select(related[0].columns), *related])),
        "topic_memories": conform("topic_memories", members.drop("narrow", "broad", "label")),
    }
    return {**tables, **made, **build_nodes(made)}


def _with_ids(topics: pl.DataFrame, level: str, words: np.ndarray) -> pl.DataFrame:
    ids = [content_id("topic", level, *row) for row in topics.iter_rows()]
    labels = [f"{words[(7 * n) % len(words)]} {words[(11 * n + 3) % len(words)]}" for n in topics["number"]]
    return topics.with_columns(topic_id=pl.Series(ids), label=pl.Series(labels))
