"""The rows of the graph, from the tables of a build: pure functions; each row has a key, the hash of its contents.

What changes often and is not searched (spans, ordinals, a document's text hash) is in a Revision, one row a document
version: an edit then changes the memories that it touched, and not all those that moved by a few characters.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from palimpsest.core.scopes import SCOPE, ScopeKey
from palimpsest.neo4j_graph.graph_vectors import GraphVectors
from palimpsest.neo4j_graph.rows.edge_rows import edge_rows
from palimpsest.neo4j_graph.rows.knowledge_rows import graph_nodes, read_node_vectors
from palimpsest.neo4j_graph.rows.node_rows import document_keys, memory_rows, node_rows, window_rows
from palimpsest.neo4j_graph.rows.row_keys import add_edge_keys, add_node_keys
from palimpsest.neo4j_graph.rows.scope_rows import scope_rows
from palimpsest.store.tables import empty

TABLES = (
    "documents",
    "chunks",
    "memories",
    "embed_inputs",
    "versions",
    "decided_memories",
    "relations",
    "entities",
    "mentions",
    "facts",
    "speakers",
    "topics",
    "topic_edges",
    "topic_memories",
    "nodes",
    "edges",
    "node_memories",
    "document_relations",
)
"""The tables of a build that rows are made of."""


@dataclass(frozen=True)
class GraphRows:
    """All rows of one build.

    Attributes:
        nodes: by kind; columns `id`, `key` and the properties; of Memory and Window also `text_hash`, of VectorBlock
            `counts` and `hashes`: the vectors themselves are looked up when they are written; of Node also `details`,
            the hash of `model.DETAILS`, which `key` does not cover.
        edges: by name in `model.EDGES`; columns `a`, `b`, `id` (of the anchor), `key` and the properties.
        digest: of all keys.
        scopes: (collection, user, project) of every memory, sorted.
    """

    nodes: dict[str, pl.DataFrame]
    edges: dict[str, pl.DataFrame]
    digest: str
    scopes: list[ScopeKey]

    @property
    def counts(self) -> dict[str, int]:
        """Rows by kind and by name of edge."""
        return {n: f.height for n, f in (*self.nodes.items(), *self.edges.items())}


def graph_rows(tables: Mapping[str, pl.DataFrame], vectors: GraphVectors, index: Path) -> GraphRows:
    """Makes the rows of a build.

    Args:
        tables: those of `TABLES`, as in `store.tables`; one that is missing has no rows.
        vectors: the unit vectors of text hashes; those of another space are other rows.
        index: the build's DuckDB file: words have the scores that they have there.

    Raises:
        ComponentFailed: the index is missing.
        ValueError: a memory has no row in embed_inputs.
    """
    t = {name: tables[name] if name in tables else empty(name) for name in TABLES}
    memories = memory_rows(t)
    windows = window_rows(t["embed_inputs"], memories)
    documents = document_keys(t["documents"])
    packed = scope_rows(memories, windows, vectors, index)
    knowledge = graph_nodes(t, read_node_vectors(index))
    unkeyed = node_rows(t, memories, windows, documents, knowledge) | packed
    nodes = {kind: add_node_keys(kind, frame, vectors.model_of()) for kind, frame in unkeyed.items()}
    edges = add_edge_keys(edge_rows(t, memories, windows, documents, knowledge), nodes)
    scopes = memories.select(SCOPE).unique().sort(SCOPE).rows()
    details = {"details": nodes["Node"].select(key="details")}
    return GraphRows(nodes, edges, _digest(nodes | edges | details), [(c, u, p) for c, u, p in scopes])


def _digest(frames: Mapping[str, pl.DataFrame]) -> str:
    keys = [f"{name}:{key}" for name, frame in sorted(frames.items()) for key in frame["key"].sort()]
    return hashlib.blake2b("\n".join(keys).encode(), digest_size=16).hexdigest()
