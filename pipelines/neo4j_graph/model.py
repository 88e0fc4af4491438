"""The model of the graph: labels with their keys, relationship types with their ends; Cypher and rows follow it.

Every label begins with `Palimpsest`: a shared database keeps its own `User` and `Document`. Each node has two labels:

- `PalimpsestMemoryRow`, always: what the loader and the readers match, whichever build the row belongs to;
- `PalimpsestMemory`, only while the row belongs to the published build: what people write.
"""

import re
from dataclasses import dataclass

from palimpsest.core.ids import content_id

OPEN = 2**31 - 1  # `until` of a row that nothing has replaced yet
DIMENSIONS = 384
FORMAT = 3  # of what is packed for readers: another one is loaded again; 3 added which turns are an assistant's
MAX_CACHED_VECTORS = 200_000  # a reader caches and ranks so many of a scope exactly (1.5 KiB each); more, by the index

KEYS = {
    "Collection": "name",
    "User": "user_id",
    "Document": "document_key",
    "Revision": "document_id",
    "Chunk": "chunk_id",
    "Entity": "entity_id",
    "Topic": "topic_id",
    "Memory": "memory_id",
    "Window": "window_id",
    "ScopeStats": "scope_id",
    "Postings": "postings_id",
    "VectorBlock": "block_id",
    "ScopeArrays": "arrays_id",
}
"""Each kind of node and the property that identifies a node of it; unique with home_id and since."""

CURRENT = ("Collection", "User", "Document", "Revision", "Chunk", "Entity", "Topic", "Memory")
"""Kinds of nodes that people look at; the others are packed for readers and have no label without `Row`."""

CLOSED = "PALIMPSEST_CLOSED"
"""The type of relationships that only the previous build has; `was` names the type they had."""

VECTOR_LABEL = "PalimpsestVector"
VECTOR_INDEX = "palimpsest_vectors"


def current_label(kind: str) -> str:
    """Returns the label of the nodes of the published build."""
    return f"Palimpsest{kind}"


def row_label(kind: str) -> str:
    """Returns the label of all nodes of a kind, those of an earlier or unfinished build included."""
    return f"Palimpsest{kind}Row"


ROW_KINDS = {row_label(kind): kind for kind in KEYS}

_MAX_PACKED_ROWS = {"ScopeStats": 50, "Postings": 50, "Revision": 50, "VectorBlock": 16, "ScopeArrays": 16}


def batch_size(kind: str, usual: int) -> int:
    """Returns how many nodes of a kind one transaction may touch: packed bytes are large, created or deleted."""
    return _MAX_PACKED_ROWS.get(kind, usual)


@dataclass(frozen=True)
class Edge:
    """A relationship type between two kinds. `anchor` is the end with few of them: lookups start there."""

    type: str
    source: str
    target: str
    anchor: str = "source"

    @property
    def name(self) -> str:
        """The name of its rows and counts."""
        return f"{self.source}-{self.type}-{self.target}"


EDGES = {
    e.name: e
    for e in (
        Edge("PART_OF", "Document", "Collection"),
        Edge("REVISION_OF", "Revision", "Document"),
        Edge("UPDATES", "Document", "Document"),
        Edge("EXTENDS", "Document", "Document"),
        Edge("PART_OF", "Chunk", "Document"),
        Edge("OWNS", "User", "Memory", "target"),
        Edge("FROM", "Memory", "Document"),
        Edge("QUOTES", "Memory", "Chunk"),
        Edge("WINDOW_OF", "Window", "Memory"),
        Edge("MENTIONS", "Memory", "Entity"),
        Edge("ABOUT", "Memory", "Topic"),
        Edge("UPDATES", "Memory", "Memory"),
        Edge("EXTENDS", "Memory", "Memory"),
        Edge("DERIVES", "Memory", "Memory"),
        Edge("SUPERSEDES", "Memory", "Memory"),
        Edge("SUBTOPIC_OF", "Topic", "Topic"),
        Edge("RELATED_TO", "Topic", "Topic"),
    )
}
"""SUPERSEDES names the memory that replaced another, for any reason; UPDATES, EXTENDS, DERIVES are relations."""

TYPES = tuple(sorted({e.type for e in EDGES.values()}))
READ_BY_BACKEND = ("FROM", "REVISION_OF", "WINDOW_OF")
"""Types that readers of the previous build may still follow; others go as soon as a build without them is published."""

_HOME = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class VectorSpace:
    """The label of the nodes with vectors, and the index over them.

    Homes share one index for each space of vectors; MiniLM's has the plain name. A benchmark's home has its own,
    dropped with it: an index that is created after its nodes is built in bulk.
    """

    label: str = VECTOR_LABEL
    index: str = VECTOR_INDEX
    dimensions: int = DIMENSIONS

    @classmethod
    def of_space(cls, name: str, dimensions: int) -> "VectorSpace":
        """Returns the label and index of a space other than MiniLM's, by its name."""
        key = content_id("vectors", name)
        return cls(f"{VECTOR_LABEL}_{key}", f"{VECTOR_INDEX}_{key}", dimensions)

    @classmethod
    def of_measured(cls, home_id: str) -> "VectorSpace":
        """Returns the space of a benchmark's home, which is dropped after the measurement.

        Raises:
            ValueError: `home_id` is not 16 hex digits; a label cannot be a parameter.
        """
        if not _HOME.fullmatch(home_id):
            raise ValueError(f"home_id {home_id!r}: not 16 hex digits")
        return cls(f"{VECTOR_LABEL}_{home_id}", f"{VECTOR_INDEX}_{home_id}")
