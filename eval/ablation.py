"""Ablation: the query path built up stage by stage, so that each stage shows what it is worth and what it costs."""

import json
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from eval.significance import loss_probability, paired_interval
from pipelines.build import INDEXED
from pipelines.query.api import Reader, Results, open_index
from pipelines.stages import embedding_store
from pipelines.store.builds import Build
from pipelines.store.home import Home

MEASURE = "R@5"
_TOLD = (MEASURE, "nDCG@10", "packed_recall")


@dataclass(frozen=True)
class Stage:
    """A stage of the query path: what searches are asked with from it on; `dated` says which words were indexed."""

    name: str
    strategy: str
    asked: Mapping[str, Any]
    dated: bool = True


# Each adds one thing to the one before it.
STAGES: tuple[Stage, ...] = (
    Stage("vector", "flat", {"hops": 0, "history": True}),
    Stage("+words", "hybrid", {"hops": 0, "history": True}, dated=False),
    Stage("+date", "hybrid", {"hops": 0, "history": True}),
    Stage("+graph", "hybrid", {"hops": 1, "history": True}),
    Stage("+latest filter", "hybrid", {"hops": 1, "history": False}),
    Stage("auto", "auto", {"hops": 1, "history": False}),
)


@dataclass
class Staged:
    """A reader whose searches are asked as a stage asks them; keeps the time of each, embedding left out."""

    reader: Reader
    asked: Mapping[str, Any]
    took_ms: list[float] = field(default_factory=list)

    def search(self, text: str, scope: Any, **filters: Any) -> Results:
        """Searches; a question that is asked again has its vector from memory, so that is not counted."""
        found = self.reader.search(text, scope, **(dict(self.asked) | filters | _kept(self.asked, filters)))
        self.took_ms.append(found.timings["total_ms"] - found.timings["embed_ms"])
        return found


def _kept(asked: Mapping[str, Any], filters: Mapping[str, Any]) -> dict[str, Any]:
    """What was current on a day is asked without history: that would offer what held at any time."""
    return {"history": False} if filters.get("as_of") else {k: v for k, v in asked.items() if k in filters}


def run_ablation(
    home: Home, build: Build, measure: Callable[[Staged, str, Path], dict[str, Any]], stages: Sequence[Stage] = STAGES
) -> list[dict[str, Any]]:
    """Measures the stages one after the other and returns a row for each.

    A row has the means, `lift` of R@5 over the stage before with its 95 % interval `low`, `high` and `p` (how often
    chance alone gives as much), `p50_ms` and `p95_ms` of searches without embedding, and `cost_ms`, the rise of p50.

    Args:
        home: the home of the suite.
        build: its build.
        measure: runs the suite with (searcher, strategy, file for one JSON line a query); returns its figures.
        stages: what is measured.
    """
    rows: list[dict[str, Any]] = []
    before: dict[str, float] | None = None
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="palimpsest-ablation-")))
        readers = {True: stack.enter_context(open_index(build.index))}
        if not all(s.dated for s in stages):
            readers[False] = stack.enter_context(open_index(_undated(home, build, scratch / "undated.duckdb")))
        for number, stage in enumerate(stages):
            staged, out = Staged(readers[stage.dated], stage.asked), scratch / f"{number}.jsonl"
            figures = measure(staged, stage.strategy, out)
            now = {r["query_id"]: r["metrics"][MEASURE] for r in map(json.loads, out.open(encoding="utf-8"))}
            rows.append(_row(stage, figures, now, before, staged.took_ms, rows[-1] if rows else None))
            before = now
    return rows


def _row(
    stage: Stage, figures: Mapping[str, Any], now: Mapping[str, float], before: Mapping[str, float] | None,
    took_ms: Sequence[float], last: Mapping[str, Any] | None,
) -> dict[str, Any]:  # fmt: skip
    p50, p95 = statistics.median(took_ms), statistics.quantiles(took_ms, n=20, method="inclusive")[-1]
    row: dict[str, Any] = {
        "stage": stage.name, **{m: figures["metrics"][m] for m in _TOLD}, "lift": None, "low": None, "high": None,
        "p": None, "p50_ms": round(p50, 3), "p95_ms": round(p95, 3),
        "cost_ms": round(p50 - last["p50_ms"], 3) if last else round(p50, 3),
    }  # fmt: skip
    if before is not None:
        import numpy as np

        asked = sorted(now)
        old, new = [before[q] for q in asked], [now[q] for q in asked]
        low, high = paired_interval(old, new)
        change = np.round(np.asarray(new) - np.asarray(old), 6)
        chance = min(loss_probability(change), loss_probability(-change))
        row |= {"lift": float(change.mean()), "low": low, "high": high, "p": chance}
    return row


def _undated(home: Home, build: Build, path: Path) -> Path:
    """Writes the index of a build again, with the dates left out of what words search sees."""
    from pipelines.store.index import write_index

    tables = build.tables(INDEXED)
    date = pl.col("observed_at").dt.strftime("\n%-d %B %Y %Y-%m-%d").fill_null("")
    bare = tables["memories"].with_columns(pl.col("search_text").str.strip_suffix(date))
    settings = build.manifest["settings"] | {"build_id": build.build_id}
    write_index(tables | {"memories": bare}, embedding_store(home).vectors, path, settings)
    return path


def ablation_text(suite: str, queries: int, rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns the rows as a table for people."""
    lines = [
        f"{suite}: {queries} queries; lift is of {MEASURE} over the stage before; ms without embedding",
        f"{'stage':16}{'R@5':>8}{'nDCG@10':>9}{'packed':>8}{'lift':>9}{'95 % interval':>20}{'p50 ms':>8}{'cost ms':>9}",
    ]
    for r in rows:
        lift = "" if r["lift"] is None else f"{r['lift']:+.4f}"
        interval = "" if r["lift"] is None else f"{r['low']:+.4f} to {r['high']:+.4f}"
        lines.append(
            f"{r['stage']:16}{r['R@5']:8.4f}{r['nDCG@10']:9.4f}{r['packed_recall']:8.4f}{lift:>9}{interval:>20}"
            f"{r['p50_ms']:8.2f}{r['cost_ms']:+9.2f}"
        )
    return "\n".join(lines)
