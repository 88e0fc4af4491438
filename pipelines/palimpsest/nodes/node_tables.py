"""The tables of nodes and of edges between them, derived from entities, topics, facts and memories of each scope.

Everything is a pure function of the tables: a rebuild, and a build after a small change, make the same nodes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from palimpsest.core.ids import GENERAL, SCOPE, JsonObject, JsonValue, content_id, scope_parts
from palimpsest.memories.recency import memory_times
from palimpsest.nodes.descriptions import entity_descriptions, quotable, sentence_at, topic_descriptions
from palimpsest.nodes.node_decisions import NodeTables, apply_decisions
from palimpsest.nodes.node_edges import (
    EDGE,
    document_edges,
    edge_rows,
    entity_topic_edges,
    series_edges,
    unique_edges,
)
from palimpsest.nodes.node_types import Categories, find_categories, node_types, topics_in_categories
from palimpsest.nodes.stressors import (
    ROLE,
    dated_events,
    dated_titles,
    find_stressors,
    goal_category_edges,
    milestone_edges,
    named_in_goals,
    stressor_edges,
    stressor_nodes,
)
from palimpsest.nodes.type_evidence import headings, titled_entities, type_evidence
from palimpsest.store.graph_decisions import PROPERTIES, GraphDecision
from palimpsest.store.tables import Schema, conform
from palimpsest.text.words import fold

# Edges of facts between entities, and `depends_on` edges of clauses with `cannot .. until` or `cannot .. without`.

_THINGS = ("product", "project", "concept")
_OBJECTS_OF_USE = (*_THINGS, "topic", "organisation", "event")
_PARTS = ("part_of", "located_in")
_BARRED = (
    r"^\s+(?:cannot|can't|can\u2019t|can not|will not|won't|won\u2019t|may not|must not)"
    r"(?:\s+(?:be|\w+)){1,4}?\s+(?:until|without|before)\s+(?:the\s+|a\s+|an\s+)?$"
)
_OPENING = r"(?:^|[.!?:;]\s+|\n\s*|\b(?:and|but|so|because)\s+)(?:The |the |A |An |Our |our |My |my )?$"
_MAX_BETWEEN, _WINDOW, _CONFIDENCE = 80, 24, 0.8


def is_dependency(predicate: pl.Expr, subject_type: pl.Expr, object_type: pl.Expr) -> pl.Expr:
    """Returns whether a fact with a predicate, of nodes of two types, states that its subject depends on its object."""
    is_bearer = ~subject_type.is_in(["person", "place", "date"]) & (object_type != "date")
    is_use = subject_type.is_in(_THINGS) & object_type.is_in(_OBJECTS_OF_USE)
    stated = ((predicate == "depends_on") & is_bearer) | ((predicate == "uses") & is_use)
    return stated.fill_null(False)


def fact_edges(facts: pl.DataFrame, typed: pl.DataFrame) -> pl.DataFrame:
    """Returns edges of facts between two entities: of the type that their predicate names, else `related_to`.

    Args:
        facts: the facts table.
        typed: (entity_id, type) of entities as nodes.
    """
    both = facts.filter(pl.col("object_id").is_not_null() & ~pl.col("is_negated").fill_null(False))
    both = both.filter(pl.col("subject_id") != pl.col("object_id"))
    for end in ("subject", "object"):
        types = typed.select(pl.col("entity_id").alias(f"{end}_id"), pl.col("type").alias(f"{end}_type"))
        both = both.join(types.unique(f"{end}_id"), on=f"{end}_id", how="left")
    depends = is_dependency(pl.col("predicate"), pl.col("subject_type"), pl.col("object_type"))
    is_part = pl.col("predicate").is_in(_PARTS)
    is_stated = pl.col("predicate").is_in(["subtopic_of", "precedes"])
    kind = pl.when(is_part).then(pl.lit("part_of")).when(depends).then(pl.lit("depends_on"))
    kind = kind.when(is_stated).then("predicate")
    both = both.with_columns(
        type=kind.otherwise(pl.lit("related_to")),
        provenance=pl.concat_str(pl.lit("fact: "), "predicate"),
        source_id="subject_id",
        target_id="object_id",
        weight="confidence",
    )
    return both.select(pl.col(c).cast(t) for c, t in EDGE.items())


def barred_edges(memories: pl.DataFrame, mentions: pl.DataFrame, typed: pl.DataFrame) -> pl.DataFrame:
    """Returns `depends_on` edges of `Heron cannot start until Basin is up`: the first name opens its clause.

    Args:
        memories: the memories table.
        mentions: the mentions table.
        typed: (entity_id, type) of entities as nodes.
    """
    names = (
        mentions.drop_nulls("char_start")
        .select(*SCOPE, "memory_id", "entity_id", "char_start", "char_end")
        .unique()
        .join(typed.select("entity_id", "type"), on="entity_id")
    )
    left = names.select(*SCOPE, "memory_id", source_id="entity_id", kind="type", begin="char_start", end="char_end")
    right = names.select("memory_id", target_id="entity_id", object_kind="type", start="char_start")
    stating = memories.filter(pl.col("text").str.contains(r"(?i)\b(?:until|without|before)\b")).select(
        "memory_id", "text"
    )
    gap = pl.col("start") - pl.col("end")
    pairs = left.join(stating, on="memory_id").join(right, on="memory_id").filter((gap > 0) & (gap <= _MAX_BETWEEN))
    between = pl.col("text").str.slice("end", gap)
    low = pl.max_horizontal(pl.col("begin") - _WINDOW, 0)
    before = pl.col("text").str.slice(low, pl.col("begin") - low)
    is_opening = (
        pl.when(low == 0).then(before.str.contains(_OPENING)).otherwise(before.str.contains(_OPENING.replace("^|", "")))
    )
    found = pairs.filter(
        between.str.contains(_BARRED)
        & is_opening
        & ~pl.col("kind").is_in(["person", "date"])
        & (pl.col("object_kind") != "date")
    )
    return edge_rows(found.with_columns(weight=pl.lit(_CONFIDENCE)), "depends_on", "cannot without")


# Projects: the project of a scope, and goals that people state.

_END = r"([^.,;:!?\n]{4,80})"
_GOAL = (
    r"\b(?i:my|our|his|her|their)\s+(?:\w+\s+){0,2}goal\s+(?:for [^.,;]{2,30} )?"
    rf"(?:is|was|remains)\s+(?:still\s+|now\s+)?(?:to\s+)?{_END}",
    rf"(?i)\bgoal:\s*{_END}",
    r"\b(?:I am|I'm|I\u2019m|we are|we're|We are|We're|am|is|are)\s+(?:still\s+|now\s+)?"
    rf"(?:training for|working towards|aiming to|saving (?:up )?for|preparing for)\s+{_END}",
    rf"\b(?i:i|we)\s+(?:have\s+)?(?:resolved|set out|signed up)\s+(?:to|for)\s+{_END}",
)
_MAX_NAME_CHARS = 60
_SCHEMA: Schema = {
    "node_id": pl.String,
    **dict.fromkeys(SCOPE, pl.String),
    "name": pl.String,
    **dict.fromkeys(("memory_id", "source", "description"), pl.String),
}


def find_projects(memories: pl.DataFrame) -> pl.DataFrame:
    """Returns (node_id, scope, name, memory_id, source, description), a row for each memory of a project, sorted.

    A scope with a `project_id` is a project, with all memories in it; a goal that a memory states is one with that
    memory. `source` is `scope` or `goal`.

    Args:
        memories: the memories table.
    """
    scoped = memories.filter(pl.col("project_id") != GENERAL).select(
        *SCOPE,
        "memory_id",
        name="project_id",
        key="project_id",
        source=pl.lit("scope"),
        description=pl.lit(None, pl.String),
    )
    shown = quotable(memories).lazy().select(*SCOPE, "memory_id", "text")
    stated = pl.concat(
        [shown.with_columns(phrase=pl.col("text").str.extract(p, 1)).drop_nulls("phrase") for p in _GOAL]
    ).collect()
    names = {p: _goal_name(p) for p in stated["phrase"].unique()}
    described = [
        sentence_at(t, t.index(p), t.index(p) + len(p)) for t, p in stated.select("text", "phrase").iter_rows()
    ]
    name = pl.col("phrase").replace_strict(names, default=None, return_dtype=pl.String)
    stated = stated.select(
        *SCOPE,
        "memory_id",
        name=name,
        key=name.str.to_lowercase(),
        source=pl.lit("goal"),
        description=pl.Series(described, dtype=pl.String),
    )
    found = pl.concat([scoped, stated]).filter(pl.col("name") != "").unique([*SCOPE, "key", "memory_id"], keep="first")
    keys = found.select(*SCOPE, "source", "key").unique().sort(pl.all())
    ids = [content_id("node", *scope_parts(*r[:3]), "project", *r[3:]) for r in keys.iter_rows()]
    keys = keys.with_columns(node_id=pl.Series(ids, dtype=pl.String))
    rows = found.join(keys, on=[*SCOPE, "source", "key"]).select(_SCHEMA.keys())
    return rows.sort("node_id", "memory_id", "name").unique(["node_id", "memory_id"], keep="first", maintain_order=True)


def project_nodes(projects: pl.DataFrame) -> pl.DataFrame:
    """Returns (node_id, scope, name, description, metadata) of `find_projects`, sorted by id."""
    rows = projects.group_by("node_id", *SCOPE).agg(
        pl.col("name").min(), pl.col("source").first(), pl.col("description").sort_by("memory_id").last()
    )
    metadata = [json.dumps({"source": s}) for s in rows["source"]]
    return rows.drop("source").with_columns(metadata=pl.Series(metadata, dtype=pl.String)).sort("node_id")


def _goal_name(phrase: str) -> str:
    words = " ".join(phrase.split())
    return words if len(words) <= _MAX_NAME_CHARS and len(fold(words).split()) > 1 else ""


# How important a node is: how much is known of it, from 0 to 1, whatever its age.

FACT_WEIGHT, MEMBER_WEIGHT = 2.0, 1.0
HALF_AT = 10.0
HALF_TOPIC_AT = 50.0


def importance(nodes: pl.DataFrame) -> pl.Series:
    """Returns the importance of nodes with the columns `type`, `memory_count`, `facts`, `members` and `stated`.

    x / (x + h) of x = memories + 2 facts + members, with h = 10, and 50 for topics, which every memory has: the value
    of a node depends on nothing but itself, so that a change of one leaves the others as they are. Where a language
    model stated how important it is for its memories, the mean of both. Rounded to 3 decimals.
    """
    known = pl.col("memory_count") + FACT_WEIGHT * pl.col("facts") + MEMBER_WEIGHT * pl.col("members")
    half = pl.when(pl.col("type") == "topic").then(HALF_TOPIC_AT).otherwise(HALF_AT)
    value = known / (known + half)
    stated = pl.when(pl.col("stated").is_null()).then(value).otherwise((value + pl.col("stated")) / 2)
    return nodes.select(stated.round(3).alias("importance")).to_series()


# What documents state of the entity that they are about: fields of their metadata.

_MAX_FIELDS, _MAX_VALUES, _MAX_CHARS = 20, 10, 200


def document_properties(titled: pl.DataFrame, memories: pl.DataFrame) -> dict[str, JsonObject]:
    """Returns the properties of entities by id: of each field its value, or its distinct values, sorted.

    Texts, numbers, booleans and lists of these are properties; at most 20 fields with 10 values of 200 characters.

    A document with a memory that `quotable` leaves out states none.

    Args:
        titled: as `titled_entities` returns them.
        memories: the memories table.
    """
    concealed = memories.join(quotable(memories).select("memory_id"), on="memory_id", how="anti")
    shown = titled.join(concealed.select("document_id").unique(), on="document_id", how="anti")
    found: dict[str, dict[str, set[str]]] = {}
    for entity_id, metadata in shown.select("entity_id", "metadata").drop_nulls().iter_rows():
        stated = json.loads(metadata or "{}")
        for field, value in stated.items() if isinstance(stated, dict) else ():
            values = [v for v in (value if isinstance(value, list) else [value]) if _is_property(v)]
            if values:
                found.setdefault(entity_id, {}).setdefault(field, set()).update(json.dumps(v) for v in values)
    return {entity_id: _properties(fields) for entity_id, fields in found.items()}


def _is_property(value: object) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and 0 < len(value) <= _MAX_CHARS)


def _properties(fields: dict[str, set[str]]) -> JsonObject:
    kept: JsonObject = {}
    for field, written in sorted(fields.items())[:_MAX_FIELDS]:
        values: list[JsonValue] = [json.loads(v) for v in sorted(written)[:_MAX_VALUES]]
        kept[field] = values[0] if len(values) == 1 else [*values]
    return kept


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
    """Returns the nodes of topics that are no entities."""
    topics = tables["topics"].join(tables["entities"], left_on="topic_id", right_on="entity_id", how="anti")
    described = topic_descriptions(topics, tables["topic_memories"], tables["memories"])
    rows = topics.select(*SCOPE, type=pl.lit("topic"), name="label", node_id="topic_id").join(
        described, on="node_id", how="left"
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
