"""The tables of nodes and of edges between them, derived from entities, topics, facts and memories of each scope."""

from collections.abc import Mapping

import polars as pl

from palimpsest.core.scopes import SCOPE
from palimpsest.memories.memory_times import memory_times
from palimpsest.store.tables import conform

READS = (
    "memories",
    "documents",
    "versions",
    "entities",
    "mentions",
    "topics",
    "topic_edges",
    "topic_memories",
    "facts",
)
"""The tables that nodes are derived from."""

_SATURATION = 8.0  # memories at which a node has half of the highest importance


def build_nodes(tables: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Returns `nodes`, `edges` and `node_memories`, each sorted by its key.

    A node that is an entity or a topic has its id. `node_memories` is of the other nodes only: memories of an entity
    are in `mentions`, those of a topic in `topic_memories`.

    Args:
        tables: the tables of `READS`.
    """
    members = pl.concat(
        [
            tables["mentions"].select("memory_id", node_id="entity_id"),
            tables["topic_memories"].select("memory_id", node_id="topic_id"),
        ]
    ).unique()
    times = memory_times(tables["memories"], tables["documents"], tables["versions"])
    of_members = (
        members.join(times, on="memory_id", how="left")
        .group_by("node_id")
        .agg(pl.len().alias("memory_count"), pl.col("created_at").min(), pl.col("updated_at").max())
    )
    entities = (
        tables["entities"].select("entity_id", *SCOPE, "type", "name", "aliases").rename({"entity_id": "node_id"})
    )
    topics = (
        tables["topics"].select("topic_id", *SCOPE, type=pl.lit("topic"), name="label").rename({"topic_id": "node_id"})
    )
    nodes = (
        pl.concat([entities, topics], how="diagonal")
        .join(of_members, on="node_id", how="left")
        .with_columns(pl.col("memory_count").fill_null(0))
        .with_columns(importance=pl.col("memory_count") / (pl.col("memory_count") + _SATURATION))
    )
    edges = tables["topic_edges"].rename({"kind": "type"}).with_columns(provenance=pl.lit("topics"))
    return {
        "nodes": conform("nodes", nodes).sort("node_id"),
        "edges": conform("edges", edges).sort("source_id", "target_id", "type"),
        "node_memories": conform("node_memories", pl.DataFrame({"node_id": [], "memory_id": []})),
    }
