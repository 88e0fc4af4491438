"""The figures of a bench: typed, as JSON, and as a table for people."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.query import Reader, Scope, open_home
from palimpsest_eval.bench.synthetic import Kind
from palimpsest_eval.metrics import LatencyMs, Machine

# Limits of the parts of a query, and what they took in a bench.

NODE_SEARCH_MS, WHOLE_MS, WALK_MS, PAGES_MS, FROM_INDEXES_SHARE = 50.0, 150.0, 100.0, 40.0, 0.9
NARROW_NODE_SEARCH_MS, NARROW_WHOLE_MS, THREE_HOPS_MS = 20.0, 60.0, 50.0
"""Limits of searches over nodes alone, and of the nodes within three steps of one."""
_SHARE = "from indexes"


@dataclass(frozen=True)
class Budget:
    """A figure of a part of a query, its limit, and whether the limit is kept.

    `from indexes` is a share that must be greater than its limit; every other figure is in milliseconds and must be
    less.
    """

    part: str
    home: str
    figure: float
    limit: float
    kept: bool

    def text(self) -> str:
        """Returns a line for people."""
        is_share = self.part == _SHARE
        figure, limit = (f"{100 * v:.0f} %" if is_share else f"{v:.1f} ms" for v in (self.figure, self.limit))
        outcome, bound = "kept  " if self.kept else "missed", "more" if is_share else "less"
        return f"{outcome}  {self.part} ({self.home}): {figure}, {bound} than {limit}"


def home_budgets(
    home: str, steps_ms: Mapping[str, LatencyMs], from_indexes: float, *, narrow: bool = False
) -> list[Budget]:
    """Returns the budgets of searches in one home.

    `node search` is the p95 of finding and scoring candidates, which over passages includes the walk; `whole` that of
    text in, context out; `from indexes` the share of queries of which no statement scans a table.
    """
    node_search, whole = steps_ms["seeds_ms"].p95, steps_ms["total_ms"].p95
    of_search, of_whole = (NARROW_NODE_SEARCH_MS, NARROW_WHOLE_MS) if narrow else (NODE_SEARCH_MS, WHOLE_MS)
    return [
        Budget("node search", home, node_search, of_search, node_search < of_search),
        Budget("whole", home, whole, of_whole, whole < of_whole),
        Budget(_SHARE, home, from_indexes, FROM_INDEXES_SHARE, from_indexes > FROM_INDEXES_SHARE),
    ]


def graph_budgets(home: str, graph_ms: Mapping[str, LatencyMs]) -> list[Budget]:
    """Returns the budget of `three hops` from one node, where questions over the graph were measured."""
    hops = [ms.p95 for what, ms in graph_ms.items() if what == "three_hops_ms"]
    return [Budget("three hops", home, p95, THREE_HOPS_MS, p95 < THREE_HOPS_MS) for p95 in hops]


def walk_budget(memories: int, steps_ms: Mapping[str, LatencyMs]) -> Budget:
    """Returns the budget of `walk and hops` in a home of titled passages.

    It is the p95 of everything between the question's vector and the reading of the results: three steps over names,
    then two hops over relations.
    """
    walk = sum(steps_ms[step].p95 for step in ("seeds_ms", "expand_ms", "rank_ms"))
    return Budget("walk and hops", f"{memories} passages", walk, WALK_MS, walk < WALK_MS)


def pages_budget(memories: int, steps_ms: Mapping[str, LatencyMs]) -> Budget:
    """Returns the budget of `long pages`: the p95 of a whole query in a home of long pages."""
    whole = steps_ms["total_ms"].p95
    return Budget("long pages", f"{memories} pages", whole, PAGES_MS, whole < PAGES_MS)


# Whether a warm reader answers from indexes alone: from what it has cached, and from rows found by an index or row id.
#
# Every statement of a query is planned by the store itself. One that reads a whole table or label, however small, is a
# scan, and so is the whole query.

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
    from palimpsest.neo4j_graph.connect import Connection, connect
    from palimpsest.neo4j_graph.neo4j_backend import open_neo4j

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


@dataclass(frozen=True)
class QueryLoad:
    """How a bench searches: strategy, clients at once, the backend of the build, links to follow.

    With `narrow` only memories of nodes are scored: see `palimpsest.query.request.search_request`.
    """

    strategy: str = "hybrid"
    clients: int = 1
    backend: str = "duckdb"
    hops: int = 1
    narrow: bool = False


@dataclass(frozen=True)
class ClientLatency:
    """Queries by a number of clients at once, in rounds.

    Attributes:
        latency_ms: of whole queries; medians over the rounds.
        spread_ms: the least and greatest of the rounds, by percentile.
        cpu_ms: processor time of one query, the median of the rounds' means: a busy machine does not lengthen it.
        steps_ms: of each step of a query, over all rounds.
    """

    latency_ms: LatencyMs
    spread_ms: Mapping[str, tuple[float, float]]
    cpu_ms: float
    steps_ms: Mapping[str, LatencyMs]


@dataclass(frozen=True)
class QueryFigures:
    """What a measuring process reports of a home.

    Attributes:
        clients: latency by number of clients.
        open_ms: to open the home and load the query model.
        first_query_ms: of the first query after that.
        rss_mib: most memory of the process.
        from_indexes: how queries use indexes.
        graph_ms: of questions over the graph, by kind; empty where the home has no topics.
    """

    clients: Mapping[str, ClientLatency]
    open_ms: float
    first_query_ms: float
    rss_mib: float
    from_indexes: IndexUse
    graph_ms: Mapping[str, LatencyMs] = field(default_factory=dict)


@dataclass(frozen=True)
class IndexLoad:
    """Writing an index: seconds, seconds of its parts, and its size."""

    index_s: float
    index_parts_s: Mapping[str, float]
    disk_mib: float


@dataclass(frozen=True)
class Reload:
    """A second load of an unchanged build, hashing of its tables included."""

    writes: int
    seconds: float


@dataclass(frozen=True)
class GraphLoad:
    """A load into Neo4j.

    Attributes:
        nodes_per_s: while nodes are created, vectors included.
        graph_index_s: of the vector index after them.
        writes: rows written.
        graph_parts_s: seconds of each part.
        reload: a second load of the same build.
    """

    nodes_per_s: float
    graph_index_s: float
    writes: int
    graph_parts_s: Mapping[str, float]
    reload: Reload


@dataclass(frozen=True)
class HomeReport:
    """All that is measured of one home.

    Attributes:
        scope_memories: memories of the user that is searched.
        index: writing its index.
        graph: loading it into Neo4j; None on another backend.
        queries: searching it.
        at_load: latency at the number of clients that the bench was started with.
        cold_ms: slowest first query of a fresh process, by number of clients that start at once.
    """

    scope_memories: int
    index: IndexLoad
    graph: GraphLoad | None
    queries: QueryFigures
    at_load: ClientLatency
    cold_ms: Mapping[str, float]

    def to_json(self) -> JsonObject:
        """Returns the figures as one flat object, but for `latency_ms`, which the report has by home."""
        at_load = asdict(self.at_load)
        del at_load["latency_ms"]
        graph = asdict(self.graph) if self.graph else {}
        parts = asdict(self.index) | graph | at_load | asdict(self.queries)
        return _rounded_object(parts | {"scope_memories": self.scope_memories, "cold_ms": self.cold_ms})


@dataclass(frozen=True)
class BenchReport:
    """A whole bench. `homes` are named `scoped` (the largest of many users) and `unscoped` (one user has all)."""

    memories: int
    users: int
    kind: Kind
    load: QueryLoad
    machine: Machine
    homes: Mapping[str, HomeReport]
    budgets: Sequence[Budget]

    @property
    def nodes_per_s(self) -> float:
        """Memories loaded a second, of the slower home."""
        indexed = self.memories / max(h.index.index_s for h in self.homes.values())
        return round(min(h.graph.nodes_per_s if h.graph else indexed for h in self.homes.values()), 1)

    @property
    def index_s(self) -> float:
        """Seconds to write the index, of the slower home; on Neo4j those of its vector index."""
        return round(max(h.graph.graph_index_s if h.graph else h.index.index_s for h in self.homes.values()), 3)

    @property
    def rss_mib(self) -> float:
        """Most memory of a querying process."""
        return round(max(h.queries.rss_mib for h in self.homes.values()), 1)

    @property
    def disk_mib(self) -> float:
        """Size of the larger index."""
        return round(max(h.index.disk_mib for h in self.homes.values()), 1)

    def to_json(self) -> JsonObject:
        """Returns the JSON of `palimpsest bench`."""
        return {
            "memories": self.memories,
            "users": self.users,
            "kind": self.kind,
            **asdict(self.load),
            "machine": self.machine.to_json(),
            "load": {"nodes_per_s": self.nodes_per_s, "index_s": self.index_s},
            "latency_ms": {name: home.at_load.latency_ms.to_json() for name, home in self.homes.items()},
            "rss_mib": self.rss_mib,
            "disk_mib": self.disk_mib,
            "homes": {name: home.to_json() for name, home in self.homes.items()},
            "budgets": [_rounded_object(asdict(budget)) for budget in self.budgets],
        }

    def text(self) -> str:
        """Returns the figures as a table for people."""
        machine, load = self.machine, self.load
        lines = [
            f"{self.memories} memories as {self.kind}, {load.strategy}, {load.hops} hop(s), {load.clients} client(s), "
            f"{load.backend}; {machine.cpus} x {machine.cpu}, load {machine.load_1min:.1f}",
            f"load    {self.nodes_per_s:.0f} memories/s, {self.index_s:.1f} s, {self.disk_mib:.0f} MiB on disk",
        ]
        for name, home in self.homes.items():
            if home.graph:
                reload = home.graph.reload
                lines.append(f"reload  nothing changed: {reload.writes} writes, {reload.seconds:.1f} s ({name})")
        lines.append(f"{'ms':8}{'memories':>10}{'p50':>8}{'p95':>8}{'p99':>8}{'first':>8}{'open':>8}")
        for name, home in self.homes.items():
            latency, queries = home.at_load.latency_ms, home.queries
            figures = (latency.p50, latency.p95, latency.p99, queries.first_query_ms, queries.open_ms)
            lines.append(f"{name:8}{home.scope_memories:10}" + "".join(f"{ms:8.1f}" for ms in figures))
        steps = list(next(iter(self.homes.values())).at_load.steps_ms)
        lines.append(f"{'p95 ms':8}{'clients':>10}" + "".join(f"{step.removesuffix('_ms'):>8}" for step in steps))
        for name, home in self.homes.items():
            for count, at in home.queries.clients.items():
                low, high = at.spread_ms["p95"]
                lines.append(
                    f"{name:8}{count:>10}"
                    + "".join(f"{at.steps_ms[step].p95:8.1f}" for step in steps)
                    + f"  rounds {low:.1f} to {high:.1f}, cpu {at.cpu_ms:.1f}, first {home.cold_ms[count]:.0f}"
                )
        for name, home in self.homes.items():
            measured = home.queries.graph_ms.items()
            lines += [
                f"{name:8}{what.removesuffix('_ms'):>12} p50 {ms.p50:7.1f} p95 {ms.p95:7.1f} ms"
                for what, ms in measured
            ]
        lines += [budget.text() for budget in self.budgets]
        return "\n".join([*lines, f"peak memory of the querying process {self.rss_mib:.0f} MiB"])


def _rounded(value: JsonValue) -> JsonValue:
    """Returns a JSON value with every number rounded to 3 decimals."""
    if isinstance(value, Mapping):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return round(value, 3) if isinstance(value, float) else value


def _rounded_object(value: Mapping[str, JsonValue]) -> JsonObject:
    return cast(JsonObject, _rounded(value))
