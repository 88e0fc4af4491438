"""The tables of nodes and of edges between them, derived from entities, topics, facts and memories of each scope.

Everything is a pure function of the tables: a rebuild, and a build after a small change, make the same nodes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from palimpsest.core.json_types import JsonObject
from palimpsest.core.scopes import SCOPE
from palimpsest.memories.memory_times import memory_times
from palimpsest.nodes.apply_decisions import NodeTables, apply_decisions
from palimpsest.nodes.categories import Categories, find_categories, topics_in_categories
from palimpsest.nodes.dependency_edges import barred_edges, fact_edges
from palimpsest.nodes.descriptions import entity_descriptions, topic_descriptions
from palimpsest.nodes.formed_events import dated_events, dated_titles
from palimpsest.nodes.formed_projects import find_projects, project_nodes
from palimpsest.nodes.importance import importance
from palimpsest.nodes.node_edges import (
    document_edges,
    edge_rows,
    entity_topic_edges,
    series_edges,
    unique_edges,
)
from palimpsest.nodes.node_properties import document_properties
from palimpsest.nodes.node_types import node_types
from palimpsest.nodes.project_edges import goal_category_edges, milestone_edges, named_in_goals
from palimpsest.nodes.stressors import ROLE, find_stressors, stressor_edges, stressor_nodes
from palimpsest.nodes.type_evidence import headings, titled_entities, type_evidence
from palimpsest.store.graph_decisions import PROPERTIES, GraphDecision
from palimpsest.store.tables import conform

READS = (
    "memories",
    "documents",
    "document_relations",
    "versions",
    "entities",
    "mentions",
    "topics",
    "topic_edges",
    "topic_memories",
    "clause_facts",
    "stated_entities",
    "facts",
    "speakers",
)
"""The tables that nodes are derived from."""
_SHOWN_EVIDENCE = 3


@dataclass(frozen=True)
class _Formed:
    """Nodes that are neither entities nor topics, and frames that edges follow from: titles and types of entities."""

    titled: pl.DataFrame
    typed: pl.DataFrame
    categories: Categories
    events: pl.DataFrame
    projects: pl.DataFrame
    stressors: pl.DataFrame


def build_nodes(tables: Mapping[str, pl.DataFrame], decisions: Sequence[GraphDecision] = ()) -> dict[str, pl.DataFrame]:
    """Returns `nodes`, `edges` and `node_memories`, each sorted by its key.

    A node that is an entity, a speaker or a topic has its id. `node_memories` is of nodes that are neither entities nor
    topics, and of what people merged into a node: memories of an entity are in `mentions`, those of a topic in
    `topic_memories`.

    Args:
        tables: the tables of `READS`.
        decisions: what people decided of nodes and edges.
    """
    entities, memories = tables["entities"], tables["memories"]
    evidence = type_evidence(tables)
    types = node_types(entities, evidence)
    typed = entities.select("entity_id", *SCOPE, "name").join(types.select("type", entity_id="node_id"), on="entity_id")
    titled, speakers = titled_entities(tables), tables["speakers"].rename({"entity_id": "node_id"})
    names = pl.concat([entities.select("name", node_id="entity_id"), speakers.select("name", "node_id")])
    formed = _Formed(
        titled,
        typed,
        find_categories(titled.join(headings(tables), on="entity_id", how="anti"), evidence, typed, memories),
        dated_events(tables["facts"], tables["clause_facts"], names, memories),
        find_projects(memories),
        find_stressors(memories, entities, tables["mentions"]),
    )
    node_memories = _node_memories(formed, speakers)
    nodes = pl.concat(
        [
            _entity_nodes(tables, evidence, types, formed),
            _topic_nodes(tables),
            *_formed_nodes(formed),
            _speaker_nodes(speakers),
        ],
        how="diagonal",
    )
    belonging = pl.concat(
        [
            tables["mentions"].select("memory_id", node_id="entity_id"),
            tables["topic_memories"].select("memory_id", node_id="topic_id"),
            node_memories.select("memory_id", "node_id"),
        ]
    ).unique()
    times = memory_times(memories, tables["documents"], tables["versions"])
    nodes = _with_counts(nodes, belonging, times, tables, formed.categories.members)
    nodes = conform("nodes", nodes)
    found = NodeTables(nodes, unique_edges(_edges(tables, formed), nodes), node_memories, belonging)
    scopes = {(str(c), str(u), str(p)) for c, u, p in memories.select(SCOPE).unique().iter_rows()}
    decided = apply_decisions(found, decisions, scopes) if decisions else found
    edges = unique_edges([decided.edges], decided.nodes) if decisions else decided.edges
    return {
        "nodes": decided.nodes.sort("node_id"),
        "edges": conform("edges", _with_edge_times(edges, times)),
        "node_memories": conform("node_memories", decided.node_memories).sort("node_id", "memory_id"),
    }


def _entity_nodes(
    tables: Mapping[str, pl.DataFrame], evidence: pl.DataFrame, types: pl.DataFrame, formed: _Formed
) -> pl.DataFrame:
    described = entity_descriptions(tables["mentions"], tables["memories"], tables["versions"], evidence, types).rename(
        {"memory_id": "described_by"}
    )
    rows = (
        tables["entities"]
        .select(*SCOPE, "name", "aliases", node_id="entity_id")
        .join(types, on="node_id")
        .join(described, on="node_id", how="left")
    )
    stated = document_properties(formed.titled, tables["memories"])
    for node_id in formed.stressors.filter("is_entity")["node_id"].unique():
        stated[node_id] = {"role": ROLE, **stated.get(node_id, {})}
    metadata = [
        _entity_metadata(shown, score, described_by, stated.get(node_id, {}))
        for node_id, shown, score, described_by in rows.select(
            "node_id", "evidence", "score", "described_by"
        ).iter_rows()
    ]
    return rows.drop("evidence", "score", "described_by").with_columns(metadata=pl.Series(metadata, dtype=pl.String))


def _entity_metadata(
    shown: list[dict[str, object]] | None, score: float | None, described_by: str | None, properties: JsonObject
) -> str:
    evidence = [{k: v for k, v in e.items() if v} for e in (shown or [])[:_SHOWN_EVIDENCE]]
    values = {
        "type_score": score,
        "type_evidence": evidence,
        "description_memory_id": described_by,
        PROPERTIES: properties,
    }
    return json.dumps({k: v for k, v in values.items() if v}, ensure_ascii=False)


def _topic_nodes(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    described = topic_descriptions(tables["topics"], tables["topic_memories"], tables["memories"])
    rows = (
        tables["topics"]
        .select(*SCOPE, type=pl.lit("topic"), name="label", node_id="topic_id")
        .join(described, on="node_id", how="left")
    )
    metadata = [json.dumps({"description_memory_id": m}) if m else "{}" for m in rows["memory_id"]]
    return rows.drop("memory_id").with_columns(metadata=pl.Series(metadata, dtype=pl.String))


def _formed_nodes(formed: _Formed) -> list[pl.DataFrame]:
    return [
        formed.categories.nodes.with_columns(type=pl.lit("category")),
        formed.events.select("node_id", *SCOPE, "name", "description", "metadata", type=pl.lit("event")),
        project_nodes(formed.projects).with_columns(type=pl.lit("project")),
        stressor_nodes(formed.stressors).with_columns(type=pl.lit("concept")),
    ]


def _speaker_nodes(speakers: pl.DataFrame) -> pl.DataFrame:
    return speakers.select("node_id", *SCOPE, "name", type=pl.lit("person"), metadata=pl.lit("{}"))


def _node_memories(formed: _Formed, speakers: pl.DataFrame) -> pl.DataFrame:
    full = pl.lit(1.0).alias("relevance")
    parts = [
        formed.categories.memories,
        formed.events.select("node_id", *SCOPE, "memory_ids", full)
        .explode("memory_ids")
        .rename({"memory_ids": "memory_id"}),
        formed.projects.select("node_id", *SCOPE, "memory_id", full),
        formed.stressors.filter(~pl.col("is_entity")).select("node_id", *SCOPE, "memory_id", full),
        speakers.select("node_id", *SCOPE, full, memory_id="memory_ids").explode("memory_id"),
    ]
    columns = ("node_id", "memory_id", *SCOPE, "relevance")
    return pl.concat([p.select(columns) for p in parts]).unique(["node_id", "memory_id"]).sort("node_id", "memory_id")


def _edges(tables: Mapping[str, pl.DataFrame], formed: _Formed) -> list[pl.DataFrame]:
    titled = formed.titled
    topic_edges = tables["topic_edges"]
    kinds = topic_edges["kind"].unique().sort()
    members = formed.categories.members.rename({"node_id": "target_id", "entity_id": "source_id"}).with_columns(
        weight=pl.lit(1.0)
    )
    of_subject = formed.events.rename({"node_id": "source_id", "subject_id": "target_id"}).with_columns(
        weight=pl.lit(1.0)
    )
    in_project = formed.projects.join(
        tables["mentions"].select("memory_id", source_id="entity_id").unique(), on="memory_id"
    ).rename({"node_id": "target_id"})
    goals = named_in_goals(formed.projects, formed.typed, tables["mentions"])
    return [
        *milestone_edges(formed.events, formed.projects, goals),
        goal_category_edges(goals, formed.categories.members),
        *(edge_rows(topic_edges.filter(kind=kind), kind, "topics") for kind in kinds),
        stressor_edges(
            formed.stressors, formed.typed, tables["mentions"], formed.categories.nodes, formed.categories.members
        ),
        fact_edges(tables["facts"], formed.typed),
        barred_edges(tables["memories"], tables["mentions"], formed.typed),
        entity_topic_edges(tables["mentions"], tables["topic_memories"]),
        document_edges(titled, tables["document_relations"], tables["documents"]),
        *(
            edge_rows(members.filter(source=source), "part_of", f"category: {source}")
            for source in ("folder", "metadata", "stated")
        ),
        edge_rows(
            topics_in_categories(titled, formed.categories, tables["topic_memories"], tables["memories"]),
            "subtopic_of",
            "shared documents",
        ),
        edge_rows(of_subject, "part_of", "dated fact"),
        edge_rows(in_project.with_columns(weight=pl.lit(1.0)), "part_of", "project"),
        series_edges(formed.events, "subject_id", "dated facts"),
        series_edges(dated_titles(formed.typed, titled, tables["mentions"]), "series", "dated titles"),
    ]


def _with_counts(
    nodes: pl.DataFrame,
    belonging: pl.DataFrame,
    times: pl.DataFrame,
    tables: Mapping[str, pl.DataFrame],
    members: pl.DataFrame,
) -> pl.DataFrame:
    facts = tables["facts"]
    of_members = (
        belonging.join(times, on="memory_id", how="left")
        .group_by("node_id")
        .agg(pl.len().alias("memory_count"), pl.col("created_at").min(), pl.col("updated_at").max())
    )
    ends = pl.concat([facts.select(node_id="subject_id"), facts.select(node_id="object_id")]).drop_nulls()
    of_facts = ends.group_by("node_id").agg(pl.len().alias("facts"))
    of_categories = members.group_by("node_id").agg(pl.col("entity_id").n_unique().alias("members"))
    stated = tables["stated_entities"].group_by(node_id="entity_id").agg(stated=pl.col("importance").mean())
    counted = nodes
    for counts in (of_members, of_facts, of_categories, stated):
        counted = counted.join(counts, on="node_id", how="left")
    counted = counted.with_columns(pl.col("memory_count", "facts", "members").fill_null(0))
    return counted.with_columns(importance(counted)).drop("facts", "members", "stated")


def _with_edge_times(edges: pl.DataFrame, times: pl.DataFrame) -> pl.DataFrame:
    key = ("source_id", "target_id", "type")
    shown = (
        edges.select(*key, memory_id="memory_ids")
        .explode("memory_id")
        .join(times, on="memory_id")
        .group_by(key)
        .agg(pl.col("created_at").min(), pl.col("updated_at").max())
    )
    return edges.join(shown, on=key, how="left").sort(key)
