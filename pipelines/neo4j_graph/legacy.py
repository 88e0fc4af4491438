"""What versions before labels of our own left on a server: found by a home's id, removed once it is loaded anew."""

from palimpsest.neo4j_graph.connect import Connection
from palimpsest.neo4j_graph.graph_model import TYPES

_PACKED = ("ScopeArrays", "VectorBlock", "Postings", "ScopeStats", "Revision")
LABELS = (
    "Home",
    "Build",
    *_PACKED,
    "Window",
    "Memory",
    "Topic",
    "Entity",
    "Chunk",
    "Document",
    "User",
    "Collection",
    "Load",
    "LoadLock",
)
"""Labels of earlier versions, in the order in which their nodes go: readers are told first, hubs go last."""

_BATCH = 5000
_BATCH_PACKED = 16
_HELD = {label: f"MATCH (n:{label} {{home_id: $home}}) RETURN count(n) AS n" for label in LABELS}
_DROP = {
    label: f"MATCH (n:{label} {{home_id: $home}}) WITH n LIMIT $limit DETACH DELETE n RETURN count(*) AS n"
    for label in LABELS
}
_HOMES = "MATCH (h:Home) WHERE h.home_id IS NOT NULL AND h.published IS NOT NULL RETURN count(h) AS n"
_SCHEMA = "SHOW INDEXES YIELD name, labelsOrTypes, properties, owningConstraint RETURN *"
_CLOSED = {f"{t.lower()}_closed": t for t in TYPES}
_INDEXES = {
    "memory_scope": ["home_id", "collection", "user_id", "is_latest"],
    "window_scope": ["home_id", "collection", "user_id"],
    "window_memory": ["home_id", "memory_id"],
    "entity_name": ["home_id", "name"],
    "document_uri": ["home_id", "uri"],
    "memory_text": ["text", "title"],
    "names": ["name", "aliases", "label"],
}


def held(connection: Connection, home: str) -> list[str]:
    """Returns the labels of an earlier version that nodes of a home still bear."""
    return [label for label in LABELS if connection.read(_HELD[label], home=home)[0]["n"]]


def drop(connection: Connection, home: str) -> int:
    """Deletes what an earlier version loaded of a home; returns how many nodes went.

    The schema of that version goes with the last home that used it. Nodes without our `home_id`, and indexes that only
    have the name of one of ours, are left alone.
    """
    if not held(connection, home):
        return 0
    gone = 0
    for label in LABELS:
        limit = _BATCH_PACKED if label in _PACKED else _BATCH
        while n := connection.write(_DROP[label], home=home, limit=limit)[0]["n"]:
            gone += int(n)
    for row in connection.read(_SCHEMA):
        if row["name"].startswith(f"Vectors_{home}_"):
            connection.ddl(f"DROP INDEX {row['name']} IF EXISTS")
    if not connection.read(_HOMES)[0]["n"]:
        _drop_schema(connection)
    return gone


def drop_closed_indexes(connection: Connection) -> None:
    """Drops the indexes of closed relationships: two indexes of one type and the same properties cannot be."""
    for row in connection.read(_SCHEMA):
        if _CLOSED.get(row["name"]) in (row["labelsOrTypes"] or ()) and row["properties"] == ["home_id", "until"]:
            connection.ddl(f"DROP INDEX {row['name']} IF EXISTS")


def _drop_schema(connection: Connection) -> None:
    keys = {f"{label.lower()}_key": label for label in LABELS}
    for row in connection.read(_SCHEMA):
        name, labels, properties = row["name"], row["labelsOrTypes"] or [], row["properties"] or []
        if labels == [keys.get(name)] and properties[:1] == ["home_id"] and row["owningConstraint"]:
            connection.ddl(f"DROP CONSTRAINT {name} IF EXISTS")
        elif _INDEXES.get(name) == properties and set(labels) <= set(LABELS):
            connection.ddl(f"DROP INDEX {name} IF EXISTS")
