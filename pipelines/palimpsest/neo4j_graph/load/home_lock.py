"""One load of a home at a time: a write lock on the server, which frees it when this process dies."""

from collections.abc import Iterator
from contextlib import contextmanager

import neo4j
from neo4j.exceptions import DriverError, Neo4jError

from palimpsest.core.errors import PalimpsestError
from palimpsest.neo4j_graph.connect import Connection
from palimpsest.neo4j_graph.cypher import loading

LOCK_WAIT_S = 5.0
_LOCKED_CODES = ("LockClientStopped", "Terminated", "Timeout", "TimedOut")


@contextmanager
def home_lock(connection: Connection, home: str, token: str) -> Iterator[None]:
    """Keeps a write lock on a home until the block ends.

    Raises:
        PalimpsestError: another load of this home is running.
    """
    with connection.session() as session:
        transaction = _lock(connection, session, home, token)
        try:
            yield
        finally:
            _release(transaction)


def _lock(connection: Connection, session: neo4j.Session, home: str, token: str) -> neo4j.Transaction:
    transaction = session.begin_transaction(timeout=None)
    try:
        # A transaction with a time limit fails where the lock is taken; the one that keeps the lock must have none.
        with connection.session() as probe, probe.begin_transaction(timeout=LOCK_WAIT_S) as trial:
            trial.run(loading.TAKE_LOCK, home=home, token=token).consume()
            trial.commit()
        transaction.run(loading.TAKE_LOCK, home=home, token=token).consume()
    except Neo4jError as e:
        _release(transaction)
        if any(word in (e.code or "") for word in _LOCKED_CODES):
            raise PalimpsestError("neo4j: another load of this home is running; wait for it, then load again") from None
        raise
    return transaction


def _release(transaction: neo4j.Transaction) -> None:
    try:
        transaction.close()
    except (Neo4jError, DriverError, OSError):
        return  # the server is gone, and the lock with it
