"""Whether a warm reader answers from indexes alone: what it holds, and rows that its store finds by their places.

Every statement of a query is planned by the store itself. One that reads a table or a label through, however small, is
a scan, and so is the whole query.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from palimpsest.query import Reader, Scope, open_home

_PLACE = "rowid"  # the place of a row in a DuckDB table: found in the row groups' own index


def from_indexes(
    home: Path, backend: str, scope: Scope, texts: Sequence[str], warm_up: int, **asked: Any
) -> dict[str, Any]:
    """Returns the share of queries that scan nothing, statements for each query, and the statements that scan.

    Args:
        home: what to open.
        backend: where it is served from.
        scope: where to search.
        texts: the questions; the first `warm_up` are not counted.
        warm_up: how many.
        asked: how searches are asked.
    """
    with _watched(home, backend) as (reader, told, scans):
        for text in texts[:warm_up]:
            reader.search(text, scope, **asked)
        clean, statements, scanning = 0, 0, set[str]()
        for text in texts[warm_up:]:
            told.clear()
            reader.search(text, scope, **asked)
            found = {statement for statement, values in told if scans(statement, values)}
            clean, statements, scanning = clean + (not found), statements + len(told), scanning | found
    count = len(texts) - warm_up
    return {
        "share": clean / count,
        "statements": statements / count,
        "scans": sorted(" ".join(s.split())[:200] for s in scanning),
    }


@contextmanager
def _watched(home: Path, backend: str) -> Iterator[tuple[Reader, list[tuple[str, dict[str, Any]]], Any]]:
    """Yields a reader, the list that its statements are told to, and what tells whether one of them scans."""
    told: list[tuple[str, dict[str, Any]]] = []
    plans: dict[str, bool] = {}
    opened = _duckdb(home, told) if backend == "duckdb" else _neo4j(home, told)
    with opened as (reader, plan):

        def scans(statement: str, values: dict[str, Any]) -> bool:
            if statement not in plans:
                plans[statement] = plan(statement, values)
            return plans[statement]

        yield reader, told, scans


@contextmanager
def _duckdb(home: Path, told: list[tuple[str, dict[str, Any]]]) -> Iterator[tuple[Reader, Any]]:
    from palimpsest.query.backends.duckdb_backend import DuckDBBackend

    with open_home(home) as reader:
        store = reader.backend
        assert isinstance(store, DuckDBBackend)
        path = store.path

    class Told:
        def __init__(self, cursor: Any):
            self._cursor = cursor

        def execute(self, statement: str, values: dict[str, Any]) -> Any:
            told.append((statement, values))
            return self._cursor.execute(statement, values)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._cursor, name)

    class Watched(DuckDBBackend):
        def _cursor(self) -> Any:
            return Told(super()._cursor())

    watched = Watched(path)
    plain = DuckDBBackend(path)

    def plan(statement: str, values: dict[str, Any]) -> bool:
        found = plain._cursor().execute(f"EXPLAIN (FORMAT json) {statement}", values).fetchall()
        return any(_reads_through(node) for node in json.loads(found[0][1]))

    try:
        with Reader(watched) as reader:
            yield reader, plan
    finally:
        plain.close()


def _reads_through(node: dict[str, Any], by_place: bool = False) -> bool:
    """Tells whether a DuckDB plan reads a table otherwise than by places, which a filter or the join above it gives."""
    info = node.get("extra_info", {})
    by_place = by_place or any(_PLACE in str(info.get(part, "")) for part in ("Conditions", "Filters"))
    return ("Table" in info and not by_place) or any(_reads_through(c, by_place) for c in node.get("children", []))


@contextmanager
def _neo4j(home: Path, told: list[tuple[str, dict[str, Any]]]) -> Iterator[tuple[Reader, Any]]:
    from palimpsest.neo4j_graph.connect import Connection, connect
    from palimpsest.neo4j_graph.neo4j_backend import open_neo4j

    class Watched(Connection):
        def ask(self, statement: str, values: dict[str, Any]) -> Any:
            told.append((statement, values))
            return super().ask(statement, values)

    with connect() as connection:

        def plan(statement: str, values: dict[str, Any]) -> bool:
            with connection.session() as session:
                found = session.run(f"EXPLAIN {statement}", values).consume().plan
            return _walks_through(found or {})

        watched = Watched(connection.driver, connection.database, connection.capabilities, connection.uri)
        yield Reader(open_neo4j(home, watched)), plan


def _walks_through(node: dict[str, Any]) -> bool:
    """Tells whether a plan of Neo4j reads a label, a type or an index through."""
    return "Scan" in str(node.get("operatorType", "")) or any(_walks_through(c) for c in node.get("children", []))
