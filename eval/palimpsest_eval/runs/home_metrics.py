"""The figures of a home in Prometheus' text format: printed, or a file for node_exporter's textfile collector."""

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from palimpsest.build.freshness import freshness
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import write_bytes
from palimpsest.store.builds import kept, published
from palimpsest.store.home import Home
from palimpsest_eval.health.history import read_history

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
    newest = [b for b in kept(home) if b.is_finished][-1].manifest
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
