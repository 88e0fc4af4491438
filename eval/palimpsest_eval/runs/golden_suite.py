"""A golden set measured as a suite: its collection built in a throw-away home, searched with any strategy."""

from pathlib import Path

from palimpsest.build.plan import make_plan
from palimpsest.build.publish import run_without_dagster
from palimpsest.build.summary import build_summary
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import content_id
from palimpsest.core.json_types import JsonObject
from palimpsest.store.builds import Build, published
from palimpsest.store.home import Home
from palimpsest_eval.golden.build_tables import JUDGED_TABLES
from palimpsest_eval.golden.golden_run import by_type, time_kind
from palimpsest_eval.golden.questions import GoldenError, GoldenSet, load_golden
from palimpsest_eval.golden.retrieval_run import Searcher, SearchSettings
from palimpsest_eval.golden.score_golden import score_golden
from palimpsest_eval.golden.search_golden import GoldenSearch, search_golden
from palimpsest_eval.metrics.latency import LatencyMs
from palimpsest_eval.suites.suite_result import QueryScores, SuiteResult


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
    reader: Searcher, home: Home, path: Path, settings: SearchSettings
) -> tuple[SuiteResult, GoldenSearch]:
    """Searches the questions; returns the figures and the search. Only a golden set has `quality`.

    Args:
        reader: reader of the home.
        home: the home.
        path: the golden set.
        settings: of the searches.

    Raises:
        PalimpsestError: the questions cannot be judged on this build.
    """
    build = published(home)
    assert build is not None
    golden, tables = golden_set_of(build, path), build.tables(JUDGED_TABLES)
    try:
        search = search_golden(reader, golden, tables, settings)
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
