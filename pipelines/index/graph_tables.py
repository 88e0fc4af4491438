"""The tables of links, entities, mentions, topics and documents, by row and scope number."""

from collections.abc import Mapping

import polars as pl

from palimpsest.core.scopes import SCOPE

_LINKING = ("UPDATE", "EXTEND", "DERIVE")


def graph_tables(t: Mapping[str, pl.DataFrame], rows: pl.DataFrame, scopes: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Returns links, entities, mentions, topics and documents by row and scope number; none spans two scopes."""
    newer = rows.rename({"memory_id": "newer_id", "row": "newer_row"})
    older = rows.rename({"memory_id": "older_id", "row": "older_row"})
    links = (
        t["relations"]
        .filter(pl.col("label").is_in(_LINKING))
        .join(newer, on="newer_id")
        .join(older, on=["older_id", "scope"])
        .select(
            "scope",
            "newer_row",
            "older_row",
            "label",
            pl.col("confidence").fill_null(1.0).cast(pl.Float32),
            "relation_id",
        )
        .sort("newer_row", "older_row", "label", "relation_id")
    )
    number = scopes.select(*SCOPE, "scope")
    entities = (
        t["entities"]
        .join(number, on=SCOPE)
        .sort("scope", "entity_id")
        .with_row_index("entity")
        .with_columns(pl.col("entity").cast(pl.Int32))
    )
    mentions = (
        t["mentions"]
        .select("memory_id", "entity_id")
        .unique()
        .join(rows, on="memory_id")
        .join(entities.select("entity_id", "scope", "entity"), on=["entity_id", "scope"])
        .select("row", "entity")
        .sort("row", "entity")
    )
    df = mentions.group_by("entity").agg(pl.len().cast(pl.Int32).alias("df"))
    entities = entities.join(df, on="entity", how="left", maintain_order="left").select(
        "entity", "scope", "entity_id", "name", "type", pl.col("df").fill_null(0)
    )
    above = t["topic_edges"].filter(kind="subtopic_of").select(topic_id="source_id", parent_id="target_id")
    topics = t["topics"].join(number, on=SCOPE).join(above, on="topic_id", how="left")
    topics = topics.sort("scope", "topic_id")
    members = (
        t["topic_memories"]
        .select("topic_id", "memory_id", "relevance")
        .join(rows, on="memory_id")
        .join(topics.select("topic_id", "scope"), on=["topic_id", "scope"])
        .select("row", "topic_id", pl.col("relevance").cast(pl.Float32))
        .sort("row", "topic_id")
    )
    documents = t["documents"].sort(*SCOPE, "uri", "document_id")
    return {
        "links": links,
        "entities": entities,
        "mentions": mentions,
        "topics": topics.select("scope", "topic_id", "label", "size", "parent_id"),
        "topic_memories": members,
        "documents": documents.drop("metadata"),
        "document_relations": t["document_relations"].sort(*SCOPE, "newer_uri", "older_uri"),
    }
