"""Writing in batches: each is applied exactly once, whatever is retried, and never after a later load began."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import neo4j
from neo4j.exceptions import IncompleteCommit

from palimpsest.core.errors import ComponentFailed
from palimpsest.core.progress import say
from palimpsest.neo4j_graph.connect import Connection
from palimpsest.neo4j_graph.cypher import loading
from palimpsest.neo4j_graph.load.batches import Batch

_NO_LIMIT = 2**31 - 1


class Writer:
    """Writes one load's batches. `number` is what the load writes under, `writes` how many rows it wrote."""

    def __init__(self, connection: Connection, home: str):
        self._connection, self._home = connection, home
        self.token = secrets.token_hex(8)
        self.number = self.published = self.writes = self._batch = 0

    def once(self, statement: str, **values: object) -> int | None:
        """Runs a batch exactly once, with back-off on transient errors; returns its count, None if it had run before.

        Raises:
            ComponentFailed: another load of this home took over.
        """
        self._batch += 1
        parameters = self._parameters(batch=self._batch) | values
        try:
            found = self._run(statement, parameters)
        except IncompleteCommit:  # the driver does not retry this one: it cannot know that batches are applied once
            say("neo4j: connection lost during commit; trying again")
            found = self._run(statement, parameters)
        if found and found[0]["n"]:
            return int(found[0]["n"])
        state = self._connection.read(loading.BATCH_DONE, home=self._home, token=self.token, batch=self._batch)
        if not state:
            raise ComponentFailed("neo4j: another load of this home has started since; run again")
        return None if state[0]["done"] else 0

    def apply(self, statement: str, rows: Sequence[Mapping[str, Any]], size: int, **values: object) -> None:
        """Runs a statement over rows that are on the server, `size` at a time."""
        for start in range(0, len(rows), size):
            self.writes += self.once(statement, rows=list(rows[start : start + size]), **values) or 0

    def publish(
        self,
        record: Mapping[str, object],
        oldest: int,
        deferred: Iterable[tuple[str, Batch]],
        visibility: Iterable[str],
    ) -> bool:
        """Moves the published number in one transaction, with what must become visible together.

        Args:
            record: what the server records of the build.
            oldest: the oldest number that readers may still use.
            deferred: statements that write rows, with their rows.
            visibility: statements of `cypher.visibility`.

        Returns:
            Whether this call moved it; if not, another load or an earlier, unconfirmed commit of this one may have.

        Raises:
            ComponentFailed: a row could not be written.
        """
        statements = list(visibility)
        self._connection.rate_limiter.wait()

        def work(tx: neo4j.ManagedTransaction) -> bool:
            if not _count(tx, loading.PUBLISH, self._parameters(oldest=oldest, record=dict(record))):
                return False
            for batch, (statement, rows) in enumerate(deferred, self._batch + 1):
                if (n := _count(tx, statement, self._parameters(batch=batch, rows=rows))) != len(rows):
                    raise ComponentFailed(f"neo4j: {n} of {len(rows)} rows were written; run again")
            for statement in statements:
                _count(tx, statement, self._parameters(limit=_NO_LIMIT))
            return True

        try:
            with self._connection.session() as session:
                return session.execute_write(work)
        except IncompleteCommit:
            say("neo4j: connection lost during commit; checking whether it succeeded")
            return False

    def list_rows(self, statement: str) -> Sequence[Mapping[str, Any]]:
        """Returns the rows that the server has of a kind or relationship."""
        self._connection.rate_limiter.wait()
        with self._connection.session() as session:
            return session.execute_read(
                lambda tx: tx.run(statement, home=self._home, published=self.published, number=self.number).data()
            )

    def _parameters(self, **values: object) -> dict[str, Any]:
        return {"home": self._home, "token": self.token, "number": self.number} | values

    def _run(self, statement: str, parameters: dict[str, Any]) -> list[neo4j.Record]:
        self._connection.rate_limiter.wait()
        return self._connection.driver.execute_query(statement, parameters, database_=self._connection.database).records


def _count(tx: neo4j.ManagedTransaction, statement: str, parameters: dict[str, Any]) -> int:
    found = tx.run(statement, parameters).single()
    return int(found["n"]) if found else 0
