"""The loader: brings what the server has of a home to what a build has, while readers go on reading.

The same code does a first load and a difference. What the server has is listed from the server itself, compared by
key, and only the difference is written under the next number, which no reader looks at. One transaction then moves the
published number. An interrupted load is continued by the next: what it wrote is found in the same listing.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

import duckdb
import neo4j
import polars as pl
from neo4j.exceptions import DriverError, Neo4jError

from palimpsest.core.code import code_hash
from palimpsest.core.errors import ComponentFailed, PalimpsestError, Refused
from palimpsest.core.files import file_hash, progress
from palimpsest.core.ids import content_id
from palimpsest.memories.vector_space import VectorLookup
from palimpsest.neo4j_graph import cypher
from palimpsest.neo4j_graph.connect import Connection, connect, plain_errors
from palimpsest.neo4j_graph.cypher import all_visibility_statements, visibility_statements
from palimpsest.neo4j_graph.graph_rows import TABLES, GraphRows, GraphVectors, graph_rows
from palimpsest.neo4j_graph.identity import ID_FILE, home_id
from palimpsest.neo4j_graph.migrations import (
    drop,
    drop_own_vector_index,
    make_vector_index,
    migrate,
    remaining_labels,
    rename_kinds,
)
from palimpsest.neo4j_graph.model import EDGES, FORMAT, KEYS, ROW_KINDS, batch_size, row_label
from palimpsest.neo4j_graph.writer import (
    MAX_ROWS_AT_ONCE,
    LoadContext,
    LoadStats,
    ProgressCallback,
    Writer,
    begin_load,
    no_progress,
    write_details,
    write_edges,
    write_nodes,
)
from palimpsest.store.builds import Build, published
from palimpsest.store.home import Home

# How many rows of each kind and relationship there are: on the server, and in its record of a build.

_BY_ROW = {f"{e.source}-{{}}-{e.target}": name for name, e in EDGES.items() if e.is_typed_by_row}


def count_rows(connection: Connection, home: str, number: int) -> dict[str, int]:
    """Returns how many rows of each kind and relationship are visible under a load number."""
    found = {r["name"]: int(r["n"]) for r in connection.read(cypher.COUNT_NODES, home=home, number=number)}
    return dict.fromkeys(KEYS, 0) | found | count_edges(connection, cypher.COUNT_EDGES, home, number)


def count_edges(connection: Connection, statement: str, home: str, number: int) -> dict[str, int]:
    """Returns the counts of an aggregate over edges by their name; edges outside the model are left out."""
    out = dict.fromkeys(EDGES, 0)
    for row in connection.read(statement, home=home, number=number):
        for end in row["ends"]:
            ends = f"{row['source']}-{{}}-{ROW_KINDS.get(end)}"
            if (name := ends.format(row["type"])) in out or (name := _BY_ROW.get(ends, "")):
                out[name] += int(row["n"])
    return out


def parse_counts(lines: Sequence[str]) -> dict[str, int]:
    """Reads the counts of a build as the server records them; a name that is not listed has no rows."""
    counts = {name: int(count) for name, count in (line.rsplit(" ", 1) for line in lines)}
    return {name: counts.get(name, 0) for name in (*KEYS, *EDGES)}


def format_counts(counts: Mapping[str, int]) -> list[str]:
    """Returns counts as the server records them."""
    return [f"{name} {count}" for name, count in sorted(counts.items())]


# What a load reads of a home: the tables of its build, and the index's own record.


@dataclass(frozen=True)
class Source:
    """Where rows come from; `fingerprint` is a hash of all contents, empty where it is not known."""

    tables: Callable[[], Mapping[str, pl.DataFrame]]
    index: Path
    fingerprint: str = ""

    @classmethod
    def of(cls, build: Build) -> "Source":
        """Returns the source of a build."""
        return cls(partial(build.tables, TABLES), build.index, _fingerprint(build))

    def record(self) -> dict[str, str]:
        """Returns what readers need of the index's own record: the build's id and its collections, as JSON.

        Raises:
            ComponentFailed: the index is missing.
        """
        if not self.index.is_file():
            raise ComponentFailed(f"neo4j: {self.index}: no such file; run palimpsest build, then load again")
        with duckdb.connect(str(self.index), read_only=True) as db:
            meta = dict(db.execute("SELECT key, value FROM meta").fetchall())
        collections = {name: json.loads(meta.get(name, "{}")) for name in _META}
        return {"build_id": json.loads(meta["build_id"]), "collections": json.dumps(collections, sort_keys=True)}


_META = ("collections", "strategies", "weights", "spaces")


def _fingerprint(build: Build) -> str:
    """Returns a hash of the tables' bytes, and of the code that makes rows of them."""
    paths = [build.table_path(c, t) for c in build.collections for t in TABLES]
    hashes = [f"{p.parent.name}/{p.stem} {file_hash(p)}" for p in paths if p.exists()]
    return content_id(code_hash(["palimpsest.neo4j_graph.graph_rows", "palimpsest.index.write_index"]), *hashes)


# One load of a home at a time: a write lock on the server, which frees it when this process dies.

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
            trial.run(cypher.TAKE_LOCK, home=home, token=token).consume()
            trial.commit()
        transaction.run(cypher.TAKE_LOCK, home=home, token=token).consume()
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


# Publishing a load: the number moves with what people see, and rows of no kept number are swept.

_SWEPT_PER_BATCH = 5000


def publish(load: LoadContext, oldest: int, record: Mapping[str, object]) -> None:
    """Moves the published number and what people see: in one transaction, or a large difference after it.

    Args:
        load: whose rows are written.
        oldest: the oldest number that readers may still use.
        record: what the server records of the build.

    Raises:
        ComponentFailed: another load of this home took over.
    """
    changes, writer = load.changes, load.writer
    visibility = (
        all_visibility_statements() if load.was_interrupted else visibility_statements(changes.kinds, changes.types)
    )
    in_one_transaction = changes.fits_one_transaction
    if not in_one_transaction:
        for statement, rows in changes.deferred:
            writer.once(statement, rows=rows)
        changes.deferred.clear()
    published = writer.publish(record, oldest, changes.deferred, visibility if in_one_transaction else ())
    if not published and not _is_published(load, record):
        raise ComponentFailed("neo4j: another load of this home has started since; run again")
    if not in_one_transaction:

        def run(statement: str, limit: int) -> int:
            found = load.connection.write(statement, home=load.home, number=writer.number, limit=limit)
            return int(found[0]["n"])

        run_in_batches(run, visibility, MAX_ROWS_AT_ONCE)


def run_in_batches(run: Callable[[str, int], int], statements: Iterator[str], size: int) -> None:
    """Runs each statement until it finds no more rows; `run` takes a statement and its limit and returns its count."""
    for statement in statements:
        while run(statement, size) == size:
            continue


def sweep(load: LoadContext, oldest: int) -> None:
    """Deletes the rows of no kept number. Readers of older numbers get an error before the first row is deleted."""
    load.connection.write(cypher.RAISE_OLDEST, home=load.home, oldest=oldest)
    if not load.is_empty:
        _sweep_rows(load, oldest)
    load.connection.write(cypher.DROP_OLDER_BUILDS, home=load.home, oldest=oldest)


def _sweep_rows(load: LoadContext, oldest: int) -> None:
    write, home = load.connection.write, load.home
    for kind in reversed(KEYS):  # a user owns a hundred thousand memories: its node is deleted after its edges
        limit = batch_size(kind, _SWEPT_PER_BATCH)
        statement = cypher.SWEEP_NODES[kind]
        while (swept := write(statement, home=home, oldest=oldest, limit=limit)[0])["nodes"]:
            load.writer.writes += swept["n"]
    for statement in (*cypher.SWEEP_EDGES.values(), cypher.SWEEP_DETAILS):
        while count := write(statement, home=home, oldest=oldest, limit=_SWEPT_PER_BATCH)[0]["n"]:
            load.writer.writes += count


def _is_published(load: LoadContext, record: Mapping[str, object]) -> bool:
    found = load.connection.read(cypher.BUILD_RECORD, home=load.home, number=load.writer.number)
    return bool(found) and found[0]["record"].get("digest") == record["digest"]


_T = TypeVar("_T")


def load_graph(
    home: Home,
    build: Build,
    connection: Connection,
    keep_previous: bool = True,
    report: ProgressCallback = no_progress,
    full_reload: bool = False,
) -> LoadStats:
    """Loads a published build; see `load_tables`. `full_reload` writes every row again, whatever the server has."""
    vectors = home_vectors(home, build)
    return load_source(home_id(home), Source.of(build), vectors, connection, keep_previous, report, full_reload)


def home_vectors(home: Home, build: Build) -> GraphVectors:
    """Returns the vectors of a build, each collection's in its space."""
    from palimpsest.memories.embedders import collection_spaces, embedding_store, indexed_spaces, minilm_space

    lookup, model = embedding_store(home).vectors, minilm_space().name
    return GraphVectors.of(lookup, model, indexed_spaces(home, build), collection_spaces(build))


def load_source(
    home: str,
    source: Source,
    vectors: GraphVectors,
    connection: Connection,
    keep_previous: bool = True,
    report: ProgressCallback = no_progress,
    full_reload: bool = False,
) -> LoadStats:
    """Loads a source; see `load_tables`."""
    loader = Loader(home, connection, keep_previous, report)
    with plain_errors(connection.uri):
        return loader.run(source, vectors, full_reload)


def load_tables(
    home: str,
    tables: Mapping[str, pl.DataFrame],
    vectors: VectorLookup,
    index: Path,
    model: str,
    connection: Connection,
    keep_previous: bool = True,
    report: ProgressCallback = no_progress,
) -> LoadStats:
    """Makes the server serve a build to all readers of this home.

    Args:
        home: home_id.
        tables: of the build, those of `graph_rows.TABLES`.
        vectors: the unit vectors of text hashes.
        index: the build's DuckDB file.
        model: name of the embedder.
        connection: to the server.
        keep_previous: readers of the previously published build may go on until the next load.
        report: takes a line after each part of the load, for a log.

    Raises:
        PalimpsestError: another load of this home is running, or the server refuses.
        ComponentFailed: the server went away, or the build's index is missing; run again.
    """
    return load_source(
        home, Source(lambda: tables, index), GraphVectors(vectors, model), connection, keep_previous, report
    )


class Loader:
    """One load of a home; see `load_tables`."""

    def __init__(self, home: str, connection: Connection, keep_previous: bool, report: ProgressCallback):
        self._home, self._connection, self._keep, self._report = home, connection, keep_previous, report
        self._writer = Writer(connection, home)
        self._seconds: dict[str, float] = {}

    def run(self, source: Source, vectors: GraphVectors, full_reload: bool = False) -> LoadStats:
        """Runs the load and returns what it did."""
        started = time.perf_counter()
        space = content_id("space", vectors.name)
        self._timed("schema", lambda: migrate(self._connection))
        record: dict[str, object] = {**source.record(), "fingerprint": source.fingerprint, "space": space}
        record["format"] = FORMAT
        with home_lock(self._connection, self._home, self._writer.token):
            rename_kinds(self._connection, self._home)
            load = begin_load(self._connection, self._home, self._writer, full_reload)
            if not self._timed("compare", lambda: self._has_same_tables(load, record)):
                rows = self._timed("rows", lambda: graph_rows(source.tables(), vectors, source.index))
                record |= {
                    "digest": rows.digest,
                    "counts": format_counts(rows.counts),
                    "scopes": [json.dumps(s) for s in rows.scopes],
                }
                _set_counts(load.stats, rows.counts)
                if not self._timed("compare", lambda: self._is_unchanged(load, record)):
                    self._write(load, rows, vectors, record)
        load.stats.writes = self._writer.writes
        load.stats.seconds = self._seconds | {"total": time.perf_counter() - started}
        return load.stats

    def _has_same_tables(self, load: LoadContext, record: Mapping[str, object]) -> bool:
        """Returns whether the server's record is of a build of the very same tables: no row need be made of them."""
        stored = self._stored_record()
        if not record["fingerprint"] or stored.get("fingerprint") != record["fingerprint"]:
            return False
        if not self._is_unchanged(load, record):
            return False
        _set_counts(load.stats, parse_counts(stored["counts"]))
        return True

    def _is_unchanged(self, load: LoadContext, record: Mapping[str, object]) -> bool:
        """Returns whether the server serves just this: by its own record of the build, and by counting its rows.

        Never after an interrupted load: no reader sees and no count includes what it wrote, or did not sweep yet.
        """
        stored, published = self._stored_record(), self._writer.published
        load.stats.number = published
        if load.full_reload or load.was_interrupted:
            return False
        if any(stored.get(k) != record[k] for k in ("digest", "space", "counts") if k in record):
            return False
        if count_rows(self._connection, self._home, published) != parse_counts(stored["counts"]):
            return False
        if not self._keep and load.oldest < published:
            sweep(load, published)
        if any(stored.get(k) != v for k, v in record.items()):
            self._connection.write(cypher.UPDATE_BUILD_RECORD, home=self._home, number=published, record=dict(record))
        self._end()
        return True

    def _write(self, load: LoadContext, rows: GraphRows, vectors: GraphVectors, record: Mapping[str, object]) -> None:
        seconds = 0.0
        with progress("load Neo4j", sum(rows.counts.values()), "rows") as advance:
            # Edges are matched by their ends: all nodes first.
            for kind in KEYS:
                write = partial(write_nodes, load, kind, rows.nodes[kind], vectors, advance)
                seconds += self._timed(f"nodes {kind}", write)
            self._timed("nodes Node", partial(write_details, load, rows.nodes["Node"]))
            for name in EDGES:
                self._timed("relationships", partial(write_edges, load, name, rows.edges.get(name), advance))
        load.stats.nodes_per_s = load.stats.created / seconds if seconds else 0.0
        for space in sorted({load.space, *map(load.index_of, vectors.indexes.values())}, key=lambda s: s.index):
            self._timed("vector index", partial(make_vector_index, self._connection, space))
        writer = self._writer
        oldest = writer.published if self._keep and writer.published else writer.number
        self._timed("publish", lambda: publish(load, oldest, {**record, "vector_index": load.space.index}))
        load.stats.number = writer.number
        self._timed("sweep", lambda: sweep(load, oldest))
        writer.writes += drop(self._connection, self._home)
        self._end()

    def _stored_record(self) -> Mapping[str, list[str]]:
        found = self._connection.read(cypher.BUILD_RECORD, home=self._home, number=self._writer.published)
        return found[0]["record"] if found else {}

    def _end(self) -> None:
        self._connection.write(cypher.END_LOAD, home=self._home, token=self._writer.token)

    def _timed(self, part: str, run: Callable[[], _T]) -> _T:
        started = time.perf_counter()
        result = run()
        seconds = time.perf_counter() - started
        self._seconds[part] = self._seconds.get(part, 0.0) + seconds
        self._report(f"{part}: {seconds:.2f} s, {self._writer.writes} writes so far")
        return result


def _set_counts(stats: LoadStats, counts: Mapping[str, int]) -> None:
    stats.nodes = {kind: counts[kind] for kind in KEYS}
    stats.relationships = {name: counts.get(name, 0) for name in EDGES}


# Erasing: a whole throw-away home, or what a delete took from a home, with the proof that none of it is left.

Probes: TypeAlias = Sequence[str] | Callable[[bytes], bool]
"""What must not be found: strings, or a function that returns whether bytes contain one of any number of them."""

_NODES_PER_BATCH = 5000
_NODES_PER_PAGE = 2000
_FIRST_LABELS = ("PalimpsestHome", "PalimpsestBuild")
_LAST_LABELS = ("PalimpsestLoad", "PalimpsestLoadLock")
# What readers look at is deleted first; then kinds with few edges, so that hubs have none left when they are deleted.
DROP_NODES = {
    label: (f"MATCH (n:{label} {{home_id: $home}}) WITH n LIMIT $limit DETACH DELETE n RETURN count(*) AS n", limit)
    for label, limit in (
        *((label, _NODES_PER_BATCH) for label in _FIRST_LABELS),
        *((row_label(kind), batch_size(kind, _NODES_PER_BATCH)) for kind in reversed(KEYS)),
        *((label, _NODES_PER_BATCH) for label in _LAST_LABELS),
    )
}
_VECTORS = {"VectorBlock": ", data: null", "Node": ", vector: null, was_vector: null"}
_READ_NODES = {
    kind: f"""
MATCH (n:{label} {{home_id: $home}})
RETURN n {{.*, embedding: null, key: null{_VECTORS.get(kind, "")}}} AS properties"""
    for kind, label in (*((kind, row_label(kind)) for kind in KEYS), ("Build", "PalimpsestBuild"))
} | {
    "relationships": f"""
MATCH (n:{row_label("Node")} {{home_id: $home}})-[r]-() WHERE startNode(r) = n OR r.fact_id IS NOT NULL
RETURN r {{.*, key: null}} AS properties"""
}


def drop_home(connection: Connection, home: str) -> int:
    """Deletes every node of a home, in every number, and its own vector index; returns the number of nodes."""
    rename_kinds(connection, home)
    deleted = drop(connection, home)
    for statement, limit in DROP_NODES.values():
        while n := connection.write(statement, home=home, limit=limit)[0]["n"]:
            deleted += int(n)
    drop_own_vector_index(connection, home)
    return deleted


def check_server(home: Home) -> None:
    """Makes sure, before anything is deleted from a home that was loaded into Neo4j, that the server answers.

    Raises:
        PalimpsestError: no server answers.
    """
    try:
        connect().close()
    except PalimpsestError as e:
        fix = f"or, where that server is gone for good, remove {home.path / ID_FILE}"
        raise type(e)(f"delete: this home is in Neo4j too: {e}; {fix}") from None


def forget(home: Home, probes: Probes) -> int:
    """Erases from the server what a delete took from a home that was loaded; returns the writes.

    Raises:
        Refused: a probe is still found.
    """
    with connect() as connection:
        return _erase(home, published(home), connection, probes).writes


def _erase(home: Home, build: Build | None, connection: Connection, probes: Probes) -> LoadStats:
    """Erases what a delete took from a home, in every number, and proves it.

    The rewritten build is loaded as a difference and everything else of the home is swept, older numbers included:
    readers of those must open again.

    Raises:
        Refused: a probe is still found.
    """
    name = home_id(home)
    stats = (
        LoadStats(writes=drop_home(connection, name))
        if build is None
        else load_graph(home, build, connection, keep_previous=False)
    )
    if left := residue(connection, name, probes):
        raise Refused(f"delete: Neo4j still contains some of it in {', '.join(left)}; run the same delete again")
    return stats


def residue(connection: Connection, home: str, probes: Probes) -> list[str]:
    """Returns the kinds of a home's nodes that have a probe in any property, in every number; sorted.

    Each node is read once, and so are facts and edges between nodes, as `relationships`: the others contain no text and
    no id but that of a relation, and go with their memories. Vectors are not searched: they contain no text. Labels of
    an earlier version are listed where nodes of the home still have one.
    """
    contains = probes if callable(probes) else _contains_any(probes)
    kinds = (kind for kind in _READ_NODES if any(contains(page) for page in _pages(connection, home, kind)))
    return sorted({*remaining_labels(connection, home), *kinds})


def _pages(connection: Connection, home: str, kind: str) -> Iterator[bytes]:
    """Yields the properties of the nodes of a kind as bytes, some nodes at a time."""
    size = batch_size(kind, _NODES_PER_PAGE)
    with connection.session(fetch_size=size) as session:
        found = session.run(_READ_NODES[kind], home=home)
        while rows := found.fetch(size):
            yield b"\n".join(_to_bytes(r["properties"]) for r in rows)


def _contains_any(probes: Sequence[str]) -> Callable[[bytes], bool]:
    needles = [p.encode("utf-8", "surrogatepass") for p in probes]
    return lambda data: any(n in data for n in needles)


def _to_bytes(properties: Mapping[str, object]) -> bytes:
    plain = {k: v for k, v in properties.items() if not isinstance(v, bytes | bytearray)}
    packed = b"\n".join(bytes(v) for v in properties.values() if isinstance(v, bytes | bytearray))
    # Probes are raw text, and JSON escapes quotes and line ends: strings are searched unescaped as well.
    return (
        json.dumps(plain, default=str, ensure_ascii=False).encode()
        + "\n".join(map(str, plain.values())).encode()
        + packed
    )
