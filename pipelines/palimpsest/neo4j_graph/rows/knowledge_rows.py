"""Rows of what memories are about: nodes, facts as relationships, and edges between nodes.

An entity, a topic and what is formed from them are all nodes. What a fact states is a relationship from each memory
that is its evidence to its subject, and where it has an object, one between the two nodes.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import duckdb
import polars as pl

from palimpsest.core.ids import SCOPE
from palimpsest.index.node_tables import names_of_node
from palimpsest.neo4j_graph.model import DETAILS, FACT_TYPES, NODE_EDGES, NODE_LABELS
from palimpsest.store.tables import conform

_FACT = (
    "fact_id",
    "predicate",
    "value",
    "object_id",
    "is_negated",
    "modality",
    "valid_from",
    "valid_until",
    "is_latest",
    "confidence",
    "memory_ids",
)
_BETWEEN_NODES = tuple(c for c in _FACT if c not in ("value", "object_id"))
_KINDS_OF_NODE = (*NODE_LABELS, "label")
_EDGE = ("weight", "provenance", "memory_ids", "created_at", "updated_at")


def graph_nodes(t: Mapping[str, pl.DataFrame], vectors: pl.DataFrame) -> pl.DataFrame:
    """Returns the nodes: `entity_id` of those that are entities, `topic_id` and `label` of those that are topics.

    `names` and `words` are what a node is found by, as in the index. A build of a version without the table `nodes` has
    its entities and topics.

    Args:
        t: the tables of a build by name.
        vectors: as `read_node_vectors` returns them.
    """
    entities, topics = t["entities"], t["topics"]
    nodes = t["nodes"]
    if nodes.is_empty():
        of_entities = entities.select("name", "type", "aliases", *SCOPE, node_id="entity_id")
        of_topics = topics.select(*SCOPE, name="label", type=pl.lit("topic"), node_id="topic_id")
        nodes = conform("nodes", pl.concat([of_entities, of_topics], how="diagonal"))
    named = pl.concat([entities.select("entity_id"), t["speakers"].select("entity_id")]).unique()
    found = [names_of_node(*row) for row in nodes.select("type", "name", "aliases").iter_rows()]
    names, words = ([sorted(of_node[i]) for of_node in found] for i in (0, 1))
    return (
        nodes.with_columns(
            names=pl.Series(names, dtype=pl.List(pl.String)), words=pl.Series(words, dtype=pl.List(pl.String))
        )
        .join(vectors, on="node_id", how="left")
        .join(named.select("entity_id", node_id="entity_id"), on="node_id", how="left")
        .join(topics.select("topic_id", node_id="topic_id"), on="node_id", how="left")
        .with_columns(label=pl.when(pl.col("topic_id").is_not_null()).then("name"))
        .select("node_id", *SCOPE, "type", "name", "aliases", "names", "words", *_KINDS_OF_NODE, *DETAILS)
    )


def read_node_vectors(index: Path) -> pl.DataFrame:
    """Returns (node_id, vector) as a build's index has them: float16, as bytes; none of an index without nodes."""
    with duckdb.connect(str(index), read_only=True) as db:
        try:
            found = db.execute("SELECT node_id, vector FROM node_vectors JOIN nodes USING (node)").fetchall()
        except duckdb.CatalogException:
            found = []
    return pl.DataFrame(found, schema={"node_id": pl.String, "vector": pl.Binary}, orient="row")


def knowledge_edges(t: Mapping[str, pl.DataFrame], nodes: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yields relationships of nodes by the name of their edge, with columns a, b and their properties.

    Args:
        t: the tables of a build by name.
        nodes: as `graph_nodes` returns them.
    """
    mentions = t["mentions"].sort("memory_id", "entity_id", "char_start", nulls_last=True)
    yield "Memory-MENTIONS-Node", _ends(mentions, "memory_id", "entity_id", "char_start", "char_end")
    # In tenths: hundredths shift with every edit in the scope, and each shift would be two writes.
    topics = t["topic_memories"].select("memory_id", "relevance", node_id="topic_id")
    of_nodes = t["node_memories"].select(topics.columns).with_columns(pl.col("relevance").fill_null(1.0))
    about = pl.concat([topics, of_nodes]).with_columns(pl.col("relevance").round(1))
    yield "Memory-ABOUT-Node", _ends(about, "memory_id", "node_id", "relevance")
    yield from _facts(t["facts"], nodes.select("node_id", *SCOPE))
    edges = t["edges"]
    if t["nodes"].is_empty():
        edges = conform("edges", t["topic_edges"].rename({"kind": "type"}))
    for kind in NODE_EDGES:
        yield f"Node-{kind}-Node", _ends(edges.filter(type=kind.lower()), "source_id", "target_id", *_EDGE)


def _facts(facts: pl.DataFrame, nodes: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yields facts of nodes of one scope: from each memory, between two nodes, and the latter by their predicate."""
    of_nodes = facts.join(nodes, left_on=["subject_id", *SCOPE], right_on=["node_id", *SCOPE], how="semi")
    between = of_nodes.join(nodes, left_on=["object_id", *SCOPE], right_on=["node_id", *SCOPE], how="semi")
    whole = pl.concat([of_nodes.filter(pl.col("object_id").is_null()), between]).sort("fact_id")
    yield (
        "Memory-STATES-Node",
        _ends(whole.with_columns(memory="memory_ids").explode("memory"), "memory", "subject_id", *_FACT),
    )
    yield "Node-FACT-Node", _ends(between, "subject_id", "object_id", *_BETWEEN_NODES)
    types = pl.col("predicate").replace_strict(FACT_TYPES, default=None, return_dtype=pl.String)
    typed = between.with_columns(type=types).drop_nulls("type")
    yield "Node-PREDICATE-Node", _ends(typed, "subject_id", "object_id", "type", *_BETWEEN_NODES)


def _ends(frame: pl.DataFrame, a: str, b: str, *properties: str) -> pl.DataFrame:
    """Returns the first row of each pair of ends and fact."""
    out = frame.select(pl.col(a).alias("a"), pl.col(b).alias("b"), *properties).drop_nulls(["a", "b"])
    identity = ["a", "b", *(["fact_id"] if "fact_id" in properties else [])]
    return out.unique(identity, keep="first", maintain_order=True)
