"""The scale run: synthetic builds in real indexes, real queries through the real reader, each home in its process."""

import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest_eval.bench.bench_report import (
    BenchReport,
    HomeReport,
    IndexLoad,
    QueryLoad,
    graph_budgets,
    home_budgets,
    pages_budget,
    walk_budget,
)
from palimpsest_eval.bench.measure_queries import (
    REPEATS,
    WARM_UP,
    client_counts,
    first_query_ms,
    query_figures,
    serve_synthetic,
    write_questions,
)
from palimpsest_eval.bench.synthetic import COLLECTION, Kind, SyntheticBuild, synthetic_build
from palimpsest_eval.metrics import this_machine

QUERIES = 100  # of one round
WALK_MEMORIES = 10_000  # of the home whose walks are measured
MAX_PAGES = 20_000  # more take too long to write
AUTO_STRATEGY = {"turns": "turns", "titled": "graph", "pages": "graph"}
"""The strategy that `auto` resolves to, by kind."""

_BUILD = "000001"


def run_bench(
    memories: int,
    load: QueryLoad | None = None,
    *,
    users: int = 50,
    kind: Kind = "turns",
    workdir: Path | None = None,
) -> BenchReport:
    """Measures loading and whole queries (embedding, ranking, packing and citing included) at a scale.

    `scoped` searches the largest of `users` users of Zipf size; `unscoped` a second home whose one user has all. Each
    is three rounds of a hundred distinct questions; a percentile is the median of the three rounds', and the least and
    greatest of them are its noise. 1 and 8 clients are measured as well as the number of the load, warm and cold: cold
    is the slowest first query of a fresh process whose clients all start at once. `budgets` are of the parts of a
    query: see `palimpsest_eval.bench.bench_report`.

    Args:
        memories: in all.
        load: how to search; None means the defaults.
        users: of the first home.
        kind: short turns with speakers and dates, titled passages, or titled pages of some 1,500 tokens. Walks are
            measured with the first two.
        workdir: folder for the homes, removed with them; None means the system's.

    Raises:
        PalimpsestError: an argument is out of range.
        ComponentFailed: a measuring process failed.
    """
    load = load or QueryLoad()
    _check_arguments(memories, kind, load)
    if workdir is not None:
        workdir.mkdir(parents=True, exist_ok=True)
    machine = this_machine()
    with tempfile.TemporaryDirectory(prefix="palimpsest-bench-", dir=workdir) as folder:
        homes = {
            name: _measure_home(Path(folder) / name, memories, owners, kind, load)
            for name, owners in (("scoped", users), ("unscoped", 1))
        }
        if kind == "pages":
            last = pages_budget(memories, homes["unscoped"].at_load.steps_ms)
        else:
            walk_load = QueryLoad("graph", 1, load.backend, 2)
            walk = _measure_home(Path(folder) / "walk", min(memories, WALK_MEMORIES), 1, "titled", walk_load)
            last = walk_budget(walk.scope_memories, walk.at_load.steps_ms)
    budgets = [
        budget
        for name, home in homes.items()
        for budget in [
            *home_budgets(name, home.at_load.steps_ms, home.queries.from_indexes.share, narrow=load.narrow),
            *graph_budgets(name, home.queries.graph_ms),
        ]
    ]
    return BenchReport(memories, users, kind, load, machine, homes, [*budgets, last])


def _check_arguments(memories: int, kind: Kind, load: QueryLoad) -> None:
    from palimpsest.query.request.strategies import STRATEGIES

    if kind == "pages" and memories > MAX_PAGES:
        raise PalimpsestError(f"--memories {memories}: must be at most {MAX_PAGES} with --kind pages")
    if load.backend not in ("duckdb", "neo4j"):
        raise PalimpsestError(f"--backend {load.backend}: not one of duckdb, neo4j")
    if load.strategy not in {"auto", *STRATEGIES}:
        raise PalimpsestError(f"--strategy {load.strategy}: not one of auto, {', '.join(STRATEGIES)}")
    if not 1 <= load.clients <= 64:
        raise PalimpsestError(f"--clients {load.clients}: must be 1 to 64")


def _measure_home(home: Path, memories: int, users: int, kind: Kind, load: QueryLoad) -> HomeReport:
    """Makes a home, serves it and measures it."""
    counts = client_counts(load)
    has_topics = load.strategy == "hierarchical"
    build = synthetic_build(memories, users, kind, len(counts) * REPEATS * QUERIES + WARM_UP, has_topics=has_topics)
    index, scope_memories = write_synthetic_home(home, build, kind), build.sizes[build.largest]
    with serve_synthetic(home, build, load.backend) as graph:
        del build
        figures = query_figures(home, load)
        cold_ms = {"1": figures.first_query_ms}
        cold_ms |= {str(n): first_query_ms(home, replace(load, clients=n)) for n in counts if n != 1}
    return HomeReport(scope_memories, index, graph, figures, figures.clients[str(load.clients)], cold_ms)


def write_synthetic_home(home: Path, build: SyntheticBuild, kind: Kind) -> IndexLoad:
    """Writes a build's index and its questions, and publishes it; returns what that took."""
    from palimpsest.index.write_index import write_index

    meta = {
        "build_id": _BUILD,
        "model_id": "synthetic",
        "strategies": {COLLECTION: AUTO_STRATEGY[kind]},
        "collections": {COLLECTION: {"default": True, "user_id": build.largest}},
    }
    started = time.perf_counter()
    stats = write_index(build.tables, build.lookup, home / "builds" / _BUILD / "index.duckdb", meta)
    seconds = time.perf_counter() - started
    (home / "published.json").write_text(json.dumps({"build": _BUILD}), encoding="utf-8")
    write_questions(home, build.largest, build.queries)
    return IndexLoad(seconds, stats.parts_s, stats.bytes / 2**20)
