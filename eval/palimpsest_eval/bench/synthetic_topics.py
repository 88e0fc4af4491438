"""Topics and facts of a synthetic build, its nodes and edges: a broad topic a cluster, narrow ones below it."""

from collections.abc import Mapping

import numpy as np
import polars as pl

from palimpsest.core.ids import content_id
from palimpsest.core.scopes import SCOPE
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
    made["facts"] = _facts(tables["mentions"])
    return {**tables, **made, **build_nodes(made)}


def _facts(mentions: pl.DataFrame) -> pl.DataFrame:
    """Returns a fact for each memory that names two entities: the first works with the second."""
    pairs = (
        mentions.sort("memory_id", "char_start")
        .group_by(*SCOPE, "memory_id", maintain_order=True)
        .agg(pl.col("entity_id").unique(maintain_order=True).head(2))
        .filter(pl.col("entity_id").list.len() == 2)
        .select(
            *SCOPE,
            "memory_id",
            subject_id=pl.col("entity_id").list.get(0),
            object_id=pl.col("entity_id").list.get(1),
        )
    )
    stated = pairs.group_by(*SCOPE, "subject_id", "object_id", maintain_order=True).agg(memory_ids="memory_id")
    ids = [content_id("fact", *row[:-1]) for row in stated.iter_rows()]
    return conform(
        "facts",
        stated.with_columns(
            fact_id=pl.Series(ids, dtype=pl.String),
            predicate=pl.lit("work_with"),
            is_negated=pl.lit(False),
            is_latest=pl.lit(True),
            confidence=pl.lit(0.8),
        ),
    )


def _with_ids(topics: pl.DataFrame, level: str, words: np.ndarray) -> pl.DataFrame:
    ids = [content_id("topic", level, *row) for row in topics.iter_rows()]
    labels = [f"{words[(7 * n) % len(words)]} {words[(11 * n + 3) % len(words)]}" for n in topics["number"]]
    return topics.with_columns(topic_id=pl.Series(ids), label=pl.Series(labels))
