"""Whether a warm reader answers from indexes alone: from what it has cached, and from rows found by an index or row id.

Every statement of a query is planned by the store itself. One that reads a whole table or label, however small, is a
scan, and so is the whole query.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palimpsest.query import Reader, Scope, open_home

Parameters = dict[str, Any]
"""Parameters of a statement, in the types of the store's driver."""

_ROW_ID = "rowid"  # DuckDB finds it by the index of its row groups


@dataclass(frozen=True)
class IndexUse:
    """How queries use indexes.

    Attributes:
        share: of the queries without a scan.
        statements: of one query, the mean.
        scans: statements that scan, shortened and sorted.
    """

    share: float
    statements: float
    scans: tuple[str, ...]


@dataclass(frozen=True)
class _RecordedReader:
    """A reader that records the (statement, parameters) it runs, and whether the store plans one as a scan."""

    reader: Reader
    statements: list[tuple[str, Parameters]]
    is_scan: Callable[[str, Parameters], bool]


def measure_index_use(
    home: Path, backend: str, scope: Scope, texts: Sequence[str], warm_up: int, **filters: Any
) -> IndexUse:
    """Searches the texts and plans every statement of each.

    Args:
        home: the home to open.
        backend: duckdb or neo4j.
        scope: the scope of the searches.
        texts: the questions.
        warm_up: how many of them, from the first, are not counted.
        filters: further arguments of `Reader.search`.
    """
    recorded_reader = _duckdb_reader(home) if backend == "duckdb" else _neo4j_reader(home)
    with recorded_reader as recorded:
        for text in texts[:warm_up]:
            recorded.reader.search(text, scope, **filters)
        plans: dict[str, bool] = {}
        without_scan, statements = 0, 0
        for text in texts[warm_up:]:
            recorded.statements.clear()
            recorded.reader.search(text, scope, **filters)
            statements += len(recorded.statements)
            for statement, parameters in recorded.statements:
                if statement not in plans:
                    plans[statement] = recorded.is_scan(statement, parameters)
            without_scan += not any(plans[statement] for statement, _ in recorded.statements)
    count = len(texts) - warm_up
    scans = sorted(" ".join(s.split())[:200] for s, is_scan in plans.items() if is_scan)
    return IndexUse(without_scan / count, statements / count, tuple(scans))


@contextmanager
def _duckdb_reader(home: Path) -> Iterator[_RecordedReader]:
    from palimpsest.query.backends.duckdb_backend import DuckDBBackend

    statements: list[tuple[str, Parameters]] = []
    with open_home(home, count_reads=False) as reader:
        store = reader.backend
        assert isinstance(store, DuckDBBackend)
        path = store.path

    class RecordingCursor:
        def __init__(self, cursor: Any):
            self._cursor = cursor

        def execute(self, statement: str, parameters: Parameters) -> Any:
            statements.append((statement, parameters))
            return self._cursor.execute(statement, parameters)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._cursor, name)

    class RecordingBackend(DuckDBBackend):
        def _cursor(self) -> Any:
            return RecordingCursor(super()._cursor())

    recording, planner = RecordingBackend(path), DuckDBBackend(path)

    def is_scan(statement: str, parameters: Parameters) -> bool:
        # ANALYZE: whether rows of a join are found by an index is decided when the statement runs.
        rows = planner._cursor().execute(f"EXPLAIN (ANALYZE, FORMAT json) {statement}", parameters).fetchall()
        return any(_scans_table(node) for node in json.loads(rows[0][1])["operator"])

    try:
        with Reader(recording) as reader:
            yield _RecordedReader(reader, statements, is_scan)
    finally:
        planner.close()


def _scans_table(node: Mapping[str, Any], by_row_id: bool = False) -> bool:
    """Returns whether a DuckDB plan reads a table without an index or row ids, from a filter or the join above it."""
    info = node.get("extra_info", {})
    by_row_id = by_row_id or any(_ROW_ID in str(info.get(part, "")) for part in ("Conditions", "Filters"))
    is_indexed = by_row_id or info.get("Type") == "Index Scan"
    return ("Table" in info and not is_indexed) or any(_scans_table(c, by_row_id) for c in node.get("children", []))


@contextmanager
def _neo4j_reader(home: Path) -> Iterator[_RecordedReader]:
    from palimpsest.neo4j_graph.backend.neo4j_backend import open_neo4j
    from palimpsest.neo4j_graph.connect import Connection, connect

    statements: list[tuple[str, Parameters]] = []

    class RecordingConnection(Connection):
        def query(self, statement: str, parameters: Mapping[str, Any]) -> Any:
            statements.append((statement, dict(parameters)))
            return super().query(statement, parameters)

    with connect() as connection:

        def is_scan(statement: str, parameters: Parameters) -> bool:
            with connection.session() as session:
                plan = session.run(f"EXPLAIN {statement}", parameters).consume().plan
            return _scans_label(plan or {})

        recording = RecordingConnection(connection.driver, connection.database, connection.capabilities, connection.uri)
        yield _RecordedReader(Reader(open_neo4j(home, recording)), statements, is_scan)


def _scans_label(node: Mapping[str, Any]) -> bool:
    """Returns whether a plan of Neo4j reads a whole label, type or index."""
    return "Scan" in str(node.get("operatorType", "")) or any(_scans_label(c) for c in node.get("children", []))
