"""The model of the graph: labels with their keys, relationship types with their ends; Cypher and rows follow it.

Every label begins with `Palimpsest`: a shared database keeps its own `User` and `Document`. Each node bears two:

- `PalimpsestMemoryRow`, for good: what the loader and the readers match, in whatever build the row shows;
- `PalimpsestMemory`, only while the published build shows the row: what people write.
"""

import re
from dataclasses import dataclass

OPEN = 2**31 - 1  # `until` of what nothing has replaced yet
DIMENSIONS = 384
HELD_VECTORS = 200_000  # a scope of at most so many is ranked exactly by its reader (1.5 KiB each); above, by the index

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
"""Each kind of node and the property that names a node of it; unique with home_id and since."""

CURRENT = ("Collection", "User", "Document", "Revision", "Chunk", "Entity", "Topic", "Memory")
"""Kinds of nodes that people look at; the others are packed for readers and bear no label without `Row`."""

CLOSED = "PALIMPSEST_CLOSED"
"""The type of relationships that only the build before shows; `was` names the type they had."""

VECTOR_LABEL = "PalimpsestVector"
VECTOR_INDEX = "palimpsest_vectors"


def current_label(kind: str) -> str:
    """Returns the label of the nodes that the published build shows."""
    return f"Palimpsest{kind}"


def row_label(kind: str) -> str:
    """Returns the label of all nodes of a kind, those of a build before or to come included."""
    return f"Palimpsest{kind}Row"


ROW_KINDS = {row_label(kind): kind for kind in KEYS}

_ROWS_AT_ONCE = {"ScopeStats": 50, "Postings": 50, "Revision": 50, "VectorBlock": 16, "ScopeArrays": 16}


def at_once(label: str, usual: int) -> int:
    """Returns how many nodes of a label one transaction may touch: packed bytes are large, made or deleted."""
    return _ROWS_AT_ONCE.get(label, usual)


@dataclass(frozen=True)
class Edge:
    """A relationship type between two labels. `anchor` is the end that has few of them: where one is looked up from."""

    type: str
    source: str
    target: str
    anchor: str = "source"

    @property
    def name(self) -> str:
        """The name under which rows and counts are kept."""
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
        Edge("PART_OF", "Topic", "Topic"),
        Edge("DEPENDS_ON", "Topic", "Topic"),
        Edge("PRECEDES", "Topic", "Topic"),
    )
}
"""SUPERSEDES says which memory took another's place, for whatever reason; UPDATES, EXTENDS, DERIVES are relations."""

TYPES = tuple(sorted({e.type for e in EDGES.values()}))
READ_BY_BACKEND = ("EXTENDS", "DERIVES", "UPDATES", "SUPERSEDES", "MENTIONS", "FROM", "REVISION_OF", "WINDOW_OF")
"""Types that readers of the build before may still follow; the others go as soon as a build without them is shown."""

_HOME = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class VectorSpace:
    """The label of the nodes with vectors, and the index over them.

    Homes share one index under one name. A home that is only measured has its own, dropped with it: an index that is
    made after its nodes is built in bulk.
    """

    label: str = VECTOR_LABEL
    index: str = VECTOR_INDEX

    @classmethod
    def of_measured(cls, home_id: str) -> "VectorSpace":
        """Returns the space of a home that is dropped once it was measured.

        Raises:
            ValueError: `home_id` is not 16 hex digits; a label cannot be a parameter.
        """
        if not _HOME.fullmatch(home_id):
            raise ValueError(f"home_id {home_id!r}: not 16 hex digits")
        return cls(f"{VECTOR_LABEL}_{home_id}", f"{VECTOR_INDEX}_{home_id}")
