"""The schema: numbered migrations with a record of those applied, and each home's own vector index."""

import time
from dataclasses import dataclass

from palimpsest.errors import ComponentFailed
from palimpsest.graph import cypher
from palimpsest.graph.connect import Connection

_INDEX_S = 3600
_POLL_S = 0.2


@dataclass(frozen=True)
class Migration:
    """Statements that may be run again; never edited once released, only followed by another."""

    number: int
    name: str
    statements: tuple[str, ...]


MIGRATIONS = (
    Migration(1, "keys", cypher.CREATE_KEYS),
    Migration(2, "ranges", cypher.CREATE_RANGES),
    Migration(3, "full text", cypher.CREATE_FULL_TEXT),
    Migration(4, "key of vector blocks", cypher.CREATE_KEYS),
    Migration(5, "key of arrays", cypher.CREATE_KEYS),
)


def migrate(connection: Connection) -> list[int]:
    """Applies the migrations that the database has not had, in order; returns their numbers."""
    connection.ddl(cypher.CREATE_MIGRATION_KEY)
    applied = {r["number"] for r in connection.read(cypher.MIGRATIONS_APPLIED)}
    todo = [m for m in MIGRATIONS if m.number not in applied]
    for migration in todo:
        for statement in migration.statements:
            connection.ddl(statement)
        connection.write(cypher.RECORD_MIGRATION, number=migration.number, name=migration.name)
    return [m.number for m in todo]


def make_vector_index(connection: Connection, label: str) -> float:
    """Makes a home's vector index unless it is there, waits until it is ONLINE, and returns the seconds."""
    started = time.perf_counter()
    connection.ddl(cypher.create_vector_index(label))
    until = time.monotonic() + _INDEX_S
    while (state := _state(connection, label)) != "ONLINE":
        if state == "FAILED" or time.monotonic() > until:
            raise ComponentFailed(f"neo4j: vector index {label} is {state}; see the server's log, then load again")
        time.sleep(_POLL_S)
    return time.perf_counter() - started


def _state(connection: Connection, name: str) -> str:
    states = {r["name"]: r["state"] for r in connection.read(cypher.INDEX_STATES)}
    return str(states.get(name, "MISSING"))


def vector_indexes(connection: Connection, home_id: str) -> list[str]:
    """Returns the names of a home's vector indexes, sorted."""
    names = (r["name"] for r in connection.read(cypher.INDEX_STATES))
    return sorted(n for n in names if n.startswith(f"Vectors_{home_id}_"))
