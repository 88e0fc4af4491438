"""Homes loaded into Neo4j for a measurement, each under its home id, and dropped from the server after it."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from palimpsest.neo4j_graph.connect import Connection
from palimpsest.store.home import Home
from palimpsest_eval.bench.bench_report import GraphLoad, Reload
from palimpsest_eval.bench.synthetic import SyntheticBuild

_BUILD = "000001"


@contextmanager
def serve_published(home: Home, backend: str) -> Iterator[None]:
    """Loads a home's published build for as long as the context lasts; does nothing for another backend."""
    if backend != "neo4j":
        yield
        return
    from palimpsest.neo4j_graph.connect import connect
    from palimpsest.neo4j_graph.load.loader import load_graph
    from palimpsest.store.builds import published

    build = published(home)
    assert build is not None
    with connect() as connection:
        drop_abandoned(connection)
        mark_measured(connection, home)
        try:
            load_graph(home, build, connection)
            yield
        finally:
            _drop(home, connection)


@contextmanager
def serve_synthetic(home: Path, build: SyntheticBuild, backend: str) -> Iterator[GraphLoad | None]:
    """Yields what it took to load a synthetic build, whose index is in `home`, twice; None for another backend."""
    if backend != "neo4j":
        yield None
        return
    from palimpsest.neo4j_graph.connect import connect
    from palimpsest.neo4j_graph.graph_vectors import GraphVectors
    from palimpsest.neo4j_graph.identity import home_id
    from palimpsest.neo4j_graph.load.load_source import Source
    from palimpsest.neo4j_graph.load.loader import load_source
    from palimpsest.store.builds import Build

    with connect() as connection:
        drop_abandoned(connection)
        mark_measured(connection, Home(home))
        try:
            tables = Build(home / "builds" / _BUILD)
            for name, frame in build.tables.items():
                tables.write_table("bench", name, frame)
            vectors = GraphVectors(build.lookup, "synthetic")
            load = partial(load_source, home_id(Home(home)), vectors=vectors, connection=connection)
            first = load(source=Source.of(tables))
            again = load(source=Source.of(tables))
            del build, load, vectors
            yield GraphLoad(
                nodes_per_s=first.nodes_per_s,
                graph_index_s=first.seconds["vector index"],
                writes=first.writes,
                graph_parts_s=first.seconds,
                reload=Reload(again.writes, again.seconds["total"]),
            )
        finally:
            _drop(Home(home), connection)


def mark_measured(connection: "Connection", home: Home) -> None:
    """Records on the server that this process measures a home, and will drop it."""
    from palimpsest.core.processes import process_started
    from palimpsest.neo4j_graph.cypher import loading
    from palimpsest.neo4j_graph.identity import home_id

    pid = os.getpid()
    began = process_started(pid)
    connection.write(loading.MARK_MEASURED, home=home_id(home), host=socket.gethostname(), pid=pid, began=began)


def drop_abandoned(connection: "Connection") -> None:
    """Drops the homes that a killed process of this machine left in the server."""
    from palimpsest.core.processes import process_started
    from palimpsest.neo4j_graph.cypher import loading
    from palimpsest.neo4j_graph.load.erase import drop_home

    for row in connection.read(loading.MEASURED, host=socket.gethostname()):
        if process_started(row["pid"]) != row["began"]:
            drop_home(connection, row["id"])


def _drop(home: Home, connection: "Connection") -> None:
    from palimpsest.neo4j_graph.identity import home_id
    from palimpsest.neo4j_graph.load.erase import drop_home

    drop_home(connection, home_id(home))
    (home.path / "neo4j.json").unlink(missing_ok=True)
