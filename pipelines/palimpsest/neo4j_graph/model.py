"""The model of the graph: labels with their keys, relationship types with their ends; Cypher and rows follow it.

Every label begins with `Palimpsest`: a shared database keeps its own `User` and `Document`. Each node has two labels:

- `PalimpsestMemoryRow`, always: what the loader and the readers match, whichever build the row belongs to;
- `PalimpsestMemory`, only while the row belongs to the published build: what people write.

A node of the graph that is an entity or a topic has `PalimpsestEntity` or `PalimpsestTopic` next to `PalimpsestNode`.
"""

import re
from dataclasses import dataclass

from palimpsest.core.ids import content_id
from palimpsest.facts.vocabulary import VOCABULARY

OPEN = 2**31 - 1  # `until` of a row that nothing has replaced yet
DIMENSIONS = 384
FORMAT = 5  # of what readers read: another one is loaded again; 5 added which memories formed ones rest on
MAX_CACHED_VECTORS = 200_000  # a reader caches and ranks so many of a scope exactly (1.5 KiB each); more, by the index

KEYS = {
    "Collection": "name",
    "User": "user_id",
    "Document": "document_key",
    "Revision": "document_id",
    "Chunk": "chunk_id",
    "Node": "node_id",
    "Memory": "memory_id",
    "Window": "window_id",
    "ScopeStats": "scope_id",
    "Postings": "postings_id",
    "VectorBlock": "block_id",
    "ScopeArrays": "arrays_id",
}
"""Each kind of node and the property that identifies a node of it; unique with home_id and since."""

CURRENT = ("Collection", "User", "Document", "Revision", "Chunk", "Node", "Memory")
"""Kinds of nodes that people look at; the others are packed for readers and have no label without `Row`."""

NODE_LABELS = {"entity_id": "PalimpsestEntity", "topic_id": "PalimpsestTopic"}
"""Labels that some nodes of kind Node have as well while they are of the published build, by the property they need."""

DETAILS = ("description", "importance", "memory_count", "created_at", "updated_at", "metadata", "vector")
"""Properties of a Node that change with every memory of it: set in place, so that its relationships stay.

`was_` and the name is what readers of the previous build read, where `changed_in` is the number that set them.
"""

CLOSED = "PALIMPSEST_CLOSED"
"""The type of relationships that only the previous build has; `was` names the type they had."""

VECTOR_LABEL = "PalimpsestVector"
VECTOR_INDEX = "palimpsest_vectors"


def current_label(kind: str) -> str:
    """Returns the label of the nodes of the published build."""
    return f"Palimpsest{kind}"


def current_labels(kind: str) -> tuple[str, ...]:
    """Returns every label that nodes of the published build may have."""
    return current_label(kind), *(NODE_LABELS.values() if kind == "Node" else ())


def row_label(kind: str) -> str:
    """Returns the label of all nodes of a kind, those of an earlier or unfinished build included."""
    return f"Palimpsest{kind}Row"


ROW_KINDS = {row_label(kind): kind for kind in KEYS}

_MAX_PACKED_ROWS = {"ScopeStats": 50, "Postings": 50, "Revision": 50, "VectorBlock": 16, "ScopeArrays": 16}


def batch_size(kind: str, usual: int) -> int:
    """Returns how many nodes of a kind one transaction may touch: packed bytes are large, created or deleted."""
    return _MAX_PACKED_ROWS.get(kind, usual)


NODE_EDGES = ("SUBTOPIC_OF", "RELATED_TO", "PART_OF", "DEPENDS_ON", "PRECEDES")
"""Types of the relationships between nodes that are no facts."""

_NO_PREDICATES = {"FACT", "STATES", "PREDICATE", CLOSED, *NODE_EDGES}
FACT_TYPES = {name: name.upper() for name in VOCABULARY if name.upper() not in _NO_PREDICATES}
"""The type of a fact's relationship by its predicate; a predicate outside the vocabulary is in FACT alone."""


@dataclass(frozen=True)
class Edge:
    """A relationship type between two kinds.

    Attributes:
        type: of its relationships; where each row has a type of its own, a name for all of them.
        source, target: kinds of its ends.
        anchor: the end with few of them: lookups start there.
        is_typed_by_row: each row has the type in its column `type`, one of a closed set.
    """

    type: str
    source: str
    target: str
    anchor: str = "source"
    is_typed_by_row: bool = False

    @property
    def name(self) -> str:
        """The name of its rows and counts."""
        return f"{self.source}-{self.type}-{self.target}"

    @property
    def pattern(self) -> str:
        """The type of its relationships in a pattern; of those typed by row, any that no other edge of theirs has."""
        return f"!({'|'.join(('FACT', *NODE_EDGES, CLOSED))})" if self.is_typed_by_row else self.type


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
        Edge("MENTIONS", "Memory", "Node"),
        Edge("ABOUT", "Memory", "Node"),
        Edge("STATES", "Memory", "Node"),
        Edge("UPDATES", "Memory", "Memory"),
        Edge("EXTENDS", "Memory", "Memory"),
        Edge("DERIVES", "Memory", "Memory"),
        Edge("DISPUTES", "Memory", "Memory"),
        Edge("SUPERSEDES", "Memory", "Memory"),
        Edge("SUPERSEDES", "Document", "Memory", "target"),
        *(Edge(t, "Node", "Node") for t in NODE_EDGES),
        Edge("FACT", "Node", "Node"),
        Edge("PREDICATE", "Node", "Node", is_typed_by_row=True),
    )
}
"""SUPERSEDES leads to a memory that was retired, for any reason: from the memory that replaced it, or from the document
that did, which may be a later version of its own; UPDATES, EXTENDS, DERIVES are relations.

DISPUTES leads to an older memory that a newer one may end, or contradicts, while both are latest; the relation may be
an EXTENDS as well.

STATES is a fact, from each memory that states it to its subject. FACT is one between two nodes, and PREDICATE the same
with its predicate as type, where that is of `FACT_TYPES`.
"""

TYPES = tuple(sorted({e.type for e in EDGES.values() if not e.is_typed_by_row}))
READ_EDGES = frozenset(
    e.name
    for e in EDGES.values()
    if e.type in ("FROM", "REVISION_OF", "WINDOW_OF") or (e.target == "Node" and not e.is_typed_by_row)
)
"""What readers of the previous build may still follow; others go as soon as a build without them is published."""

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


# The checks after a load by name: apart from the checks, because the driver they need takes a second to import.

CHECKS = {
    "build": "The server shows this home.",
    "counts": "Rows by label and by relationship type are the build's.",
    "index": "Every index is ONLINE, and the vectors' has their dimension.",
    "latest": "Each chain of updates has one latest memory.",
    "scope": "No relationship leads from one scope into another.",
    "labels": "Labels without Row are on what the published build shows, and on nothing else.",
    "latency": "p95 of complete queries on the largest scope is under 400 ms; never fails a load.",
}
"""What is checked after a load, by the word that its violations begin with."""

WARNINGS = frozenset({"latency"})
"""Checks of the machine and not of the load: they never fail it."""
