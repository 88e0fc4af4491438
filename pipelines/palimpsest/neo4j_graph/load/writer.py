"""Writing in batches: each is applied exactly once, whatever is retried, and never after a later load began."""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

import neo4j
import numpy as np
import polars as pl
from neo4j.exceptions import IncompleteCommit
from neo4j.vector import Vector

from palimpsest.core.errors import ComponentFailed
from palimpsest.core.progress import say
from palimpsest.memories.embedders.space import VectorLookup
from palimpsest.neo4j_graph.connect import Connection
from palimpsest.neo4j_graph.cypher import loading
from palimpsest.neo4j_graph.packed import pack_block

# Batches of rows as parameters of a statement, prepared one ahead of the write.

Batch: TypeAlias = list[Mapping[str, Any]]
"""Values for the rows of one statement."""

VECTOR_KINDS = ("Memory", "Window")
HAVE_VECTORS = (*VECTOR_KINDS, "VectorBlock")
_VECTORS_AT_ONCE = 131_072  # 192 MiB of MiniLM's
_T = TypeVar("_T")


def prefetch(batches: Iterable[_T]) -> Iterator[_T]:
    """Yields batches, each prepared while the one before is being written."""
    iterator = iter(batches)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, iterator, None)
        while (batch := waiting.result()) is not None:
            waiting = pool.submit(next, iterator, None)
            yield batch


def node_batches(kind: str, nodes: pl.DataFrame, vectors: VectorLookup, size: int) -> Iterator[Batch]:
    """Yields the parameters that create nodes of a kind, with their vectors where they have some."""
    if kind in HAVE_VECTORS:
        return prefetch(_vector_batches(kind, nodes, vectors, size))
    return prefetch(list[Mapping[str, Any]](part.drop("id").to_dicts()) for part in nodes.iter_slices(size))


def edge_batches(edges: pl.DataFrame, size: int) -> Iterator[Batch]:
    """Yields the parameters that create relationships: both ends, the type where rows have one, the properties."""
    columns = [c for c in ("a", "b", "type") if c in edges.columns]
    properties = [c for c in edges.columns if c not in (*columns, "id")]
    rows = edges.select(*columns, pl.struct(properties).alias("properties"))
    return prefetch(list[Mapping[str, Any]](part.to_dicts()) for part in rows.iter_slices(size))


def _vector_batches(kind: str, nodes: pl.DataFrame, vectors: VectorLookup, size: int) -> Iterator[Batch]:
    """Yields batches of nodes with vectors, looked up for many batches at once: each look-up reads the store."""
    make, hashes = (
        (_with_vectors, pl.col("text_hash")) if kind in VECTOR_KINDS else (_with_blocks, pl.col("hashes").explode())
    )
    vectors_per_node = max(1, nodes.select(hashes).height // max(1, nodes.height))
    batches = max(1, _VECTORS_AT_ONCE // vectors_per_node // size)
    for several in nodes.iter_slices(batches * size):
        known = _look_up(several.select(hashes.drop_nulls()).to_series(), vectors)
        for part in several.iter_slices(size):
            yield make(part, known)


def _look_up(hashes: pl.Series, vectors: VectorLookup) -> VectorLookup:
    """Returns a look-up of the vectors of these hashes that reads no store."""
    distinct = hashes.unique().sort().to_list()
    matrix, places = vectors(distinct), {text_hash: place for place, text_hash in enumerate(distinct)}
    return lambda wanted: matrix[[places[text_hash] for text_hash in wanted]]


def _with_vectors(part: pl.DataFrame, vectors: VectorLookup) -> Batch:
    matrix = np.ascontiguousarray(vectors(part["text_hash"].to_list()), np.float32)
    rows = part.drop("id", "text_hash").to_dicts()
    return [{"properties": row, "vector": Vector.from_numpy(v)} for row, v in zip(rows, matrix, strict=True)]


def _with_blocks(part: pl.DataFrame, vectors: VectorLookup) -> Batch:
    rows = part.drop("id", "counts", "hashes").to_dicts()
    packed = zip(rows, part["counts"].to_list(), part["hashes"].to_list(), strict=True)
    return [row | {"data": pack_block(np.array(counts), vectors(hashes))} for row, counts, hashes in packed]


# Writing in batches: each is applied exactly once, whatever is retried, and never after a later load began.

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
