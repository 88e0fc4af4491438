"""`palimpsest suite`: a suite in a throw-away home, made once for each content and code, then measured."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from palimpsest.core.code import code_hash
from palimpsest.core.errors import DamagedFile, PalimpsestError
from palimpsest.core.files import say
from palimpsest.core.ids import JsonObject, content_id
from palimpsest.lm.settings import LmSettings
from palimpsest.memories.embedders import space_of
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.pipeline.repair_builds import damaged_settings
from palimpsest.pipeline.repair_home import repair_ledger
from palimpsest.pipeline.stages import STAGES
from palimpsest.pipeline.summary import build_summary
from palimpsest.query.reader import Reader, open_home
from palimpsest.query.readings import READINGS_FILE, Readings
from palimpsest.query.rerank import reader_model
from palimpsest.relations.labelers.choose_labeler import labeler_key
from palimpsest.store.builds import Build, published
from palimpsest.store.embeddings import home_embedder
from palimpsest.store.home import Home
from palimpsest.store.manifest import MANIFEST
from palimpsest.store.remote_home import LOCK
from palimpsest_eval.bench.measure_queries import serve_published
from palimpsest_eval.golden.golden_run import GoldenSearch, by_type, search_golden, time_kind
from palimpsest_eval.golden.questions import JUDGED_TABLES, GoldenError, GoldenSet, load_golden
from palimpsest_eval.golden.retrieval_run import BUDGET_TOKENS, Searcher, SearchSettings, search_queries
from palimpsest_eval.golden.score_golden import score_golden
from palimpsest_eval.metrics import LatencyMs, this_machine
from palimpsest_eval.ragas.ragas_check import RagasSample, golden_samples, suite_samples
from palimpsest_eval.runs.ablation import AUTO, run_ablation
from palimpsest_eval.suites.convert import as_suite
from palimpsest_eval.suites.run_suite import score_suite, suite_queries
from palimpsest_eval.suites.score_benchmark import BENCHMARKS, DEPTH, BenchmarkResult, score_benchmark
from palimpsest_eval.suites.suite import load_suite, suite_digest, write_collection
from palimpsest_eval.suites.suite_result import QueryScores, SuiteResult

# A golden set measured as a suite: its collection built in a throw-away home, searched with any strategy.


def is_golden(path: Path) -> bool:
    """Returns whether a path is a golden set: `<data>/golden/<collection>.jsonl` with `<data>/corpora/<collection>`."""
    return path.suffix == ".jsonl" and path.is_file() and _corpus(path).is_dir()


def _corpus(path: Path) -> Path:
    return path.resolve().parents[1] / "corpora" / path.stem


def golden_home(path: Path, cache: Path, embedder: str | None = None) -> tuple[Home, JsonObject]:
    """Returns a home with the golden set's collection as it is on disk, and its build summary.

    Args:
        path: the golden set.
        cache: folder of the homes.
        embedder: of collections that name none; None means the environment's.
    """
    name = f"golden-{path.stem}" + (f"-{content_id('embedder', embedder)}" if embedder else "")
    home = Home(cache / name, cache / "embeddings", embedder)
    home.create()
    with home.lock(600):
        _remove_faulty(home)
        plan = make_plan(home, [_corpus(path).parent], [path.stem])
        if not plan.nothing_to_do:
            run_without_dagster(home, plan)
    build = published(home)
    assert build is not None
    return home, build_summary(home, build).to_json()


def golden_set_of(build: Build, path: Path) -> GoldenSet:
    """Returns the questions of a file, which are of the collection that it is named after."""
    user = build.manifest.default_user(path.stem)
    return GoldenSet(path.stem, tuple(load_golden(path) or ()), user)


def run_golden_suite(
    reader: Searcher, home: Home, path: Path, settings: SearchSettings, others: Searcher | None = None
) -> tuple[SuiteResult, GoldenSearch]:
    """Searches the questions; returns the figures and the search. Only a golden set has `quality`.

    Args:
        reader: reader of the home.
        home: the home.
        path: the golden set.
        settings: of the searches.
        others: see `search_queries`.

    Raises:
        PalimpsestError: the questions cannot be judged on this build.
    """
    build = published(home)
    assert build is not None
    golden, tables = golden_set_of(build, path), build.tables(JUDGED_TABLES)
    try:
        search = search_golden(reader, golden, tables, settings, others=others)
    except GoldenError as e:
        raise PalimpsestError(f"suite {path}: {e}") from None
    run = score_golden(search, tables)
    if run.leaks:
        raise PalimpsestError(f"suite {path}: {run.leaks[0]}")
    result = SuiteResult(
        suite=golden.collection,
        queries=len(run.per_query),
        unjudged=len(golden.questions) - len(run.per_query),
        strategy=settings.strategy,
        budget_tokens=settings.budget_tokens,
        metrics=run.scores.mean,
        quality=run.quality,
        by_type=by_type(run.per_query, run.types),
        by_time=by_type(run.per_query, {q.id: time_kind(q.question) for q in golden.questions}),
        latency_ms=LatencyMs(**run.latency_ms),
        per_query=tuple(
            QueryScores(q, ranked=tuple(hit.source for hit in run.results[q]), metrics=values)
            for q, values in sorted(run.per_query.items())
        ),
    )
    return result, search


_KEPT_HOMES = 40
__all__ = ["BUDGET_TOKENS", "RagasOptions", "ablate", "cache_folder", "measure", "suite_home"]


@dataclass(frozen=True)
class RagasOptions:
    """How RAGAS judges: always by ids; by the model of PALIMPSEST_LM at most `questions`, for at most `max_cost`."""

    questions: int
    max_cost: float | None = None


def cache_folder() -> Path:
    """Returns the folder of suite homes and their shared vectors: PALIMPSEST_CACHE, else the user's cache folder."""
    import platformdirs

    return Path(os.environ.get("PALIMPSEST_CACHE") or platformdirs.user_cache_dir("palimpsest")) / "suites"


def suite_home(folder: Path, extra: Path | None = None, embedder: str | None = None) -> tuple[Home, JsonObject]:
    """Returns a home with the suite, and its build summary; built where no home has this content and code.

    A home whose build was interrupted, or with a damaged file, is built anew; vectors and paid answers remain.

    Raises:
        PalimpsestError: the suite is malformed; the message names file and line.
    """
    cache = cache_folder()
    used = embedder or home_embedder(Home(cache))
    key = content_id(
        suite_digest(folder, extra),
        space_of(used, cache / "embeddings").name,
        *(stage.code for stage in STAGES.values()),
        labeler_key(),
        code_hash(
            (
                "palimpsest.sources",
                "palimpsest.index.write_index",
                "palimpsest.text.terms",
            )
        ),
    )
    home = Home(cache / f"{folder.resolve().name}-{key}", cache / "embeddings", used)
    if _fault(home) or published(home) is None:
        _forget_old(cache)
        with tempfile.TemporaryDirectory(prefix="palimpsest-suite-") as scratch:
            corpus = write_collection(load_suite(folder, extra), Path(scratch))
            home.create()
            with home.lock(600):
                _remove_faulty(home)
                if published(home) is None:
                    run_without_dagster(home, make_plan(home, [corpus]))
    os.utime(home.path)
    build = published(home)
    assert build is not None
    return home, build_summary(home, build).to_json()


def _fault(home: Home) -> str:
    """Returns why a home must be built anew; empty where it is published and whole, or has nothing yet.

    Files are read only where their size or time of change differs from the manifest's.
    """
    try:
        build = published(home)
        if build is None:
            is_begun = any(path.is_dir() and any(path.iterdir()) for path in (home.builds, home.log))
            return "its build was interrupted" if is_begun else ""
        damaged = [] if build.is_finished else [MANIFEST]
        damaged += [*(path.name for path in damaged_settings(home)), *build.damaged_files()]
    except DamagedFile as e:
        damaged = [e.path.name]
    return f"{damaged[0]} is damaged" if damaged else ""


def _remove_faulty(home: Home) -> None:
    """Removes a home that must be built anew, but for paid answers, and says so; this process has its lock."""
    if not (fault := _fault(home)):
        return
    say(f"suite home {home.path}: {fault}; it is built anew")
    for path in home.path.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != LOCK and not path.name.startswith(home.lm_ledger.name):
            path.unlink()
    home.create()
    for line in repair_ledger(home, 0, allow_lost=True):
        say(line)


def _forget_old(cache: Path) -> None:
    homes = sorted((p for p in cache.glob("*-*") if (p / "builds").is_dir()), key=lambda p: p.stat().st_mtime)
    for old in homes[:-_KEPT_HOMES]:
        shutil.rmtree(old, ignore_errors=True)


def measure(
    folder: Path,
    extra: Path | None,
    strategy: str,
    budget_tokens: int,
    per_query: Path | None,
    backend: str = "duckdb",
    ragas: RagasOptions | None = None,
    embedder: str | None = None,
) -> SuiteResult:
    """Returns the figures of a strategy on a suite, with RAGAS's on demand.

    With `backend` neo4j the suite's home is loaded into the server and dropped from it afterwards.
    """
    judge = _judge_settings(ragas)
    prepared, settings = prepare(folder, extra, embedder), SearchSettings(strategy, budget_tokens)
    with _serve(prepared.home, backend) as (reader, others):
        measured = prepared.measure(reader, settings, others)
        reranker = reader.reranker_name
    if per_query is not None:
        measured.result.write_per_query(per_query)
    checked = None if ragas is None else _ragas_figures(prepared.home, measured.samples(), ragas, judge)
    return replace(measured.result, build=prepared.built, machine=this_machine(), ragas=checked, reranker=reranker)


@contextmanager
def _serve(home: Home, backend: str) -> Iterator[tuple[Reader, Reader]]:
    """Yields a reader of the published build, and one that knows what the reader of answers read of it before."""
    build = published(home)
    assert build is not None
    readings = Readings(reader_model(), build.path / READINGS_FILE)
    with serve_published(home, backend), open_home(home.path, backend, count_reads=False) as reader:
        yield reader, reader.with_readings(readings)
    readings.save(build.path / READINGS_FILE)


def _judge_settings(options: RagasOptions | None) -> LmSettings | None:
    """Returns the model that judges; what is wrong with it is reported before anything is measured."""
    if options is None:
        return None
    from palimpsest_eval.ragas.ragas_lm import judge_settings

    return judge_settings(options.max_cost)


def _ragas_figures(
    home: Home, samples: list[RagasSample], options: RagasOptions, judge: LmSettings | None
) -> JsonObject:
    """Returns RAGAS's figures: `ids`, and where a model is named `lm`; `text` has both for people."""
    from palimpsest_eval.ragas.ragas_check import crosscheck_samples

    ids = crosscheck_samples(samples)
    if judge is None:
        return {"ids": ids.to_json(), "text": ids.text()}
    from palimpsest.lm.client import Ledger
    from palimpsest_eval.ragas.ragas_lm import judge_contexts

    ledger = Ledger(home.lm_ledger)
    try:
        judged = judge_contexts(samples, judge, ledger, options.max_cost, options.questions)
    finally:
        ledger.close()
    return {"ids": ids.to_json(), "text": f"{ids.text()}\n{judged.text()}", "lm": judged.to_json()}


def ablate(
    folder: Path, extra: Path | None, budget_tokens: int, per_query: Path | None, embedder: str | None = None
) -> tuple[SuiteResult, list[JsonObject]]:
    """Returns the figures of `auto` on a suite, and a row for each stage of the query path as it is built up."""
    prepared, results = prepare(folder, extra, embedder), list[SuiteResult]()

    def measure_stage(searcher: Searcher, strategy: str) -> SuiteResult:
        results.append(prepared.measure(searcher, SearchSettings(strategy, budget_tokens), None).result)
        return results[-1]

    build = published(prepared.home)
    assert build is not None
    rows = run_ablation(prepared.home, build, measure_stage)
    if per_query is not None:
        results[AUTO].write_per_query(per_query)
    return replace(results[AUTO], build=prepared.built), rows


@dataclass(frozen=True)
class Measured:
    """Figures of one run of the queries, and what makes the samples that RAGAS judges of the same run."""

    result: SuiteResult
    samples: Callable[[], list[RagasSample]]


@dataclass(frozen=True)
class Prepared:
    """A built home, the summary of its build, and what searches and scores its queries.

    `measure` takes a reader, settings and `others`, as `search_queries` does.
    """

    home: Home
    built: JsonObject
    measure: Callable[[Searcher, SearchSettings, Searcher | None], Measured]


def prepare(folder: Path, extra: Path | None, embedder: str | None = None) -> Prepared:
    """Builds what is named, a golden set or a suite of any known shape, and returns how to measure it.

    Raises:
        PalimpsestError: `extra` is given with a golden set, or the suite is malformed.
    """
    if is_golden(folder):
        if extra:
            raise PalimpsestError(f"--extra {extra}: a golden set is measured on its own collection; drop --extra")
        golden, built = golden_home(folder, cache_folder(), embedder)

        def measure_golden(reader: Searcher, settings: SearchSettings, others: Searcher | None) -> Measured:
            result, search = run_golden_suite(reader, golden, folder, settings, others)
            return Measured(result, lambda: golden_samples(search))

        return Prepared(golden, built, measure_golden)
    folder = as_suite(folder, cache_folder().parent / "converted")
    suite = load_suite(folder, extra)
    home, built = suite_home(folder, extra, embedder)

    def measure_suite(reader: Searcher, settings: SearchSettings, others: Searcher | None) -> Measured:
        run = search_queries(reader, suite_queries(suite), settings, others=others)
        return Measured(score_suite(suite, run), lambda: suite_samples(suite, run))

    return Prepared(home, built, measure_suite)


# `palimpsest benchmark`: a published benchmark's files as a suite in a throw-away home, measured as it defines.


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
    with _serve(home, backend) as (reader, others):
        run = search_queries(reader, suite_queries(suite), settings, others=others)
    result = score_benchmark(suite, run, name, benchmark, cutoffs)
    return replace(result, build=built, machine=this_machine(), embedder=embedder or home_embedder(home))
