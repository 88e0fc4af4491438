"""Ablation: the query path built up stage by stage, so that each stage shows its lift and its cost."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from palimpsest.core.ids import JsonObject
from palimpsest.memories.embedders import indexed_spaces
from palimpsest.memories.recency import own_clock
from palimpsest.pipeline.stages import indexed_tables
from palimpsest.query.reader import Reader, open_index
from palimpsest.query.request.strategies import Weights, resolve_strategy
from palimpsest.query.result import SearchResult
from palimpsest.store.builds import Build
from palimpsest.store.home import Home
from palimpsest_eval.metrics import loss_probability, paired_interval
from palimpsest_eval.suites.suite_result import SuiteResult

MEASURE = "R@5"
_SAMPLE, _ROUNDS, _SEED = 100, 3, 20240229
_CHOSEN = ("dated", "turns", "statements", "graph")  # what `auto` may resolve to
_REPORTED = (MEASURE, "nDCG@10", "packed_recall")


@dataclass(frozen=True)
class Stage:
    """A stage of the query path.

    Attributes:
        name: its name in the table.
        strategy: the strategy it is measured as.
        arguments: of every search, from this stage on.
        dated: whether the indexed words include dates.
        over: name of the stage that it is compared with; empty means the one before.
        changed: weights that differ from those of the strategy.
    """

    name: str
    strategy: str
    arguments: Mapping[str, Any]
    dated: bool = True
    over: str = ""
    changed: Mapping[str, Any] = field(default_factory=dict)


# Each adds one thing to the one before it, or to the one that `over` names; `words` and `rrf` are for comparison, and
# those with a minus are `auto` without one part.
STAGES: tuple[Stage, ...] = (
    Stage("vector", "flat", {"hops": 0, "history": True}),
    Stage("+words", "hybrid", {"hops": 0, "history": True}, dated=False),
    Stage("+date", "hybrid", {"hops": 0, "history": True}),
    Stage("words", "words", {"hops": 0, "history": True}, over="vector"),
    Stage("rrf", "rrf", {"hops": 0, "history": True, "strategy": Weights(graph=0.0, fusion="ranks")}, over="+date"),
    Stage("+graph", "hybrid", {"hops": 1, "history": True}, over="+date"),
    Stage("+latest filter", "hybrid", {"hops": 1, "history": False}),
    Stage("hierarchical", "hierarchical", {"hops": 1, "history": False}),
    *(Stage(name, name, {"hops": 1, "history": False}, over="+latest filter") for name in _CHOSEN),
    Stage("auto", "auto", {"hops": 1, "history": False}, over="+latest filter"),
    Stage("-windows", "auto", {"hops": 1, "history": False}, over="auto", changed={"windows": False}),
    Stage("-quotes", "auto", {"hops": 1, "history": False, "compress": "none"}, over="auto"),
    Stage("-roles", "auto", {"hops": 1, "history": False}, over="auto", changed={"chat": None}),
)
AUTO = [stage.name for stage in STAGES].index("auto")
"""The number of the stage that a suite reports."""


@dataclass
class StageReader:
    """A reader whose searches have the arguments of a stage, and the calls it got."""

    reader: Reader
    arguments: Mapping[str, Any]
    changed: Mapping[str, Any] = field(default_factory=dict)
    calls: list[tuple[str, Any, dict[str, Any]]] = field(default_factory=list)

    def search(self, text: str, scope: Any, **filters: Any) -> SearchResult:
        """Searches with the stage's arguments."""
        self.calls.append((text, scope, filters))
        arguments = dict(self.arguments) | filters | _overriding(self.arguments, filters)
        if self.changed:
            collection = self.reader.backend.collections().get(scope.collection)
            _, weights = resolve_strategy(arguments["strategy"], collection)
            arguments["strategy"] = replace(weights, **self.changed)
        return self.reader.search(text, scope, **arguments)


def _overriding(arguments: Mapping[str, Any], filters: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the stage's arguments that replace filters; a search as of a day has no history, which has any time."""
    found = {k: v for k, v in arguments.items() if k in filters}
    return found | {"history": False} if filters.get("as_of") else found


def run_ablation(
    home: Home, build: Build, measure: Callable[[StageReader, str], SuiteResult], stages: Sequence[Stage] = STAGES
) -> list[JsonObject]:
    """Measures the stages one after the other and returns a row for each.

    A row has the means, `lift` of R@5 over the stage it is compared with, its 95 % interval `low`, `high` and `p` (how
    often chance alone gives as much), `p50_ms` of searches without embedding, `cost_ms`, the median rise over it
    for the same question, and `noise_ms`, the spread of that over rounds.

    Args:
        home: the home of the suite.
        build: its build.
        measure: runs the suite with (searcher, strategy).
        stages: what is measured.
    """
    rows: list[JsonObject] = []
    arms: list[StageReader] = []
    values: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="palimpsest-ablation-")))
        readers = {True: stack.enter_context(open_index(build.index))}
        if not all(s.dated for s in stages):
            readers[False] = stack.enter_context(
                open_index(_write_undated_index(home, build, scratch / "undated.duckdb"))
            )
        for number, stage in enumerate(stages):
            staged = StageReader(readers[stage.dated], stage.arguments, stage.changed)
            result = measure(staged, stage.strategy)
            now = result.values(MEASURE)
            base = _base(stages, number)
            rows.append(_row(stage, result.metrics, now, values[stages[base].name] if base is not None else None))
            arms.append(staged)
            values[stage.name] = now
        bases = [_base(stages, n) for n in range(len(stages))]
        return [{**row, **cost} for row, cost in zip(rows, _costs(arms, bases), strict=True)]


def _base(stages: Sequence[Stage], number: int) -> int | None:
    """Returns the number of the stage that this one is compared with."""
    names = [s.name for s in stages[:number]]
    over = stages[number].over
    return names.index(over) if over in names else number - 1 if number else None


def _costs(arms: Sequence[StageReader], bases: Sequence[int | None]) -> list[dict[str, float]]:
    """Searches a sample with every stage in turn, so that a busy machine is as busy for one as for all."""
    sample = sorted({(c[0], repr(c[1])): n for n, c in enumerate(arms[0].calls)}.values())
    sample = sorted(np.random.default_rng(_SEED).permutation(sample)[:_SAMPLE].tolist())
    rounds = []
    for _ in range(_ROUNDS):
        took = np.zeros((len(sample), len(arms)))
        for i, n in enumerate(sample):
            for a, arm in enumerate(arms):
                text, scope, _ = arms[0].calls[n]
                timings = arm.search(text, scope, **arm.calls[n][2]).timings
                took[i, a] = timings["total_ms"] - timings["embed_ms"]
        rounds.append(took)
    best = np.median(np.stack(rounds), axis=0)

    def median_rise(took: np.ndarray) -> np.ndarray:
        base_ms = [np.zeros(len(took)) if base is None else took[:, base] for base in bases]
        rise: np.ndarray = np.median(took - np.stack(base_ms, axis=1), axis=0)
        return rise

    rises, rise = [median_rise(took) for took in rounds], median_rise(best)
    return [
        {
            "p50_ms": round(float(np.median(best[:, a])), 3),
            "cost_ms": round(float(rise[a]), 3),
            "noise_ms": round(float(np.ptp([r[a] for r in rises])), 3),
        }
        for a in range(len(arms))
    ]


def _row(
    stage: Stage, metrics: Mapping[str, float], now: Mapping[str, float], before: Mapping[str, float] | None
) -> JsonObject:
    row: JsonObject = {
        "stage": stage.name,
        **{m: metrics[m] for m in _REPORTED},
        "lift": None,
        "low": None,
        "high": None,
        "p": None,
    }
    if before is not None:
        queries = sorted(now)
        old, new = [before[q] for q in queries], [now[q] for q in queries]
        low, high = paired_interval(old, new)
        change = np.round(np.asarray(new) - np.asarray(old), 6)
        chance = min(loss_probability(change), loss_probability(-change))
        row |= {"lift": float(change.mean()), "low": low, "high": high, "p": chance}
    return row


def _write_undated_index(home: Home, build: Build, path: Path) -> Path:
    """Writes the index of a build again, without dates in the text that word search reads."""
    from palimpsest.index.write_index import write_index

    tables = build.tables(indexed_tables())
    date = own_clock().dt.strftime("\n%-d %B %Y %Y-%m-%d").fill_null("")
    bare = tables["memories"].with_columns(pl.col("search_text").str.strip_suffix(date))
    settings = build.manifest.settings | {"build_id": build.build_id}
    write_index(tables | {"memories": bare}, indexed_spaces(home, build), path, settings)
    return path


def ablation_text(suite: str, queries: int, rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns the rows as a table for people."""
    lines = [
        f"{suite}: {queries} queries; lift is of {MEASURE} over the stage before; of words over vector, of rrf and "
        "+graph over +date, the plain sum of z-scores; from hierarchical to auto over +latest filter, after it over "
        "auto; ms without embedding",
        f"{'stage':16}{'R@5':>8}{'nDCG@10':>9}{'packed':>8}{'lift':>9}{'95 % interval':>20}{'p50 ms':>8}{'cost ms':>9}"
        f"{'noise':>7}",
    ]
    for r in rows:
        lift = "" if r["lift"] is None else f"{r['lift']:+.4f}"
        interval = "" if r["lift"] is None else f"{r['low']:+.4f} to {r['high']:+.4f}"
        lines.append(
            f"{r['stage']:16}{r['R@5']:8.4f}{r['nDCG@10']:9.4f}{r['packed_recall']:8.4f}{lift:>9}{interval:>20}"
            f"{r['p50_ms']:8.2f}{r['cost_ms']:+9.2f}{r['noise_ms']:7.2f}"
        )
    return "\n".join(lines)
