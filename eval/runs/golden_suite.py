"""A golden set measured as a suite: its collection built in a throw-away home, its questions asked by any strategy."""

from pathlib import Path
from typing import Any

from palimpsest.build.plan import make_plan, run_without_dagster, summary
from palimpsest.core.errors import PalimpsestError
from palimpsest.eval.golden.by_type import by_type, time_kind
from palimpsest.eval.golden.golden_run import Searcher, run_golden
from palimpsest.eval.golden.questions import load_golden
from palimpsest.eval.metrics.latency import LatencyMs
from palimpsest.eval.ragas.asked import Asked, asked_of_golden
from palimpsest.eval.suites.suite_result import QueryScores, SuiteResult
from palimpsest.store.builds import Build, published
from palimpsest.store.home import Home

JUDGED = ("documents", "document_texts", "memories", "versions")


def is_golden(path: Path) -> bool:
    """Tells whether a path is a golden set: `<data>/golden/<collection>.jsonl` beside `<data>/corpora/<collection>`."""
    return path.suffix == ".jsonl" and path.is_file() and _corpus(path).is_dir()


def _corpus(path: Path) -> Path:
    return path.resolve().parents[1] / "corpora" / path.stem


def golden_home(path: Path, cache: Path) -> tuple[Home, dict[str, Any]]:
    """Returns a home that holds the golden set's collection as it is on disk, and its build summary."""
    home = Home(cache / f"golden-{path.stem}", cache / "embeddings")
    home.create()
    with home.lock(600):
        plan = make_plan(home, [_corpus(path).parent], [path.stem])
        if not plan.nothing_to_do:
            run_without_dagster(home, plan)
    build = published(home)
    assert build is not None
    return home, summary(home, build)


def run_golden_suite(reader: Searcher, home: Home, path: Path, strategy: str, budget_tokens: int) -> SuiteResult:
    """Asks the questions and returns the figures; `quality` holds what only a golden set can tell.

    Args:
        reader: reader of the home.
        home: the home.
        path: the golden set.
        strategy: strategy of the searches.
        budget_tokens: budget of the packed context.

    Raises:
        PalimpsestError: the questions cannot be judged on this build.
    """
    build, name, user = _asked_of(home, path)
    questions = load_golden(path) or []
    run = run_golden(
        reader,
        questions,
        build.tables(JUDGED),
        name,
        user,
        strategy=strategy,
        budget_tokens=budget_tokens,
    )
    if run.errors or run.leaks:
        raise PalimpsestError(f"suite {path}: {[*run.errors, *run.leaks][0]}")
    return SuiteResult(
        suite=name,
        queries=len(run.per_query),
        unjudged=len(questions) - len(run.per_query),
        strategy=strategy,
        budget_tokens=budget_tokens,
        metrics=run.scores.mean,
        quality=run.quality,
        by_type=by_type(run.per_query, run.types),
        by_time=by_type(run.per_query, {q.id: time_kind(q.question) for q in questions}),
        latency_ms=LatencyMs(**run.latency_ms),
        per_query=tuple(
            QueryScores(q, ranked=tuple(hit.source for hit in run.results[q]), metrics=values)
            for q, values in sorted(run.per_query.items())
        ),
    )


def ask_golden(reader: Searcher, home: Home, path: Path, strategy: str, budget_tokens: int) -> list[Asked]:
    """Asks the answerable questions again and returns what a judge of contexts needs of each."""
    build, name, user = _asked_of(home, path)
    return asked_of_golden(
        reader,
        load_golden(path) or [],
        build.tables(JUDGED),
        name,
        user,
        strategy=strategy,
        budget_tokens=budget_tokens,
    )


def _asked_of(home: Home, path: Path) -> tuple[Build, str, str]:
    """Returns the published build, the collection, and whose questions those are that name no user."""
    build = published(home)
    assert build is not None
    return build, path.stem, build.manifest["settings"]["collections"][path.stem].get("user_id") or ""
