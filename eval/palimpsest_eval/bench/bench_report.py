"""The figures of a bench: typed, as JSON, and as a table for people."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import cast

from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest_eval.bench.budgets import Budget
from palimpsest_eval.bench.index_use import IndexUse
from palimpsest_eval.bench.synthetic import Kind
from palimpsest_eval.metrics.latency import LatencyMs, Machine


@dataclass(frozen=True)
class QueryLoad:
    """How a bench searches: strategy, clients at once, the backend of the build, links to follow.

    With `narrow` only memories of nodes are scored: see `palimpsest.query.request.node_search`.
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
