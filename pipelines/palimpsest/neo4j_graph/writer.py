"""Writing in batches: each is applied exactly once, whatever is retried, and never after a later load began."""

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import neo4j
import numpy as np
import polars as pl
from neo4j.exceptions import IncompleteCommit
from neo4j.vector import Vector

from palimpsest.core.errors import ComponentFailed
from palimpsest.core.files import say
from palimpsest.memories.vector_space import VectorLookup
from palimpsest.neo4j_graph import cypher
from palimpsest.neo4j_graph.connect import Connection
from palimpsest.neo4j_graph.graph_rows import GraphVectors
from palimpsest.neo4j_graph.model import CURRENT, DETAILS, EDGES, OPEN, VectorSpace, batch_size
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
        state = self._connection.read(cypher.BATCH_DONE, home=self._home, token=self.token, batch=self._batch)
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
            if not _count(tx, cypher.PUBLISH, self._parameters(oldest=oldest, record=dict(record))):
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


# What a load did, and how it reports progress.


ProgressCallback: TypeAlias = Callable[[str], object]
"""Takes a line after each part of a load, for a log."""


def no_progress(_: str) -> None:
    """Reports nothing."""


@dataclass
class LoadStats:
    """What a load did.

    Attributes:
        writes: rows created, closed (with the copies that readers of the previous build follow), reopened, deleted and
            swept; 0 where nothing changed. Labels that move with the published number are not rows.
        nodes: rows of the build, by kind.
        relationships: rows of the build, by name.
        created: nodes created.
        nodes_per_s: nodes created a second, while creating them.
        seconds: of each part, and in all.
        number: the published load number after the load.
    """

    writes: int = 0
    nodes: dict[str, int] = field(default_factory=dict)
    relationships: dict[str, int] = field(default_factory=dict)
    created: int = 0
    nodes_per_s: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    number: int = 0


# What the parts of one load share: the server's state as the load began, and what the load changed since.

MAX_ROWS_AT_ONCE = 20_000
"""How many rows may change in the transaction that publishes; a larger difference becomes visible in batches."""


@dataclass
class Changes:
    """What a load changed that people see, and what it does only as it publishes.

    Attributes:
        kinds: of nodes that changed.
        types: of relationships that were closed.
        rows: closed rows, and new nodes of the kinds that people look at.
        deferred: statements that write rows, with their rows, run as the number moves.
    """

    kinds: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    rows: int = 0
    deferred: list[tuple[str, Batch]] = field(default_factory=list)

    @property
    def deferred_rows(self) -> int:
        """Rows of the deferred statements."""
        return sum(len(rows) for _, rows in self.deferred)

    @property
    def fits_one_transaction(self) -> bool:
        """Whether all of it may change in the transaction that publishes."""
        return self.rows + self.deferred_rows <= MAX_ROWS_AT_ONCE


@dataclass
class LoadContext:
    """One load of a home.

    Attributes:
        home: home_id.
        connection: to the server.
        writer: of the load's batches.
        full_reload: every row is written again, whatever the server has.
        is_first: nothing of the home is published.
        was_interrupted: an earlier load did not end.
        is_empty: the server has no row of the home.
        oldest: the oldest number that readers may use.
        space: a benchmark's own, which all of its vectors are in; else the plain one.
    """

    home: str
    connection: Connection
    writer: Writer
    full_reload: bool
    is_first: bool
    was_interrupted: bool
    is_empty: bool
    oldest: int
    space: VectorSpace
    changes: Changes = field(default_factory=Changes)
    stats: LoadStats = field(default_factory=LoadStats)

    def index_of(self, space: VectorSpace) -> VectorSpace:
        """Returns the label and index that vectors of a space get."""
        return space if self.space == VectorSpace() else self.space


def begin_load(connection: Connection, home: str, writer: Writer, full_reload: bool) -> LoadContext:
    """Records on the server that a load begins, and returns its context; `writer` gets the numbers."""
    state = connection.write(cypher.BEGIN_LOAD, home=home, token=writer.token)[0]
    writer.published, writer.number = state["published"], state["published"] + 1
    is_first, was_interrupted = state["published"] == 0, state["interrupted"]
    # Nothing is listed or swept in an empty home: planning those sixty statements takes a new server seconds.
    # A home whose deletion was interrupted has rows and no record of a load.
    is_empty = is_first and not was_interrupted and connection.read(cypher.IS_EMPTY, home=home)[0]["empty"]
    space = VectorSpace.of_measured(home) if state["measured"] else VectorSpace()
    return LoadContext(
        home, connection, writer, full_reload, is_first, was_interrupted, is_empty, state["oldest"], space
    )


# What a load must do to the rows that the server has of one kind or relationship: a pure comparison by key.


Row: TypeAlias = Mapping[str, Any]


@dataclass
class Difference:
    """Rows on the server, by what a load does to them.

    Attributes:
        unchanged: keys of the build's rows that need not be created.
        delete: written by an interrupted load and no longer wanted: no reader ever saw them.
        close: visible until now, and not in the build.
        reopen: in the build, closed by an interrupted load.
    """

    unchanged: set[int] = field(default_factory=set)
    delete: list[Row] = field(default_factory=list)
    close: list[Row] = field(default_factory=list)
    reopen: list[Row] = field(default_factory=list)

    def missing(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Returns the build's rows that the server lacks."""
        return frame.filter(~pl.col("key").is_in(list(self.unchanged))) if self.unchanged else frame


def difference(listed: Iterable[Row], wanted: set[int], number: int, full_reload: bool = False) -> Difference:
    """Compares what the server has with what the build has.

    Args:
        listed: `key`, `since` and `until` of each row on the server; `until` is None or `OPEN` where it is not closed.
        wanted: keys of the build's rows.
        number: the load's; rows with `since` equal to it were written by this load or by an interrupted one.
        full_reload: no row of an earlier load is trusted, whatever its key is.
    """
    out = Difference()
    # The newest first: an interrupted full reload leaves two rows of one key, of which the old one stays closed.
    for row in sorted(listed, key=lambda r: r["since"] != number):
        new, is_open = row["since"] == number, row["until"] in (None, OPEN)
        if row["key"] in wanted and (new or not full_reload) and row["key"] not in out.unchanged:
            out.unchanged.add(row["key"])
            if not is_open:
                out.reopen.append(row)
        elif new:
            out.delete.append(row)
        elif is_open:
            out.close.append(row)
    return out


# Brings the nodes and relationships of one kind to what the build has: delete, close, reopen, create.

_NODES_PER_BATCH = 1000
_EDGES_PER_BATCH = 5000

Advance = Callable[[int], None]


def write_nodes(load: LoadContext, kind: str, nodes: pl.DataFrame, vectors: GraphVectors, advance: Advance) -> float:
    """Brings the nodes of one kind to what the build has; returns the seconds that creating took."""
    writer, changes = load.writer, load.changes
    todo = _difference(load, cypher.LIST_NODES[kind], nodes)
    size = batch_size(kind, _NODES_PER_BATCH)
    writer.apply(cypher.DELETE_NODES[kind], todo.delete, size)
    writer.apply(cypher.CLOSE_NODES[kind], todo.close, _NODES_PER_BATCH, until=writer.number)
    writer.apply(cypher.REOPEN_NODES[kind], todo.reopen, _NODES_PER_BATCH, until=OPEN)
    new = todo.missing(nodes)
    if not load.is_first and (new.height or todo.close):
        changes.kinds.add(kind)
        changes.rows += len(todo.close) + (new.height if kind in CURRENT else 0)
    started = time.perf_counter()
    advance(len(todo.unchanged))
    for space, lookup, part in vectors.parts(new) if kind in HAVE_VECTORS else [(load.space, vectors.lookup, new)]:
        statement = _create_statement(load, kind, space)
        for batch in node_batches(kind, part, lookup, size):
            writer.once(statement, rows=batch, open=OPEN)
            advance(len(batch))
    load.stats.created += new.height
    writer.writes += new.height
    return time.perf_counter() - started


def write_details(load: LoadContext, nodes: pl.DataFrame) -> None:
    """Sets `DETAILS` of the nodes that stay where they differ; a small number is deferred until publishing."""
    stored = {r["id"]: r["details"] for r in ([] if load.is_empty else load.writer.list_rows(cypher.LIST_DETAILS))}
    details = nodes["details"].to_list()
    differ = [i in stored and stored[i] != value for i, value in zip(nodes["id"], details, strict=True)]
    todo = nodes.filter(pl.Series(differ, dtype=pl.Boolean)).select(
        "id", pl.struct(*DETAILS, "details").alias("properties")
    )
    for part in todo.iter_slices(_NODES_PER_BATCH):
        batch = list[Mapping[str, Any]](part.to_dicts())
        if load.changes.deferred_rows + len(batch) <= MAX_ROWS_AT_ONCE:
            load.changes.deferred.append((cypher.SET_DETAILS, batch))
        else:
            load.writer.once(cypher.SET_DETAILS, rows=batch)
    load.writer.writes += todo.height


def write_edges(load: LoadContext, name: str, edges: pl.DataFrame | None, advance: Advance) -> None:
    """Brings the relationships of one name to what the build has; a small number is deferred until publishing.

    Raises:
        ComponentFailed: the server created another number of relationships than were sent.
    """
    writer, changes = load.writer, load.changes
    todo = _difference(load, cypher.LIST_EDGES[name], edges)
    statements: Sequence[tuple[str, Sequence[Mapping[str, Any]]]] = (
        (cypher.DELETE_EDGES[name], todo.delete),
        (cypher.CLOSE_EDGES[name], todo.close),
        (cypher.REOPEN_EDGES[name], todo.reopen),
    )
    for statement, rows in statements:
        writer.apply(statement, rows, _EDGES_PER_BATCH)
    if todo.close:
        changes.types.add(EDGES[name].type)
        changes.rows += len(todo.close)
    if edges is None:
        return
    new = todo.missing(edges)
    advance(len(todo.unchanged))
    for batch in edge_batches(new, _EDGES_PER_BATCH):
        if not load.is_first and changes.deferred_rows + len(batch) <= MAX_ROWS_AT_ONCE:
            changes.deferred.append((cypher.CREATE_EDGES[name], batch))
        else:
            created = writer.once(cypher.CREATE_EDGES[name], rows=batch)
            if created not in (None, len(batch)):
                raise ComponentFailed(f"neo4j: {created} of {len(batch)} {name} were created; run again")
        advance(len(batch))
    writer.writes += new.height


def _create_statement(load: LoadContext, kind: str, space: VectorSpace) -> str:
    is_visible_at_once = load.is_first and kind in CURRENT
    if kind in VECTOR_KINDS:
        return cypher.create_vector_nodes(kind, load.index_of(space).label, is_visible_at_once)
    return cypher.create_nodes(kind, is_visible_at_once)


def _difference(load: LoadContext, listing: str, frame: pl.DataFrame | None) -> Difference:
    wanted = set(frame["key"].to_list()) if frame is not None else set()
    listed = [] if load.is_empty else load.writer.list_rows(listing)
    return difference(listed, wanted, load.writer.number, load.full_reload)
