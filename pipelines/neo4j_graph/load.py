"""The loader: brings what the server holds of a home to what a build says, while readers go on reading.

The same code makes a first load and a difference. What the server shows is listed from the server itself, compared by
key, and only the difference is written under the next number, which no reader looks at. One transaction then moves the
published number. An interrupted load is continued by the next: what it wrote is found in the same listing.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import neo4j
import polars as pl
from neo4j.exceptions import DriverError, Neo4jError

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.ids import content_id
from palimpsest.core.progress import progress
from palimpsest.index.write_index import VectorLookup
from palimpsest.neo4j_graph import current, cypher, legacy
from palimpsest.neo4j_graph.connect import Connection, told_plainly
from palimpsest.neo4j_graph.counts import count_lines, count_rows, parse_counts
from palimpsest.neo4j_graph.difference import Difference, difference
from palimpsest.neo4j_graph.graph_model import CLOSED, CURRENT, EDGES, KEYS, OPEN, TYPES, VectorSpace, at_once
from palimpsest.neo4j_graph.load_source import Source, home_id
from palimpsest.neo4j_graph.node_rows import GraphRows, graph_rows
from palimpsest.neo4j_graph.schema import make_vector_index, migrate
from palimpsest.neo4j_graph.write import Writer, ahead, with_blocks, with_vectors
from palimpsest.store.builds import Build
from palimpsest.store.home import Home

_BATCH_NODES = 1000
_BATCH_EDGES = 5000
_BATCH_SWEEP = 5000
_LOCK_WAIT_S = 5.0
_LOCKED = ("LockClientStopped", "Terminated", "Timeout", "TimedOut")
_VECTORS = ("Memory", "Window")


Tell = Callable[[str], object]


def untold(_: str) -> None:
    """Tells nobody."""


@dataclass
class LoadStats:
    """What a load did.

    Attributes:
        writes: rows created, closed (with the copies that readers of the build before follow), reopened, deleted and
            swept; 0 where nothing had changed. Labels that move with the published number are no rows.
        nodes: rows of the build, by label.
        relationships: rows of the build, by name.
        created: nodes created.
        nodes_per_s: nodes created a second, while creating them.
        seconds: of each part, and in all.
        number: what readers look at now.
    """

    writes: int = 0
    nodes: dict[str, int] = field(default_factory=dict)
    relationships: dict[str, int] = field(default_factory=dict)
    created: int = 0
    nodes_per_s: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    number: int = 0


def load_graph(
    home: Home,
    build: Build,
    connection: Connection,
    keep_previous: bool = True,
    tell: Tell = untold,
    afresh: bool = False,
) -> LoadStats:
    """Loads a published build; see `load_tables`. `afresh` writes every row again, whatever is there."""
    from palimpsest.memories.embed import vector_space
    from palimpsest.memories.vector_store import embedding_store

    vectors = embedding_store(home).vectors
    return load_source(
        home_id(home), Source.of(build), vectors, vector_space(), connection, keep_previous, tell, afresh
    )


def load_source(
    home: str,
    source: Source,
    vectors: VectorLookup,
    model: str,
    connection: Connection,
    keep_previous: bool = True,
    tell: Tell = untold,
    afresh: bool = False,
) -> LoadStats:
    """Loads what a source says; see `load_tables`."""
    load = _Load(home, connection, keep_previous, tell, afresh)
    return told_plainly(lambda: load.run(source, vectors, model), connection.uri)


def load_tables(
    home: str,
    tables: Mapping[str, pl.DataFrame],
    vectors: VectorLookup,
    index: Path,
    model: str,
    connection: Connection,
    keep_previous: bool = True,
    tell: Tell = untold,
) -> LoadStats:
    """Makes the server show a build to all who read this home.

    Args:
        home: home_id.
        tables: of the build, those of `rows.READ`.
        vectors: the unit vectors of text hashes.
        index: the build's DuckDB file.
        model: name of the embedder.
        connection: to the server.
        keep_previous: what was published before stays readable for those who hold it, until the next load.
        tell: takes a line after each part of the load, for a log.

    Raises:
        PalimpsestError: another load of this home is running, or the server refuses.
        ComponentFailed: the server went away, or the build's index is missing; run again.
    """
    return load_source(home, Source(lambda: tables, index), vectors, model, connection, keep_previous, tell)


class _Load:
    def __init__(self, home: str, connection: Connection, keep_previous: bool, tell: Tell, afresh: bool = False):
        self._home, self._connection, self._keep, self._tell = home, connection, keep_previous, tell
        self._afresh = afresh
        self._writer = Writer(connection, home)
        self._oldest = 0
        self._cut_short = self._first = self._empty = False
        self._space = VectorSpace()
        self._deferred: list[tuple[str, list[dict[str, Any]]]] = []  # relationships made as the number moves
        self._waiting = 0
        self._closed = 0
        self._kinds: set[str] = set()  # of nodes that changed
        self._types: set[str] = set()  # of relationships that were closed
        self.stats = LoadStats()

    def run(self, source: Source, vectors: VectorLookup, model: str) -> LoadStats:
        """Does the whole load."""
        started = time.perf_counter()
        space = content_id("space", model)
        self._timed("schema", lambda: migrate(self._connection))
        told = source.record() | {"fingerprint": source.fingerprint, "space": space}
        with self._connection.session() as lock:
            holding = self._take_lock(lock)
            try:
                self._begin()
                if not self._timed("compare", lambda: self._same(told)):
                    rows = self._timed("rows", lambda: graph_rows(source.tables(), vectors, source.index, model))
                    told |= {
                        "digest": rows.digest,
                        "counts": count_lines(rows.counts),
                        "scopes": [json.dumps(s) for s in rows.scopes],
                    }
                    self._count(rows.counts)
                    if not self._timed("compare", lambda: self._unchanged(told)):
                        self._write(rows, vectors, told)
            finally:
                _release(holding)
        self.stats.writes = self._writer.writes
        self.stats.seconds["total"] = time.perf_counter() - started
        return self.stats

    def _take_lock(self, session: neo4j.Session) -> neo4j.Transaction:
        """Holds a write lock for as long as the load lives: the server frees it when this process dies."""
        holding = session.begin_transaction(timeout=None)
        try:
            with self._connection.session() as probe, probe.begin_transaction(timeout=_LOCK_WAIT_S) as trial:
                trial.run(cypher.TAKE_LOCK, home=self._home, token=self._writer.token).consume()
                trial.commit()
            holding.run(cypher.TAKE_LOCK, home=self._home, token=self._writer.token).consume()
        except Neo4jError as e:
            _release(holding)
            if any(word in (e.code or "") for word in _LOCKED):
                raise PalimpsestError(
                    "neo4j: another load of this home is running; wait for it, then load again"
                ) from None
            raise
        return holding

    def _begin(self) -> None:
        told = self._connection.write(cypher.BEGIN_LOAD, home=self._home, token=self._writer.token)[0]
        self._writer.published, self._oldest = told["published"], told["oldest"]
        self._cut_short, self._first = told["cut_short"], told["published"] == 0
        # Nothing is listed or swept in an empty home: planning those sixty statements takes a new server seconds.
        # A home whose deletion was cut short has rows and no record of a load.
        self._empty = (
            self._first and not self._cut_short and self._connection.read(cypher.IS_EMPTY, home=self._home)[0]["empty"]
        )
        if told["measured"]:
            self._space = VectorSpace.of_measured(self._home)
        self._writer.number = self._writer.published + 1

    def _count(self, counts: Mapping[str, int]) -> None:
        self.stats.nodes = {n: counts[n] for n in KEYS}
        self.stats.relationships = {n: counts.get(n, 0) for n in EDGES}

    def _same(self, told: dict[str, Any]) -> bool:
        """Whether the server's record is of a build made of the very same tables: then no row need be made of them."""
        found = self._connection.read(cypher.BUILD, home=self._home, number=self._writer.published)
        held = found[0]["told"] if found else {}
        if not told["fingerprint"] or held.get("fingerprint") != told["fingerprint"] or not self._unchanged(told):
            return False
        self._count(parse_counts(held["counts"]))
        return True

    def _unchanged(self, told: dict[str, Any]) -> bool:
        """Whether the server shows just this: by its own record of the build, and by counting what is there.

        Never after a load that was cut short: what it wrote, or did not sweep yet, no reader sees and no count tells.
        """
        found = self._connection.read(cypher.BUILD, home=self._home, number=self._writer.published)
        held = found[0]["told"] if found else {}
        self.stats.number = self._writer.published
        if (
            self._afresh
            or self._cut_short
            or any(held.get(k) != told[k] for k in ("digest", "space", "counts") if k in told)
        ):
            return False
        if count_rows(self._connection, self._home, self._writer.published) != parse_counts(held["counts"]):
            return False
        if not self._keep and self._oldest < self._writer.published:
            self._sweep(self._writer.published)
        if any(held.get(k) != v for k, v in told.items()):
            self._connection.write(cypher.RENAME_BUILD, home=self._home, number=self._writer.published, told=told)
        self._connection.write(cypher.END_LOAD, home=self._home, token=self._writer.token)
        return True

    def _write(self, rows: GraphRows, vectors: VectorLookup, told: dict[str, Any]) -> None:
        seconds = 0.0
        total = sum(rows.counts.values())
        with progress("load Neo4j", total, "rows") as advance:
            # Edges are matched by their ends: all nodes first.
            for name in KEYS:
                seconds += self._timed(f"nodes {name}", partial(self._nodes, name, rows, vectors, advance))
            for name in EDGES:
                self._timed("relationships", partial(self._edges, name, rows.edges.get(name), advance))
        self.stats.nodes_per_s = self.stats.created / seconds if seconds else 0.0
        self._timed("vector index", lambda: make_vector_index(self._connection, self._space))
        oldest = self._writer.published if self._keep and self._writer.published else self._writer.number
        self._timed("publish", lambda: self._flip(oldest, told | {"vector_index": self._space.index}))
        self.stats.number = self._writer.number
        self._timed("sweep", lambda: self._sweep(oldest))
        self._writer.writes += legacy.drop(self._connection, self._home)
        self._connection.write(cypher.END_LOAD, home=self._home, token=self._writer.token)

    def _flip(self, oldest: int, told: dict[str, Any]) -> None:
        """Moves the published number, and what people see with it: in one transaction, or a large difference after."""
        moved = current.everything() if self._cut_short else current.statements(self._kinds, self._types)
        small = self._closed + self._waiting <= current.AT_ONCE
        if self._waiting and not small:
            self._make_deferred()
        flipped = self._writer.flip(told, oldest, self._deferred, moved if small else iter(()))
        if not flipped and not self._is_flipped(told):
            raise ComponentFailed("neo4j: another load of this home took over; run again")
        if not small:
            current.in_batches(self._moved, moved, current.AT_ONCE)

    def _moved(self, statement: str, limit: int) -> int:
        told = {"home": self._home, "number": self._writer.number, "limit": limit}
        return int(self._connection.write(statement, **told)[0]["n"])

    def _make_deferred(self) -> None:
        for statement, rows in self._deferred:
            self._writer.once(statement, rows=rows)
        self._deferred, self._waiting = [], 0

    def _nodes(self, label: str, rows: GraphRows, vectors: VectorLookup, advance: Callable[[int], None]) -> float:
        """Brings the nodes of one label to what the build says; returns the seconds that creating took."""
        frame = rows.nodes[label]
        todo = self._difference(cypher.LIST_NODES[label], frame)
        size = at_once(label, _BATCH_NODES)
        self._writer.apply(cypher.DELETE_NODES[label], todo.delete, size)
        self._writer.apply(cypher.CLOSE_NODES[label], todo.close, _BATCH_NODES, until=self._writer.number)
        self._writer.apply(cypher.REOPEN_NODES[label], todo.reopen, _BATCH_NODES, until=OPEN)
        new = todo.missing(frame)
        if not self._first and (new.height or todo.close):
            self._kinds.add(label)
            self._closed += len(todo.close) + (new.height if label in CURRENT else 0)
        started = time.perf_counter()
        advance(len(todo.have))
        shown = self._first and label in CURRENT
        statement = (
            cypher.create_vector_nodes(label, self._space.label, shown)
            if label in _VECTORS
            else cypher.create_nodes(label, shown)
        )
        make = with_vectors if label in _VECTORS else with_blocks if label == "VectorBlock" else _plain
        for batch in ahead(make(part, vectors) for part in new.iter_slices(size)):
            self._writer.once(statement, rows=batch, open=OPEN)
            advance(len(batch))
        self.stats.created += new.height
        self._writer.writes += new.height
        return time.perf_counter() - started

    def _edges(self, name: str, frame: pl.DataFrame | None, advance: Callable[[int], None]) -> None:
        todo = self._difference(cypher.LIST_EDGES[name], frame)
        for statement, found in (
            (cypher.DELETE_EDGES[name], todo.delete),
            (cypher.CLOSE_EDGES[name], todo.close),
            (cypher.REOPEN_EDGES[name], todo.reopen),
        ):
            self._writer.apply(statement, found, _BATCH_EDGES)
        if todo.close:
            self._types.add(EDGES[name].type)
            self._closed += len(todo.close)
        if frame is None:
            return
        new = todo.missing(frame)
        advance(len(todo.have))
        properties = [c for c in frame.columns if c not in ("a", "b", "id")]
        told = new.select("a", "b", pl.struct(properties).alias("told"))
        for batch in ahead(part.to_dicts() for part in told.iter_slices(_BATCH_EDGES)):
            if not self._first and self._waiting + len(batch) <= current.AT_ONCE:
                self._deferred.append((cypher.CREATE_EDGES[name], batch))
                self._waiting += len(batch)
                advance(len(batch))
                continue
            made = self._writer.once(cypher.CREATE_EDGES[name], rows=batch)
            if made not in (None, len(batch)):
                raise ComponentFailed(f"neo4j: {made} of {len(batch)} {name} could be made; run again")
            advance(len(batch))
        self._writer.writes += new.height

    def _difference(self, listing: str, frame: pl.DataFrame | None) -> Difference:
        wanted = set(frame["key"].to_list()) if frame is not None else set()
        held = [] if self._empty else self._writer.listed(listing)
        return difference(held, wanted, self._writer.number, self._afresh)

    def _is_flipped(self, told: dict[str, Any]) -> bool:
        found = self._connection.read(cypher.BUILD, home=self._home, number=self._writer.number)
        return bool(found) and found[0]["told"].get("digest") == told["digest"]

    def _sweep(self, oldest: int) -> None:
        """Deletes what no kept number shows. Readers of those numbers are told so before the first row goes."""
        self._connection.write(cypher.RAISE_OLDEST, home=self._home, oldest=oldest)
        if not self._empty:
            self._sweep_rows({"home": self._home, "oldest": oldest})
        self._connection.write(cypher.DROP_BUILDS, home=self._home, oldest=oldest)

    def _sweep_rows(self, values: dict[str, Any]) -> None:
        for name in reversed(KEYS):  # a user owns a hundred thousand memories: its node goes when its edges are gone
            limit = at_once(name, _BATCH_SWEEP)
            while (told := self._connection.write(cypher.SWEEP_NODES[name], limit=limit, **values)[0])["nodes"]:
                self._writer.writes += told["n"]
        for name in (*TYPES, CLOSED):
            while gone := self._connection.write(cypher.SWEEP_EDGES[name], limit=_BATCH_SWEEP, **values)[0]["n"]:
                self._writer.writes += gone

    def _timed(self, part: str, run: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        found = run()
        seconds = time.perf_counter() - started
        self.stats.seconds[part] = self.stats.seconds.get(part, 0.0) + seconds
        self._tell(f"{part}: {seconds:.2f} s, {self._writer.writes} writes so far")
        return found


def _plain(part: pl.DataFrame, _: VectorLookup) -> list[dict[str, Any]]:
    return part.drop("id").to_dicts()


def _release(holding: neo4j.Transaction) -> None:
    try:
        holding.close()
    except (Neo4jError, DriverError, OSError):
        return  # the server is gone, and the lock with it
