"""Queries of one home measured in a fresh process, so that memory and first query are the reader's own."""

import argparse
import json
import os
import random
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from palimpsest.core.errors import ArgumentError, ComponentFailed
from palimpsest.neo4j_graph.connect import Connection
from palimpsest.query import Reader, Scope, open_home
from palimpsest.query.graph.graph_reader import GraphReader
from palimpsest.query.request.types import Filters, Node
from palimpsest.query.scope.served_graph import ServedGraph
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.store.home import Home
from palimpsest_eval.bench.bench_report import (
    ClientLatency,
    GraphLoad,
    IndexUse,
    QueryFigures,
    QueryLoad,
    Reload,
    measure_index_use,
)
from palimpsest_eval.bench.synthetic import COLLECTION, SyntheticBuild
from palimpsest_eval.metrics import LatencyMs

# Questions over the graph of one scope: a node, its neighbors, three hops, relations and timelines, by name.

QUESTIONS, GRAPH_WARM_UP = 60, 5
_NAMES = 400  # of which the questions name some
_SEED = 18

Ask = Callable[[GraphReader, str, str], object]
_ASKS: Mapping[str, Ask] = {
    "node_ms": lambda graph, a, _: graph.node(a),
    "neighbours_ms": lambda graph, a, _: graph.neighbors(a, 2),
    "three_hops_ms": lambda graph, a, _: graph.neighbors(a, 3),
    "relations_ms": lambda graph, a, b: graph.relations(f"How does {a} relate to {b}?"),
    "timeline_ms": lambda graph, a, _: graph.timeline(a),
}


def measure_graph(reader: Reader, scope: Scope, questions: int = QUESTIONS) -> dict[str, LatencyMs]:
    """Returns the latency of each question over a scope: another one each time, on nodes drawn by a seed.

    Args:
        reader: of the home.
        scope: has nodes.
        questions: of each kind, after a few that warm up.

    Raises:
        ComponentFailed: the scope has no nodes, so there is nothing to measure.
    """
    names = _names(reader, scope)
    if len(names) < 2:
        raise ComponentFailed("bench: the scope has no nodes")
    drawn = random.Random(_SEED)  # noqa: S311 (no secret)
    found = {}
    for what, ask in _ASKS.items():
        took = [_timed(reader, scope, ask, *drawn.sample(names, 2)) for _ in range(GRAPH_WARM_UP + questions)]
        found[what] = LatencyMs(*(float(p) for p in np.percentile(took[GRAPH_WARM_UP:], _PERCENTILES)))
    return found


def _timed(reader: Reader, scope: Scope, ask: Ask, first: str, second: str) -> float:
    started = time.perf_counter()
    try:
        ask(reader.graph(scope), first, second)
    except ArgumentError as e:
        raise ComponentFailed(f"bench: no answer about {first!r}: {e}") from None
    return (time.perf_counter() - started) * 1000


def _names(reader: Reader, scope: Scope) -> list[str]:
    """Returns the names of the most important nodes, those alone that a single node has."""
    graph = ServedGraph.of(ServedScope(reader.backend, scope, Filters()))
    if graph is None:
        return []
    nodes: Mapping[str, Node] = graph.nodes(graph.graph.nodes_of_type((), _NAMES))
    return sorted({n.name for n in nodes.values()})


REPEATS, WARM_UP = 3, 10
CLIENTS = (1, 8)  # always measured, in addition to the number of the load
PLANNED_QUESTIONS = 50  # whose statements are planned
QUESTIONS_FILE = "queries.json"
_PERCENTILES = (50, 95, 99)


def client_counts(load: QueryLoad) -> list[int]:
    """Returns the numbers of clients to measure, ascending."""
    return sorted({load.clients, *CLIENTS})


def write_questions(home: Path, user: str, questions: Sequence[str]) -> None:
    """Writes the questions that the measuring process searches, and their user, next to the home's builds."""
    (home / QUESTIONS_FILE).write_text(json.dumps([user, questions]), encoding="utf-8")


def query_figures(home: Path, load: QueryLoad) -> QueryFigures:
    """Measures the queries of a home in a fresh process.

    Raises:
        ComponentFailed: the process failed.
    """
    return read_figures(_run_process(home, load))


def read_figures(text: str) -> QueryFigures:
    """Returns the figures whose fields, and theirs, a measuring process printed as JSON."""
    read = json.loads(text)

    def latencies(values: Mapping[str, Mapping[str, float]]) -> dict[str, LatencyMs]:
        return {name: LatencyMs(**value) for name, value in values.items()}

    clients = {
        count: ClientLatency(
            LatencyMs(**found["latency_ms"]),
            {name: (least, most) for name, (least, most) in found["spread_ms"].items()},
            found["cpu_ms"],
            latencies(found["steps_ms"]),
        )
        for count, found in read["clients"].items()
    }
    use = IndexUse(**read["from_indexes"] | {"scans": tuple(read["from_indexes"]["scans"])})
    return QueryFigures(
        clients, read["open_ms"], read["first_query_ms"], read["rss_mib"], use, latencies(read["graph_ms"])
    )


def first_query_ms(home: Path, load: QueryLoad) -> float:
    """Returns the slowest of the first queries of a fresh process whose clients all start at once.

    Raises:
        ComponentFailed: the process failed.
    """
    return float(_run_process(home, load, "--first"))


def _run_process(home: Path, load: QueryLoad, *options: str) -> str:
    command = [sys.executable, "-m", "palimpsest_eval.bench.measure_queries", str(home), "--strategy", load.strategy]
    command += ["--clients", str(load.clients), "--backend", load.backend, "--hops", str(load.hops), *options]
    command += ["--narrow"] if load.narrow else []
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ComponentFailed(f"bench: the measuring process failed: {last}")
    return done.stdout.splitlines()[-1]


class _OpenHome:
    """A reader of a home and its questions."""

    def __init__(self, home: Path, load: QueryLoad):
        from palimpsest.query.embed_query import query_embedder

        user, self.questions = json.loads((home / QUESTIONS_FILE).read_text(encoding="utf-8"))
        self.scope, self._load = Scope(COLLECTION, user), load
        started = time.perf_counter()
        self.reader: Reader = open_home(home, load.backend, count_reads=False)
        query_embedder()
        self.open_ms = (time.perf_counter() - started) * 1000

    def search(self, text: str) -> tuple[float, Mapping[str, float]]:
        """Returns the milliseconds of a search, and those of its steps.

        Raises:
            ComponentFailed: the search found nothing, so its time would measure nothing.
        """
        started = time.perf_counter()
        found = self.reader.search(
            text, self.scope, strategy=self._load.strategy, hops=self._load.hops, narrow=self._load.narrow
        )
        took_ms = (time.perf_counter() - started) * 1000
        if not (found.memories and found.lines):
            raise ComponentFailed(f"bench: no answer to {text!r}")
        return took_ms, found.timings


def _measure(home: Path, load: QueryLoad) -> QueryFigures:
    """Measures each number of clients on questions of its own, then plans the statements of a few."""
    opened = _OpenHome(home, load)
    first_ms, _ = opened.search(opened.questions[0])
    for text in opened.questions[1:WARM_UP]:
        opened.search(text)
    questions, counts = opened.questions[WARM_UP:], client_counts(load)
    share = len(questions) // len(counts)
    latencies = {
        str(count): _measure_rounds(opened, questions[i * share : (i + 1) * share], count)
        for i, count in enumerate(counts)
    }
    graph_ms = measure_graph(opened.reader, opened.scope) if load.strategy == "hierarchical" else {}
    opened.reader.close()
    peak_mib = _peak_mib()
    planned = opened.questions[: WARM_UP + PLANNED_QUESTIONS]
    use = measure_index_use(home, load.backend, opened.scope, planned, WARM_UP, strategy=load.strategy, hops=load.hops)
    return QueryFigures(latencies, opened.open_ms, first_ms, peak_mib, use, graph_ms)


def _measure_first(home: Path, load: QueryLoad) -> float:
    opened = _OpenHome(home, load)
    with ThreadPoolExecutor(load.clients) as pool:
        return max(took_ms for took_ms, _ in pool.map(opened.search, opened.questions[: load.clients]))


def _measure_rounds(opened: _OpenHome, texts: Sequence[str], clients: int) -> ClientLatency:
    rounds, cpu_ms = [], []
    steps: list[Mapping[str, float]] = []
    size = len(texts) // REPEATS
    for number in range(REPEATS):
        cpu_started = time.process_time()
        with ThreadPoolExecutor(clients) as pool:
            searches = list(pool.map(opened.search, texts[number * size : (number + 1) * size]))
        cpu_ms.append((time.process_time() - cpu_started) * 1000 / max(1, size))
        rounds.append(_percentiles([took_ms for took_ms, _ in searches]))
        steps += [step_ms for _, step_ms in searches]
    by_name = {f"p{p}": [r[i] for r in rounds] for i, p in enumerate(_PERCENTILES)}
    return ClientLatency(
        latency_ms=LatencyMs(**{name: statistics.median(values) for name, values in by_name.items()}),
        spread_ms={name: (min(values), max(values)) for name, values in by_name.items()},
        cpu_ms=statistics.median(cpu_ms),
        steps_ms={step: LatencyMs(*_percentiles([s[step] for s in steps])) for step in steps[0]},
    )


def _percentiles(values_ms: Sequence[float]) -> list[float]:
    return [float(p) for p in np.percentile(values_ms, _PERCENTILES)]


def _peak_mib() -> float:
    """Returns the most memory of this process; `getrusage` would count what its parent had when it was forked."""
    status = Path("/proc/self/status")
    if status.exists():
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        if "VmHWM" in fields:
            return int(fields["VmHWM"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Prints one line of JSON: the figures, or with `--first` the milliseconds of the slowest first query."""
    parser = argparse.ArgumentParser(description="measures one home; run_bench starts it")
    parser.add_argument("home", type=Path)
    parser.add_argument("--strategy", default="hybrid")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--backend", default="duckdb")
    parser.add_argument("--hops", type=int, default=1)
    parser.add_argument("--narrow", action="store_true")
    parser.add_argument("--first", action="store_true")
    args = parser.parse_args()
    load = QueryLoad(args.strategy, args.clients, args.backend, args.hops, args.narrow)
    figures = _measure_first(args.home, load) if args.first else asdict(_measure(args.home, load))
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()


# Homes loaded into Neo4j for a measurement, each under its home id, and dropped from the server after it.

_BUILD = "000001"


@contextmanager
def serve_published(home: Home, backend: str) -> Iterator[None]:
    """Loads a home's published build for as long as the context lasts; does nothing for another backend."""
    if backend != "neo4j":
        yield
        return
    from palimpsest.neo4j_graph.connect import connect
    from palimpsest.neo4j_graph.loader import load_graph
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
    from palimpsest.neo4j_graph.graph_rows import GraphVectors
    from palimpsest.neo4j_graph.identity import home_id
    from palimpsest.neo4j_graph.loader import Source, load_source
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
    from palimpsest.core.parallel import process_started
    from palimpsest.neo4j_graph import cypher
    from palimpsest.neo4j_graph.identity import home_id

    pid = os.getpid()
    began = process_started(pid)
    connection.write(cypher.MARK_MEASURED, home=home_id(home), host=socket.gethostname(), pid=pid, began=began)


def drop_abandoned(connection: "Connection") -> None:
    """Drops the homes that a killed process of this machine left in the server."""
    from palimpsest.core.parallel import process_started
    from palimpsest.neo4j_graph import cypher
    from palimpsest.neo4j_graph.loader import drop_home

    for row in connection.read(cypher.MEASURED, host=socket.gethostname()):
        if process_started(row["pid"]) != row["began"]:
            drop_home(connection, row["id"])


def _drop(home: Home, connection: "Connection") -> None:
    from palimpsest.neo4j_graph.identity import home_id
    from palimpsest.neo4j_graph.loader import drop_home

    drop_home(connection, home_id(home))
    (home.path / "neo4j.json").unlink(missing_ok=True)
