"""`palimpsest benchmark`: a published benchmark's files as a suite in a throw-away home, measured as it defines."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from palimpsest.query.reader import open_home
from palimpsest.store.embedder_setting import home_embedder
from palimpsest_eval.bench.bench_neo4j import serve_published
from palimpsest_eval.golden.retrieval_run import SearchSettings, search_queries
from palimpsest_eval.metrics.latency import this_machine
from palimpsest_eval.runs.suite_runs import cache_folder, suite_home
from palimpsest_eval.suites.benchmarks.benchmarks import BENCHMARKS
from palimpsest_eval.suites.benchmarks.score_benchmark import DEPTH, BenchmarkResult, score_benchmark
from palimpsest_eval.suites.loaders import as_suite
from palimpsest_eval.suites.run_suite import suite_queries
from palimpsest_eval.suites.suite import load_suite


def measure_benchmark(
    name: str,
    path: Path,
    strategy: str = "auto",
    cutoffs: Sequence[int] = (),
    embedder: str | None = None,
    backend: str = "duckdb",
) -> BenchmarkResult:
    """Returns the figures of a strategy on a benchmark.

    Args:
        name: a name in `BENCHMARKS`.
        path: its file or folder, or a suite that was made of it.
        strategy: strategy of the searches.
        cutoffs: replace the benchmark's own, at most `DEPTH`; none means these.
        embedder: of the vectors; None means the environment's.
        backend: what is searched; with `neo4j` the home is loaded into the server and dropped from it afterwards.

    Raises:
        PalimpsestError: the file or folder is not the benchmark's; the message names it and the field.
    """
    benchmark = BENCHMARKS[name]
    folder = as_suite(path, cache_folder().parent / "converted", benchmark.data_set)
    suite = load_suite(folder)
    home, built = suite_home(folder, embedder=embedder)
    settings = SearchSettings(strategy, budget_tokens=0, depth=DEPTH)
    with serve_published(home, backend), open_home(home.path, backend, count_reads=False) as reader:
        run = search_queries(reader, suite_queries(suite), settings)
    result = score_benchmark(suite, run, name, benchmark, cutoffs)
    return replace(result, build=built, machine=this_machine(), embedder=embedder or home_embedder(home))
