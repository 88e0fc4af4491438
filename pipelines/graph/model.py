"""The model of the graph: labels with their keys, relationship types with their ends; Cypher and rows follow it."""

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
"""Each label and the property that names a node of it; unique with home_id and since."""

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
_SPACE = re.compile(r"[0-9a-f]{16}_[0-9a-f]{16}")


def vector_label(space: str) -> str:
    """Returns the label of the nodes whose vectors are of one home and one embedder; its index has the same name.

    One index a home and embedder: it is built in bulk, dropped with its home, and vectors of two embedders never meet.

    Raises:
        ValueError: `space` is not `<home_id>_<embedder hash>` in hex digits; a label cannot be a parameter.
    """
    if not _SPACE.fullmatch(space):
        raise ValueError(f"vector space {space!r}: not two ids of 16 hex digits")
    return f"Vectors_{space}"
