"""What is measured in Neo4j: builds under home ids of their own, dropped from the server once they were measured."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palimpsest.eval.bench.synthetic import SyntheticBuild
from palimpsest.store.home import Home

if TYPE_CHECKING:
    from palimpsest.neo4j_graph.connect import Connection

_BUILD = "000001"


@contextmanager
def served(home: Home, backend: str) -> Iterator[None]:
    """Serves a home's published build for as long as it is measured; does nothing for another backend."""
    if backend != "neo4j":
        yield
        return
    from palimpsest.neo4j_graph.connect import connect
    from palimpsest.neo4j_graph.load import load_graph
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
def served_synthetic(home: Path, build: SyntheticBuild, backend: str) -> Iterator[dict[str, Any]]:
    """Serves a synthetic build whose index lies in `home`, and yields rate and seconds of its load.

    `nodes_per_s` counts nodes while they are made, vectors included; `graph_index_s` is the vector index after them;
    `reload` is a second load of the same build, hashing of its tables included.
    """
    if backend != "neo4j":
        yield {}
        return
    from palimpsest.neo4j_graph.connect import connect
    from palimpsest.neo4j_graph.load import load_source
    from palimpsest.neo4j_graph.load_source import Source, home_id
    from palimpsest.store.builds import Build

    with connect() as connection:
        drop_abandoned(connection)
        mark_measured(connection, Home(home))
        try:
            tables = Build(home / "builds" / _BUILD)
            for name, frame in build.tables.items():
                tables.write_table("bench", name, frame)
            load = partial(
                load_source, home_id(Home(home)), vectors=build.lookup, model="synthetic", connection=connection
            )
            stats = load(source=Source.of(tables))
            again = load(source=Source.of(tables))
            del build, load
            yield {
                "nodes_per_s": stats.nodes_per_s,
                "graph_index_s": stats.seconds["vector index"],
                "writes": stats.writes,
                "graph_parts_s": stats.seconds,
                "reload": {"writes": again.writes, "seconds": again.seconds["total"]},
            }
        finally:
            _drop(Home(home), connection)


def mark_measured(connection: "Connection", home: Home) -> None:
    """Says on the server that this process measures a home, and will drop it."""
    from palimpsest.core.processes import process_started
    from palimpsest.neo4j_graph import cypher
    from palimpsest.neo4j_graph.load_source import home_id

    own = {"pid": os.getpid(), "began": process_started(os.getpid())}
    connection.write(cypher.MARK_MEASURED, home=home_id(home), host=socket.gethostname(), **own)


def drop_abandoned(connection: "Connection") -> None:
    """Drops the homes that a killed process of this machine left in the server."""
    from palimpsest.core.processes import process_started
    from palimpsest.neo4j_graph import cypher
    from palimpsest.neo4j_graph.erase import drop_home

    for row in connection.read(cypher.MEASURED, host=socket.gethostname()):
        if process_started(row["pid"]) != row["began"]:
            drop_home(connection, row["id"])


def _drop(home: Home, connection: "Connection") -> None:
    from palimpsest.neo4j_graph.erase import drop_home
    from palimpsest.neo4j_graph.load_source import home_id

    drop_home(connection, home_id(home))
    (home.path / "neo4j.json").unlink(missing_ok=True)
