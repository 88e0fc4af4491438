"""Writing in batches: each is applied exactly once, whatever is tried again, and never after a later load began."""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import neo4j
import numpy as np
import polars as pl
from neo4j.exceptions import IncompleteCommit
from neo4j.vector import Vector

from palimpsest.core.errors import ComponentFailed
from palimpsest.core.progress import say
from palimpsest.index.write_index import VectorLookup
from palimpsest.neo4j_graph import cypher
from palimpsest.neo4j_graph.connect import Connection
from palimpsest.neo4j_graph.current import ALL
from palimpsest.neo4j_graph.packed import pack_block

_T = TypeVar("_T")


class Writer:
    """Writes one load's batches. `number` is what the load writes under, `writes` how many rows it wrote."""

    def __init__(self, connection: Connection, home: str):
        self._connection, self._home = connection, home
        self.token = secrets.token_hex(8)
        self.number = self.published = self._batch = self.writes = 0

    def once(self, statement: str, **values: Any) -> int | None:
        """Runs a batch exactly once, with back-off on errors that pass; returns its count, None where it had been run.

        Raises:
            ComponentFailed: another load of this home took over.
        """
        self._batch += 1
        told = {"home": self._home, "token": self.token, "batch": self._batch, "number": self.number} | values
        try:
            found = self._run(statement, told)
        except IncompleteCommit:  # the driver does not try this one again, not knowing that batches may be
            say("neo4j: gone while it committed; trying again")
            found = self._run(statement, told)
        if found and found[0]["n"]:
            return int(found[0]["n"])
        state = self._connection.read(cypher.BATCH_DONE, home=self._home, token=self.token, batch=self._batch)
        if not state:
            raise ComponentFailed("neo4j: another load of this home took over; run again")
        return None if state[0]["done"] else 0

    def flip(
        self,
        told: Mapping[str, Any],
        oldest: int,
        made: Sequence[tuple[str, list[dict[str, Any]]]],
        moved: Iterable[str],
    ) -> bool:
        """Moves the published number in one transaction, with what must be seen together.

        Args:
            told: what the server records of the build.
            oldest: the oldest number that readers may still hold.
            made: statements of `CREATE_EDGES` with their rows.
            moved: statements of `current`.

        Returns:
            Whether this call moved it; where not, another load or an earlier, unheard commit of this one may have.

        Raises:
            ComponentFailed: a relationship could not be made.
        """
        common = {"home": self._home, "token": self.token, "number": self.number}
        statements = list(moved)

        def work(tx: neo4j.ManagedTransaction) -> bool:
            if not _count(tx, cypher.FLIP, common | {"oldest": oldest, "told": told}):
                return False
            for batch, (statement, rows) in enumerate(made, self._batch + 1):
                if (n := _count(tx, statement, common | {"batch": batch, "rows": rows})) != len(rows):
                    raise ComponentFailed(f"neo4j: {n} of {len(rows)} relationships could be made; run again")
            for statement in statements:
                _count(tx, statement, common | {"limit": ALL})
            return True

        try:
            with self._connection.session() as session:
                return session.execute_write(work)
        except IncompleteCommit:
            say("neo4j: gone while it committed; looking whether it did")
            return False

    def _run(self, statement: str, told: dict[str, Any]) -> list[neo4j.Record]:
        return self._connection.driver.execute_query(statement, told, database_=self._connection.database).records

    def apply(self, statement: str, rows: Sequence[Mapping[str, Any]], size: int, **values: Any) -> None:
        """Runs a statement over rows that are there, `size` at a time."""
        for start in range(0, len(rows), size):
            self.writes += self.once(statement, rows=list(rows[start : start + size]), **values) or 0

    def listed(self, statement: str) -> list[dict[str, Any]]:
        """Returns what the server holds of a label or relationship."""
        with self._connection.session() as session:
            return session.execute_read(
                lambda tx: tx.run(statement, home=self._home, published=self.published, number=self.number).data()
            )


def _count(tx: neo4j.ManagedTransaction, statement: str, told: dict[str, Any]) -> int:
    found = tx.run(statement, told).single()
    return int(found["n"]) if found else 0


def ahead(batches: Iterable[_T]) -> Iterator[_T]:
    """Yields batches, each made while the one before is being written."""
    iterator = iter(batches)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, iterator, None)
        while (batch := waiting.result()) is not None:
            waiting = pool.submit(next, iterator, None)
            yield batch


def with_vectors(part: pl.DataFrame, vectors: VectorLookup) -> list[dict[str, Any]]:
    """Returns the parameters that make nodes with vectors."""
    matrix = np.ascontiguousarray(vectors(part["text_hash"].to_list()), np.float32)
    told = part.drop("id", "text_hash").to_dicts()
    return [{"told": t, "vector": Vector.from_numpy(v)} for t, v in zip(told, matrix, strict=True)]


def with_blocks(part: pl.DataFrame, vectors: VectorLookup) -> list[dict[str, Any]]:
    """Returns the parameters that make blocks of vectors."""
    told = part.drop("id", "counts", "hashes").to_dicts()
    packed = zip(told, part["counts"].to_list(), part["hashes"].to_list(), strict=True)
    return [t | {"data": pack_block(np.array(counts), vectors(hashes))} for t, counts, hashes in packed]
