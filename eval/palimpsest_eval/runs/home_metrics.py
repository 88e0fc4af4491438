"""The figures of a home in Prometheus' text format: printed, or a file for node_exporter's textfile collector."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import write_bytes
from palimpsest.pipeline.summary import freshness
from palimpsest.store.builds import Build, kept_builds, published
from palimpsest.store.home import Home, data_folder
from palimpsest.store.usage_log import reads_of
from palimpsest_eval.golden.golden_run import TOP, GoldenRun
from palimpsest_eval.golden.questions import (
    JUDGED_TABLES,
    GoldenSet,
    Tables,
    collection_tables,
    load_questions,
    retired_ids,
)
from palimpsest_eval.golden.resolve import resolve
from palimpsest_eval.report.health_page import (
    TABLES,
    BuildNumbers,
    HomeHealth,
    home_health,
    numbers_of,
    proposal_counts,
    read_history,
    record,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Gauge


_LATENCIES = {"p50_ms": "0.5", "p95_ms": "0.95", "p99_ms": "0.99"}
_OWN = {"latest", "retired", "documents", "rejects", "memories", "seconds"}


def metrics_text(home: Home, now: dt.datetime | None = None, *, with_names: bool = True) -> str:
    """Returns the metrics of a home; they come from records of its builds, so that a minute's interval costs little.

    Args:
        home: the home.
        now: the time from which ages are counted; None means now.
        with_names: latencies by collection; else those of the slowest one, without its name.

    Raises:
        PalimpsestError: the home has no published build.
    """
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    _add(_Gauges(registry), home, now or dt.datetime.now(dt.UTC), with_names)
    return generate_latest(registry).decode()


def write_metrics(home: Home, path: Path) -> None:
    """Writes the metrics whole or not at all, as node_exporter needs its files.

    Raises:
        PalimpsestError: the home has no published build, or the path cannot be written.
    """
    text = metrics_text(home)
    try:
        write_bytes(path, text.encode())
        path.chmod(0o644)  # node_exporter is another user
    except OSError as e:
        raise PalimpsestError(f"--out {path}: {e.strerror}; name another") from None


class _Gauges:
    """Gauges by name, each registered once; the labels of one are the same in every call."""

    def __init__(self, registry: "CollectorRegistry"):
        self._registry = registry
        self._made: dict[str, Gauge] = {}

    def set(self, name: str, meaning: str, value: float, **labels: str) -> None:
        """Sets the value of `palimpsest_<name>` with labels."""
        from prometheus_client import Gauge

        if name not in self._made:
            self._made[name] = Gauge(f"palimpsest_{name}", meaning, sorted(labels), registry=self._registry)
        gauge = self._made[name]
        (gauge.labels(**labels) if labels else gauge).set(value)


def _add(gauges: "_Gauges", home: Home, now: dt.datetime, with_names: bool) -> None:
    build, fresh = published(home), freshness(home, now)
    if build is None or fresh is None:
        raise PalimpsestError(f"home {home.path}: it has no published build; run palimpsest build --home {home.path}")
    row = next(r for r in reversed(read_history(home)) if r.build_id == build.build_id)
    manifest = build.manifest
    newest = [b for b in kept_builds(home) if b.is_finished][-1].manifest
    created = dt.datetime.fromisoformat(manifest.created_at)
    gauges.set("build_number", "Number of the published build.", float(int(build.build_id)))
    gauges.set("build_age_seconds", "Since the published build was made.", (now - created).total_seconds())
    gauges.set("confirmed_age_seconds", "Since a run confirmed it.", fresh.hours * 3600)
    gauges.set("overdue", "1 where that is longer than PALIMPSEST_OVERDUE_HOURS.", float(fresh.is_overdue))
    closed = newest.gate.get("status") == "failed" or bool(newest.violations)
    gauges.set("gate_open", "0 where the newest build is kept back.", float(not closed))
    for state in ("latest", "retired"):
        gauges.set("memories", "Memories of the published build.", row.numbers.get(state, 0.0), state=state)
    gauges.set("documents", "Documents of the published build.", row.numbers.get("documents", 0.0))
    gauges.set("rejects", "Sources or lines that could not be read.", row.numbers.get("rejects", 0.0))
    _add_latencies(gauges, manifest.gate.get("metrics", {}), with_names)
    for stage, seconds in sorted(row.seconds.items()):
        gauges.set("stage_seconds", "Wall time in the published build.", seconds, stage=stage)
    for name in sorted(set(row.numbers) - _OWN):
        gauges.set("health", "Numbers of palimpsest health.", row.numbers[name], number=name)


def _add_latencies(gauges: "_Gauges", metrics: Mapping[str, float], with_names: bool) -> None:
    slowest: dict[str, float] = {}
    for name, value in sorted(metrics.items()):
        collection, _, metric = name.rpartition("/")
        if metric in _LATENCIES:
            seconds, labels = value / 1000, {"quantile": _LATENCIES[metric]}
            if with_names:
                labels["collection"] = collection
            else:
                seconds = slowest[metric] = max(seconds, slowest.get(metric, 0.0))
            gauges.set("query_seconds", "Searches of the gate's questions.", seconds, **labels)


# Figures of the months of a collection of a published build: its memories, and how well their questions are answered.

_RECALL = f"R@{TOP}"


@dataclass(frozen=True)
class MonthFigures:
    """Counts of the memories of a month, by `observed_at`, else `valid_from`.

    Attributes:
        memories: all of them.
        latest: those that are true now.
        superseded: those that a newer memory updated, or that a person retired.
        questions: golden questions with evidence in the month that the build was judged by.
        recall: their mean R@5 as the build was judged; None where there are none.
    """

    memories: int
    latest: int
    superseded: int
    questions: int
    recall: float | None


def month_figures(build: Build, collection: str) -> dict[dt.date, MonthFigures]:
    """Returns the figures of each month of a collection that has memories, by its first day, in order.

    Nothing is searched: questions have what the gate measured.
    """
    tables = {name: build.table(collection, name) for name in JUDGED_TABLES}
    dated = tables["memories"].select(
        "memory_id", month=pl.coalesce("observed_at", "valid_from").dt.date().dt.truncate("1mo")
    )
    retired, recalls = retired_ids(tables), _recalls(build, collection, tables)
    found = {}
    for (month,), rows in dated.drop_nulls().sort("month").group_by("month", maintain_order=True):
        memories = frozenset(rows["memory_id"])
        superseded, values = len(memories & retired), [r for needs, r in recalls if memories & needs]
        mean = sum(values) / len(values) if values else None
        found[month] = MonthFigures(len(memories), len(memories) - superseded, superseded, len(values), mean)
    return found


def _recalls(build: Build, collection: str, tables: Tables) -> list[tuple[frozenset[str], float]]:
    """Returns the evidence and R@5 of each question that was judged; none where the questions changed since.

    Questions that were not judged, such as those about what people deleted, are left out.
    """
    raw = (build.manifest.golden_runs or {}).get(collection)
    questions = load_questions(data_folder(), collection) if raw else None
    if raw is None or questions is None:
        return []
    run, user = GoldenRun.from_json(raw), build.manifest.default_user(collection)
    if run.golden_hash != GoldenSet(collection, tuple(questions), user).hash:
        return []
    judged = GoldenSet(collection, tuple(q for q in questions if q.id in run.per_query), user)
    resolved = resolve(judged, collection_tables(tables, collection))
    return [(frozenset().union(*r.needs), run.per_query[r.question.id][_RECALL]) for r in resolved]


# Computes the health of a home, records its numbers and writes its page; command and asset call it.

PAGE = Path("health") / "report.html"


def health_of(home: Home, build: Build | None = None, now: dt.datetime | None = None) -> HomeHealth:
    """Returns the health of a build.

    Args:
        home: the home.
        build: a finished build; None means the published one.
        now: what ages and use are counted from; None means now.

    Raises:
        PalimpsestError: the home has no published build.
    """
    build = build or published(home)
    if build is None:
        raise PalimpsestError(f"home {home.path}: it has no published build; run palimpsest build --home {home.path}")
    tables = build.tables(TABLES)
    before = [row for row in read_history(home) if row.build_id < build.build_id]
    return home_health(
        tables,
        build.collections,
        [*before, numbers_of(home, build)],
        reads_of(home.path, set(tables["memories"]["memory_id"])),
        proposal_counts(home),
        str(build.manifest.gate.get("status", "unjudged")),
        now or dt.datetime.now(dt.UTC),
    )


def record_health(home: Home, now: dt.datetime | None = None) -> HomeHealth:
    """Writes the page of the published build into the home and its numbers into the history; returns its health.

    Raises:
        PalimpsestError: the home has no published build.
    """
    health = health_of(home, now=now)
    last = health.builds[-1]
    record(home, BuildNumbers(last.build_id, last.created_at, health.numbers, last.seconds))
    write_health(health, home.path / PAGE)
    return health


def write_health(health: HomeHealth, path: Path) -> None:
    """Writes the page of a home's health.

    Raises:
        PalimpsestError: the path cannot be written.
    """
    from palimpsest_eval.report.health_page import health_html

    try:
        write_bytes(path, health_html(health).encode())
    except OSError as e:
        raise PalimpsestError(f"--report {path}: {e.strerror}; name another") from None
