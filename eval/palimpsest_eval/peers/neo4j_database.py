"""The database that peers share: emptied before each of their corpora. Needs the driver and nothing else."""

from typing import Any

_DELETE_NODES = "MATCH (n) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 5000 ROWS"
_CONSTRAINTS = "SHOW CONSTRAINTS YIELD name"
_INDEXES = "SHOW INDEXES YIELD name, type, owningConstraint WHERE type <> 'LOOKUP' AND owningConstraint IS NULL"
_AWAIT = "CALL db.awaitIndexes(120)"


def empty_database(driver: Any) -> None:
    """Deletes every node, constraint and index of a database."""
    with driver.session() as session:
        session.run(_DELETE_NODES).consume()
        for record in list(session.run(_CONSTRAINTS + " RETURN name")):
            session.run(f"DROP CONSTRAINT `{_quoted(record['name'])}` IF EXISTS").consume()
        for record in list(session.run(_INDEXES + " RETURN name")):
            session.run(f"DROP INDEX `{_quoted(record['name'])}` IF EXISTS").consume()


def await_indexes(driver: Any) -> None:
    """Waits until every index is online: what is not in an index yet is not found."""
    with driver.session() as session:
        session.run(_AWAIT).consume()


def _quoted(name: str) -> str:
    return name.replace("`", "``")
