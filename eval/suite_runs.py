"""`palimpsest suite`: a suite in a throw-away home, made once for each content and code, then measured."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from eval.bench_neo4j import served
from eval.suites import load_suite, materialise, run_suite, suite_digest
from pipelines.build import make_plan, run_without_dagster, summary
from pipelines.code import code_hash
from pipelines.query.api import open_home
from pipelines.stages import STAGES
from pipelines.store.builds import published
from pipelines.store.home import Home
from pipelines.store.ids import content_id

_KEPT_HOMES = 40


def cache_folder() -> Path:
    """Returns where suite homes and their shared vectors lie: PALIMPSEST_CACHE, else the user's cache folder."""
    import platformdirs

    return Path(os.environ.get("PALIMPSEST_CACHE") or platformdirs.user_cache_dir("palimpsest")) / "suites"


def suite_home(folder: Path, extra: Path | None = None) -> tuple[Home, dict[str, Any]]:
    """Returns a home that holds the suite, and its build summary; built where no home has this content and code.

    Raises:
        PalimpsestError: the suite is malformed; the message names file and line.
    """
    modules = sorted({m for s in STAGES.values() for m in s.modules})
    key = content_id(
        suite_digest(folder, extra),
        code_hash((*modules, "pipelines.corpus", "pipelines.store.index", "pipelines.query.words")),
    )
    cache = cache_folder()
    home = Home(cache / f"{folder.resolve().name}-{key}", cache / "embeddings")
    if published(home) is None:
        shutil.rmtree(home.path, ignore_errors=True)
        _forget_old(cache)
        with tempfile.TemporaryDirectory(prefix="palimpsest-suite-") as scratch:
            corpus = materialise(load_suite(folder, extra), Path(scratch))
            home.create()
            with home.lock(600):
                if published(home) is None:
                    run_without_dagster(home, make_plan(home, [corpus]))
    os.utime(home.path)
    build = published(home)
    assert build is not None
    return home, summary(home, build)


def _forget_old(cache: Path) -> None:
    homes = sorted((p for p in cache.glob("*-*") if (p / "builds").is_dir()), key=lambda p: p.stat().st_mtime)
    for old in homes[:-_KEPT_HOMES]:
        shutil.rmtree(old, ignore_errors=True)


def measure(
    folder: Path, extra: Path | None, strategies: list[str], budget_tokens: int, per_query: Path | None,
    backend: str = "duckdb",
) -> list[dict[str, Any]]:  # fmt: skip
    """Returns the figures of each strategy on a suite, as `suite --json` prints them.

    With `backend` neo4j the suite's home is loaded into the server and dropped from it afterwards.
    """
    suite = load_suite(folder, extra)
    home, built = suite_home(folder, extra)
    done = []
    with served(home, backend), open_home(home.path, backend) as reader:
        for strategy in strategies:
            figures = run_suite(reader, suite, strategy, budget_tokens, per_query)
            done.append(figures | {"strategy": strategy, "build": built})
    return done


def text(done: list[dict[str, Any]]) -> str:
    """Returns the figures as a small table, a row for each strategy."""
    names = sorted({m for d in done for m in d["metrics"]})
    head = " ".join(f"{n:>13}" for n in [*names, "p95_ms"])
    figures = [[*(d["metrics"].get(n, float("nan")) for n in names), d["latency_ms"]["p95"]] for d in done]
    rows = [
        f"{d['strategy']:10}" + " ".join(f"{v:13.4f}" for v in values) for d, values in zip(done, figures, strict=True)
    ]
    return "\n".join([f"{done[0]['suite']}: {done[0]['queries']} queries", f"{'':10}{head}", *rows])
