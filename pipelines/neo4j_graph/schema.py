"""The schema: numbered migrations with a record of those applied, and each home's own vector index."""

import time
from dataclasses import dataclass

from palimpsest.core.errors import ComponentFailed
from palimpsest.neo4j_graph import cypher, legacy
from palimpsest.neo4j_graph.connect import Connection
from palimpsest.neo4j_graph.graph_model import VectorSpace

_INDEX_S = 3600
_POLL_S = 0.2


@dataclass(frozen=True)
class Migration:
    """Statements that may be run again; never edited once released, only followed by another."""

    number: int
    name: str
    statements: tuple[str, ...]


# 1 to 5 made the schema of labels without a prefix; `legacy` removes it.
MIGRATIONS = (
    Migration(6, "keys of labels of our own", cypher.CREATE_KEYS),
    Migration(7, "ranges of labels of our own", cypher.CREATE_RANGES),
    Migration(8, "full text of what is current", cypher.CREATE_FULL_TEXT),
)


def migrate(connection: Connection) -> list[int]:
    """Applies the migrations that the database has not had, in order; returns their numbers."""
    connection.ddl(cypher.CREATE_MIGRATION_KEY)
    applied = {r["number"] for r in connection.read(cypher.MIGRATIONS_APPLIED)}
    todo = [m for m in MIGRATIONS if m.number not in applied]
    if todo:
        legacy.drop_closed_indexes(connection)
    for migration in todo:
        for statement in migration.statements:
            connection.ddl(statement)
        connection.write(cypher.RECORD_MIGRATION, number=migration.number, name=migration.name)
    return [m.number for m in todo]


def make_vector_index(connection: Connection, space: VectorSpace) -> float:
    """Makes a vector index unless it is there, waits until it is ONLINE, and returns the seconds."""
    started = time.perf_counter()
    connection.ddl(cypher.create_vector_index(space))
    until = time.monotonic() + _INDEX_S
    while (state := _state(connection, space.index)) != "ONLINE":
        if state == "FAILED" or time.monotonic() > until:
            raise ComponentFailed(
                f"neo4j: vector index {space.index} is {state}; see the server's log, then load again"
            )
        time.sleep(_POLL_S)
    return time.perf_counter() - started


def _state(connection: Connection, name: str) -> str:
    states = {r["name"]: r["state"] for r in connection.read(cypher.INDEX_STATES)}
    return str(states.get(name, "MISSING"))


def drop_own_vector_index(connection: Connection, home_id: str) -> None:
    """Drops the vector index that a measured home has of its own; the one that homes share stays."""
    connection.ddl(cypher.drop_index(VectorSpace.of_measured(home_id).index))
