"""Applies the statements of `cypher/ddl` to a database, in numbered migrations; defines no index itself."""

import time
from dataclasses import dataclass

from palimpsest.core.errors import ComponentFailed
from palimpsest.neo4j_graph.connect import Connection
from palimpsest.neo4j_graph.cypher import ddl
from palimpsest.neo4j_graph.model import VectorSpace
from palimpsest.neo4j_graph.schema import legacy

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
    Migration(6, "keys of labels of our own", ddl.CREATE_KEYS),
    Migration(7, "ranges of labels of our own", ddl.CREATE_RANGES),
    Migration(8, "full text of what is current", ddl.CREATE_FULL_TEXT),
    Migration(9, "indexes that no statement uses", ddl.DROP_UNUSED),
    Migration(
        10,
        "nodes in place of entities and topics",
        (*ddl.CREATE_KEYS, *ddl.CREATE_RANGES, *ddl.CREATE_FULL_TEXT, *ddl.DROP_UNUSED),
    ),
    Migration(11, "closed relationships of disputes", ddl.CREATE_RANGES),
)


def migrate(connection: Connection) -> list[int]:
    """Applies the migrations that the database has not had, in order; returns their numbers."""
    connection.ddl(ddl.CREATE_MIGRATION_KEY)
    applied = {r["number"] for r in connection.read(ddl.MIGRATIONS_APPLIED)}
    pending = [m for m in MIGRATIONS if m.number not in applied]
    if pending:
        legacy.drop_closed_indexes(connection)
    for migration in pending:
        for statement in migration.statements:
            connection.ddl(statement)
        connection.write(ddl.RECORD_MIGRATION, number=migration.number, name=migration.name)
    return [m.number for m in pending]


def make_vector_index(connection: Connection, space: VectorSpace) -> float:
    """Creates a vector index unless it exists, waits until it is ONLINE, and returns the seconds.

    Raises:
        ComponentFailed: the index failed, or is not ONLINE after an hour.
    """
    started = time.perf_counter()
    connection.ddl(ddl.create_vector_index(space))
    while (state := _state(connection, space.index)) != "ONLINE":
        if state == "FAILED" or time.perf_counter() - started > _INDEX_WAIT_S:
            raise ComponentFailed(
                f"neo4j: vector index {space.index} is {state}; see the server's log, then load again"
            )
        time.sleep(_POLL_S)
    return time.perf_counter() - started


def drop_own_vector_index(connection: Connection, home_id: str) -> None:
    """Drops the vector index that a benchmark's home has of its own; the one that homes share stays."""
    connection.ddl(ddl.drop_index(VectorSpace.of_measured(home_id).index))


def _state(connection: Connection, name: str) -> str:
    states = {r["name"]: r["state"] for r in connection.read(ddl.INDEX_STATES)}
    return str(states.get(name, "MISSING"))
