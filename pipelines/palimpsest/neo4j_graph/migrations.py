"""Applies the statements of the schema to a database, in numbered migrations; defines no index itself."""

import time
from dataclasses import dataclass

from palimpsest.core.errors import ComponentFailed
from palimpsest.neo4j_graph import cypher
from palimpsest.neo4j_graph.connect import Connection
from palimpsest.neo4j_graph.cypher import drop_index
from palimpsest.neo4j_graph.model import TYPES, VectorSpace, current_label, row_label

# What earlier versions left on a server, found by a home's id: labels without a prefix, and former kinds of nodes.

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
"""Labels of earlier versions, in the order in which their nodes go: what readers look at first, hubs last."""

_NODES_PER_BATCH = 5000
_PACKED_NODES_PER_BATCH = 16
_COUNT = {label: f"MATCH (n:{label} {{home_id: $home}}) RETURN count(n) AS n" for label in LABELS}
_DROP = {
    label: f"MATCH (n:{label} {{home_id: $home}}) WITH n LIMIT $limit DETACH DELETE n RETURN count(*) AS n"
    for label in LABELS
}
_COUNT_HOMES = "MATCH (h:Home) WHERE h.home_id IS NOT NULL AND h.published IS NOT NULL RETURN count(h) AS n"
_RENAME = tuple(
    f"""MATCH (n:{row_label(kind)} {{home_id: $home}}) WITH n LIMIT $limit
SET n:{row_label("Node")}, n.node_id = n.{key} REMOVE n:{row_label(kind)}
FOREACH (_ IN CASE WHEN n:{current_label(kind)} THEN [1] ELSE [] END | SET n:{current_label("Node")})
RETURN count(*) AS n"""
    for kind, key in (("Entity", "entity_id"), ("Topic", "topic_id"))
)
"""Entities and topics were kinds: as nodes, the next load compares them with those of the build."""
_SCHEMA = "SHOW INDEXES YIELD name, labelsOrTypes, properties, owningConstraint RETURN *"
_TYPE_OF_CLOSED_INDEX = {f"{t.lower()}_closed": t for t in TYPES}
_INDEXES = {
    "memory_scope": ["home_id", "collection", "user_id", "is_latest"],
    "window_scope": ["home_id", "collection", "user_id"],
    "window_memory": ["home_id", "memory_id"],
    "entity_name": ["home_id", "name"],
    "document_uri": ["home_id", "uri"],
    "memory_text": ["text", "title"],
    "names": ["name", "aliases", "label"],
}


def remaining_labels(connection: Connection, home: str) -> list[str]:
    """Returns the labels of an earlier version that nodes of a home still have."""
    return [label for label in LABELS if connection.read(_COUNT[label], home=home)[0]["n"]]


def drop(connection: Connection, home: str) -> int:
    """Deletes what an earlier version loaded of a home; returns the number of deleted nodes.

    The schema of that version is removed with the last home that used it. Nodes without our `home_id`, and indexes that
    only have the name of one of ours, are left alone.
    """
    if not remaining_labels(connection, home):
        return 0
    deleted = 0
    for label in LABELS:
        limit = _PACKED_NODES_PER_BATCH if label in _PACKED else _NODES_PER_BATCH
        while n := connection.write(_DROP[label], home=home, limit=limit)[0]["n"]:
            deleted += int(n)
    for row in connection.read(_SCHEMA):
        if row["name"].startswith(f"Vectors_{home}_"):
            connection.ddl(drop_index(row["name"]))
    if not connection.read(_COUNT_HOMES)[0]["n"]:
        _drop_schema(connection)
    return deleted


def rename_kinds(connection: Connection, home: str) -> None:
    """Makes nodes of the entities and topics that an earlier version loaded of a home."""
    for statement in _RENAME:
        while connection.write(statement, home=home, limit=_NODES_PER_BATCH)[0]["n"]:
            continue


def drop_closed_indexes(connection: Connection) -> None:
    """Drops the indexes of closed relationships: there cannot be two of one type and the same properties."""
    for row in connection.read(_SCHEMA):
        is_ours = _TYPE_OF_CLOSED_INDEX.get(row["name"]) in (row["labelsOrTypes"] or ())
        if is_ours and row["properties"] == ["home_id", "until"]:
            connection.ddl(drop_index(row["name"]))


def _drop_schema(connection: Connection) -> None:
    keys = {f"{label.lower()}_key": label for label in LABELS}
    for row in connection.read(_SCHEMA):
        name, labels, properties = row["name"], row["labelsOrTypes"] or [], row["properties"] or []
        if labels == [keys.get(name)] and properties[:1] == ["home_id"] and row["owningConstraint"]:
            connection.ddl(f"DROP CONSTRAINT {name} IF EXISTS")
        elif _INDEXES.get(name) == properties and set(labels) <= set(LABELS):
            connection.ddl(drop_index(name))


_INDEX_WAIT_S = 3600
_POLL_S = 0.2


@dataclass(frozen=True)
class Migration:
    """Statements that may be run again.

    Never edited once released, only followed by another; except that a statement is removed once a later migration
    reverts its effect.
    """

    number: int
    name: str
    statements: tuple[str, ...]


# 1 to 5 made the schema of labels without a prefix; `legacy` removes it.
MIGRATIONS = (
    Migration(6, "keys of labels of our own", cypher.CREATE_KEYS),
    Migration(7, "ranges of labels of our own", cypher.CREATE_RANGES),
    Migration(8, "full text of what is current", cypher.CREATE_FULL_TEXT),
    Migration(9, "indexes that no statement uses", cypher.DROP_UNUSED),
    Migration(
        10,
        "nodes in place of entities and topics",
        (*cypher.CREATE_KEYS, *cypher.CREATE_RANGES, *cypher.CREATE_FULL_TEXT, *cypher.DROP_UNUSED),
    ),
    Migration(11, "closed relationships of disputes", cypher.CREATE_RANGES),
)


def migrate(connection: Connection) -> list[int]:
    """Applies the migrations that the database has not had, in order; returns their numbers."""
    connection.ddl(cypher.CREATE_MIGRATION_KEY)
    applied = {r["number"] for r in connection.read(cypher.MIGRATIONS_APPLIED)}
    pending = [m for m in MIGRATIONS if m.number not in applied]
    if pending:
        drop_closed_indexes(connection)
    for migration in pending:
        for statement in migration.statements:
            connection.ddl(statement)
        connection.write(cypher.RECORD_MIGRATION, number=migration.number, name=migration.name)
    return [m.number for m in pending]


def make_vector_index(connection: Connection, space: VectorSpace) -> float:
    """Creates a vector index unless it exists, waits until it is ONLINE, and returns the seconds.

    Raises:
        ComponentFailed: the index failed, or is not ONLINE after an hour.
    """
    started = time.perf_counter()
    connection.ddl(cypher.create_vector_index(space))
    while (state := _state(connection, space.index)) != "ONLINE":
        if state == "FAILED" or time.perf_counter() - started > _INDEX_WAIT_S:
            raise ComponentFailed(
                f"neo4j: vector index {space.index} is {state}; see the server's log, then load again"
            )
        time.sleep(_POLL_S)
    return time.perf_counter() - started


def drop_own_vector_index(connection: Connection, home_id: str) -> None:
    """Drops the vector index that a benchmark's home has of its own; the one that homes share stays."""
    connection.ddl(cypher.drop_index(VectorSpace.of_measured(home_id).index))


def _state(connection: Connection, name: str) -> str:
    states = {r["name"]: r["state"] for r in connection.read(cypher.INDEX_STATES)}
    return str(states.get(name, "MISSING"))
