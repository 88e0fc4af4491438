"""Relationships of the graph: the ends and properties of each, by the name of the edge."""

from collections.abc import Iterator, Mapping

import polars as pl

from palimpsest.core.scopes import SCOPE
from palimpsest.memories.version_reasons import disputing_relations
from palimpsest.neo4j_graph.model import EDGES
from palimpsest.neo4j_graph.rows.knowledge_rows import knowledge_edges
from palimpsest.store.tables import completed

_EDGE_TYPE_OF_LABEL = {"UPDATE": "UPDATES", "EXTEND": "EXTENDS", "DERIVE": "DERIVES"}
_OF_RELATION = ("relation_id", "confidence", "labeler", "conflict", "consequence", "part", "likelihood")
"""Properties of what is a relation; `part` has the start and the end of each span of the older text that ended."""


def edge_rows(
    t: Mapping[str, pl.DataFrame],
    memories: pl.DataFrame,
    windows: pl.DataFrame,
    documents: pl.DataFrame,
    nodes: pl.DataFrame,
) -> dict[str, pl.DataFrame]:
    """Returns edges by name with columns a, b and their properties; some ends may be no rows.

    Args:
        t: the tables of a build by name.
        memories: as `memory_rows` returns them.
        windows: as `window_rows` returns them.
        documents: as `document_keys` returns them.
        nodes: as `graph_nodes` returns them.
    """
    return {
        **_edges_of_sources(t["chunks"], memories, documents),
        **_edges_of_memories(memories, windows),
        **dict(_relations(t["relations"], memories)),
        "Memory-DISPUTES-Memory": _of_relations(disputing_relations(t), memories),
        **dict(_stated_relations(t["document_relations"], documents)),
        **dict(knowledge_edges(t, nodes)),
    }


def _edges_of_sources(chunks: pl.DataFrame, memories: pl.DataFrame, documents: pl.DataFrame) -> dict[str, pl.DataFrame]:
    keys = documents.select("document_id", "document_key")
    return {
        "Document-PART_OF-Collection": _pairs(documents, "document_key", "collection"),
        "Revision-REVISION_OF-Document": _pairs(keys, "document_id", "document_key"),
        "Chunk-PART_OF-Document": _pairs(chunks.join(keys, on="document_id"), "chunk_id", "document_key"),
        "Memory-FROM-Document": _pairs(memories.join(keys, on="document_id"), "memory_id", "document_key"),
    }


def _edges_of_memories(memories: pl.DataFrame, windows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    superseded = memories.filter(pl.col("superseded_by").is_not_null())
    return {
        "User-OWNS-Memory": _pairs(memories, "user_id", "memory_id"),
        "Memory-QUOTES-Chunk": _pairs(memories.explode("chunk_ids"), "memory_id", "chunk_ids"),
        "Window-WINDOW_OF-Memory": _pairs(windows, "window_id", "memory_id"),
        "Memory-SUPERSEDES-Memory": _pairs(superseded, "superseded_by", "memory_id"),
    }


def _relations(relations: pl.DataFrame, memories: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yields the relations inside a scope by the name of their edge."""
    related = completed("relations", relations)
    for label, edge_type in _EDGE_TYPE_OF_LABEL.items():
        yield f"Memory-{edge_type}-Memory", _of_relations(related.filter(pl.col("label") == label), memories)


def _of_relations(relations: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns the edges of those relations that are inside a scope."""
    scope_of = memories.select("memory_id", *SCOPE)
    spans = pl.col("part").str.json_decode(pl.List(pl.List(pl.Int64)))
    related = (
        relations.drop(SCOPE)
        .join(scope_of.rename({"memory_id": "newer_id"}), on="newer_id")
        .join(scope_of.rename({"memory_id": "older_id"}), on=["older_id", *SCOPE])
        .with_columns(
            pl.col("confidence").fill_null(1.0).cast(pl.Float32).cast(pl.Float64),
            part=spans.list.eval(pl.element().explode()),
        )
        .sort("newer_id", "older_id", "label", "relation_id")
    )
    return _pairs(related, "newer_id", "older_id", *_OF_RELATION)


def _stated_relations(document_relations: pl.DataFrame, documents: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yields what sources state of one another, by the name of the edge."""
    uris = documents.select(*SCOPE, "uri", "document_key").unique()
    stated = document_relations.join(
        uris.rename({"uri": "newer_uri", "document_key": "newer"}), on=["newer_uri", *SCOPE]
    ).join(uris.rename({"uri": "older_uri", "document_key": "older"}), on=["older_uri", *SCOPE])
    for label, edge_type in _EDGE_TYPE_OF_LABEL.items():
        if (name := f"Document-{edge_type}-Document") in EDGES:
            yield name, _pairs(stated.filter(pl.col("label") == label), "newer", "older")


def _pairs(frame: pl.DataFrame, a: str, b: str, *properties: str) -> pl.DataFrame:
    """Returns the first row of each pair of ends and relation."""
    out = frame.select(pl.col(a).alias("a"), pl.col(b).alias("b"), *properties).drop_nulls(["a", "b"])
    identity = ["a", "b", *(["relation_id"] if "relation_id" in properties else [])]
    return out.unique(identity, keep="first", maintain_order=True)
