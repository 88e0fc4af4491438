"""The scale run: synthetic builds in real indexes, real queries through the real reader, in processes of their own."""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.eval.bench.bench_neo4j import served_synthetic
from palimpsest.eval.bench.budgets import budgets, budgets_text
from palimpsest.eval.bench.plans import from_indexes
from palimpsest.eval.bench.synthetic import COLLECTION, Kind, SyntheticBuild, synthetic_build
from palimpsest.eval.metrics.latency import this_machine
from palimpsest.query import Reader, Scope, open_home

REPEATS, QUERIES, WARM_UP = 3, 100, 10
CLIENTS = (1, 8)  # always measured, beside the number asked for
PLANNED = 50  # questions whose statements are looked at
WALKED = 10_000  # memories of the home whose walks are measured
_PERCENTILES = (50, 95, 99)
_BUILD = "000001"
STRATEGY = {"turns": "turns", "titled": "graph"}  # what `auto` stands for


def run_bench(
    memories: int,
    users: int = 50,
    strategy: str = "hybrid",
    kind: Kind = "turns",
    clients: int = 1,
    backend: str = "duckdb",
    workdir: Path | None = None,
    hops: int = 1,
) -> dict[str, Any]:
    """Measures loading and whole queries (embedding, ranking, packing and citing included) at a scale.

    `scoped` asks the largest of `users` users of Zipf size; `unscoped` a second home whose one user holds all. Each is
    three rounds of a hundred questions, none asked twice; a percentile is the median of the three rounds', and the
    least and most of them are its noise. 1 and 8 clients are measured as well as the number asked for, warm and cold:
    cold is a fresh process whose clients all ask their first question at once, and of those the slowest. `budgets` are
    of the parts of a query: see `palimpsest.eval.bench.budgets`.

    Args:
        memories: in all.
        users: of the first home.
        strategy: of the searches.
        kind: short turns with speakers and dates, or titled passages.
        clients: threads that ask at once.
        backend: where the build is served from.
        workdir: folder for the homes, removed with them; None means the system's.
        hops: links to follow from the best.

    Raises:
        PalimpsestError: an argument is out of range.
        ComponentFailed: a measuring process failed.
    """
    from palimpsest.query.ranking.rank import STRATEGIES

    if backend not in ("duckdb", "neo4j"):
        raise PalimpsestError(f"--backend {backend}: not one of duckdb, neo4j")
    if strategy not in {"auto", *STRATEGIES}:
        raise PalimpsestError(f"--strategy {strategy}: not one of auto, {', '.join(STRATEGIES)}")
    if not 1 <= clients <= 64:
        raise PalimpsestError(f"--clients {clients}: must be 1 to 64")
    if workdir is not None:
        workdir.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {
        "memories": memories,
        "users": users,
        "kind": kind,
        "strategy": strategy,
        "clients": clients,
        "hops": hops,
        "backend": backend,
        "machine": this_machine().to_json(),
    }
    homes, ask = {}, Asking(strategy, clients, backend, hops)
    with tempfile.TemporaryDirectory(prefix="palimpsest-bench-", dir=workdir) as folder:
        for name, owners in (("scoped", users), ("unscoped", 1)):
            homes[name] = _home(Path(folder) / name, memories, owners, kind, ask)
        walked = _home(Path(folder) / "walk", min(memories, WALKED), 1, "titled", Asking("graph", 1, backend, 2))
    return report | _summary(memories, homes) | {"budgets": _rounded(budgets(homes, walked))}


def _home(home: Path, memories: int, owners: int, kind: Kind, ask: "Asking") -> dict[str, Any]:
    """Makes a home, serves and measures it; returns all that was measured."""
    asked = len({ask.clients, *CLIENTS}) * REPEATS * QUERIES + WARM_UP
    build = synthetic_build(memories, owners, kind, asked)
    told = _load(home, build, kind) | {"scope_memories": build.sizes[build.largest]}
    with served_synthetic(home, build, ask.backend) as loaded:
        del build
        told |= loaded
        told |= _measured(home, ask)
        told["cold_ms"] = _cold(home, ask, told["first_query_ms"])
    return told


def bench_text(report: dict[str, Any]) -> str:
    """Returns a bench's figures as a small table for people."""
    machine, load = report["machine"], report["load"]
    lines = [
        f"{report['memories']} memories as {report['kind']}, {report['strategy']}, {report['hops']} hop(s), "
        f"{report['clients']} client(s), {report['backend']}; {machine['cpus']} x {machine['cpu']}, "
        f"load {machine['load_1min']:.1f}",
        f"load    {load['nodes_per_s']:.0f} memories/s, {load['index_s']:.1f} s, {report['disk_mib']:.0f} MiB on disk",
    ]
    lines += [
        f"reload  nothing changed: {home['reload']['writes']} writes, {home['reload']['seconds']:.1f} s ({name})"
        for name, home in report["homes"].items()
        if "reload" in home
    ]
    lines.append(f"{'ms':8}{'memories':>10}{'p50':>8}{'p95':>8}{'p99':>8}{'first':>8}{'open':>8}")
    for name, home in report["homes"].items():
        told = [
            *(report["latency_ms"][name][p] for p in ("p50", "p95", "p99")),
            home["first_query_ms"],
            home["open_ms"],
        ]
        lines.append(f"{name:8}{home['scope_memories']:10}" + "".join(f"{ms:8.1f}" for ms in told))
    lines.append(f"{'p95 ms':8}{'clients':>10}" + "".join(f"{step.removesuffix('_ms'):>8}" for step in _steps(report)))
    for name, home in report["homes"].items():
        for count, at in home["clients"].items():
            low, high = at["spread_ms"]["p95"]
            lines.append(
                f"{name:8}{count:>10}"
                + "".join(f"{at['steps_ms'][s]['p95']:8.1f}" for s in _steps(report))
                + f"  rounds {low:.1f} to {high:.1f}, cpu {at['cpu_ms']:.1f}, first {home['cold_ms'][count]:.0f}"
            )
    lines += budgets_text(report["budgets"])
    return "\n".join([*lines, f"peak memory of the querying process {report['rss_mib']:.0f} MiB"])


def _steps(report: dict[str, Any]) -> list[str]:
    return list(next(iter(report["homes"].values()))["steps_ms"])


def _load(home: Path, build: SyntheticBuild, kind: Kind) -> dict[str, Any]:
    """Writes and publishes the home of a build; returns what loading took."""
    from palimpsest.index.write_index import write_index

    index = home / "builds" / _BUILD / "index.duckdb"
    meta = {
        "build_id": _BUILD,
        "model_id": "synthetic",
        "strategies": {COLLECTION: STRATEGY[kind]},
        "collections": {COLLECTION: {"default": True, "user_id": build.largest}},
    }
    started = time.perf_counter()
    stats = write_index(build.tables, build.lookup, index, meta)
    seconds = time.perf_counter() - started
    (home / "published.json").write_text(json.dumps({"build": _BUILD}), encoding="utf-8")
    (home / "queries.json").write_text(json.dumps([build.largest, build.queries]), encoding="utf-8")
    return {"index_s": seconds, "index_parts_s": stats.parts_s, "disk_mib": stats.bytes / 2**20}


def _cold(home: Path, ask: "Asking", alone_ms: float) -> dict[str, float]:
    """Returns the slowest first answer by number of clients, each number in a fresh process."""
    counts = sorted({ask.clients, *CLIENTS} - {1})
    return {"1": alone_ms} | {
        str(n): _measured(home, replace(ask, clients=n), "--first")["first_query_ms"] for n in counts
    }


def _measured(home: Path, ask: "Asking", *more: str) -> dict[str, Any]:
    """Runs `measure` in a fresh process, so that memory and first query are the reader's own."""
    command = [sys.executable, "-m", "palimpsest.eval.bench.scale", str(home), "--strategy", ask.strategy]
    command += ["--clients", str(ask.clients), "--backend", ask.backend, "--hops", str(ask.hops), *more]
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ComponentFailed(f"bench: the measuring process failed: {last}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


@dataclass(frozen=True)
class Asking:
    """How a bench asks: the strategy, how many at once, where the build is served from, and links to follow."""

    strategy: str = "hybrid"
    clients: int = 1
    backend: str = "duckdb"
    hops: int = 1


def measure(home: Path, ask: Asking, first_only: bool = False) -> dict[str, Any]:
    """Opens a home and asks it the questions that lie beside it; returns latencies by clients, first query, memory.

    With `first_only` every client asks one question, all at once, and the slowest is what is returned. Last come a few
    questions whose statements are looked at: how many of them scan nothing.
    """
    from palimpsest.query.embed_query import query_embedder

    user, queries = json.loads((home / "queries.json").read_text(encoding="utf-8"))
    scope = Scope(COLLECTION, user)
    started = time.perf_counter()
    reader = open_home(home, ask.backend)
    query_embedder()
    opened_ms = (time.perf_counter() - started) * 1000
    if first_only:
        with ThreadPoolExecutor(ask.clients) as pool:
            took = pool.map(lambda text: _ask(reader, scope, ask, text)[0], queries[: ask.clients])
            return {"first_query_ms": max(took)}
    first_ms, _ = _ask(reader, scope, ask, queries[0])
    for text in queries[1:WARM_UP]:
        _ask(reader, scope, ask, text)
    told, asked_once = {}, queries[WARM_UP:]
    wanted = sorted({ask.clients, *CLIENTS})
    share = len(asked_once) // len(wanted)
    for i, count in enumerate(wanted):
        texts = asked_once[i * share : (i + 1) * share]
        told[str(count)] = _rounds(reader, scope, ask, texts, count)
    reader.close()
    peak_mib = _peak_mib()
    scanned = from_indexes(
        home, ask.backend, scope, queries[: WARM_UP + PLANNED], WARM_UP, strategy=ask.strategy, hops=ask.hops
    )
    return told[str(ask.clients)] | {
        "open_ms": opened_ms,
        "first_query_ms": first_ms,
        "clients": told,
        "rss_mib": peak_mib,
        "from_indexes": scanned,
    }


def _rounds(reader: Reader, scope: Scope, ask: Asking, texts: Sequence[str], clients: int) -> dict[str, Any]:
    """Asks the texts in rounds; returns percentiles of whole queries and of their steps, and the spread over rounds.

    `cpu_ms` is the processor time of one query, the median of the rounds' means: what a busy machine makes no longer.
    """
    rounds, cpu_ms = [], []
    steps: list[dict[str, float]] = []
    each = len(texts) // REPEATS
    for r in range(REPEATS):
        used = time.process_time()
        with ThreadPoolExecutor(clients) as pool:
            asked = list(pool.map(lambda text: _ask(reader, scope, ask, text), texts[r * each : (r + 1) * each]))
        cpu_ms.append((time.process_time() - used) * 1000 / max(1, each))
        rounds.append([float(p) for p in np.percentile([ms for ms, _ in asked], _PERCENTILES)])
        steps += [timings for _, timings in asked]
    names = [f"p{p}" for p in _PERCENTILES]
    return {
        "latency_ms": {name: statistics.median(r[i] for r in rounds) for i, name in enumerate(names)},
        "spread_ms": {name: [min(r[i] for r in rounds), max(r[i] for r in rounds)] for i, name in enumerate(names)},
        "cpu_ms": statistics.median(cpu_ms),
        "steps_ms": {
            step: dict(zip(names, np.percentile([s[step] for s in steps], _PERCENTILES).tolist(), strict=True))
            for step in steps[0]
        },
    }


def _peak_mib() -> float:
    """Returns the most memory this process held; `getrusage` would count what its parent held when it was forked."""
    status = Path("/proc/self/status")
    if status.exists():
        told = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        if "VmHWM" in told:
            return int(told["VmHWM"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _ask(reader: Reader, scope: Scope, ask: Asking, text: str) -> tuple[float, dict[str, float]]:
    started = time.perf_counter()
    found = reader.search(text, scope, strategy=ask.strategy, hops=ask.hops)
    took_ms = (time.perf_counter() - started) * 1000
    if not found.memories or "[memory:" not in found.context:
        raise ComponentFailed(f"bench: no answer to {text!r}")
    return took_ms, found.timings


def _summary(memories: int, homes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    index_s = max(h["index_s"] for h in homes.values())
    rounded = {name: {k: _rounded(v) for k, v in h.items() if k != "latency_ms"} for name, h in homes.items()}
    return {
        "load": {
            "nodes_per_s": round(min(h.get("nodes_per_s", memories / index_s) for h in homes.values()), 1),
            "index_s": round(max(h.get("graph_index_s", index_s) for h in homes.values()), 3),
        },
        "latency_ms": {name: _rounded(h["latency_ms"]) for name, h in homes.items()},
        "rss_mib": round(max(h["rss_mib"] for h in homes.values()), 1),
        "disk_mib": round(max(h["disk_mib"] for h in homes.values()), 1),
        "homes": rounded,
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    return round(value, 3) if isinstance(value, float) else value


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="measures one home; run_bench starts it")
    parser.add_argument("home", type=Path)
    parser.add_argument("--strategy", default="hybrid")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--backend", default="duckdb")
    parser.add_argument("--hops", type=int, default=1)
    parser.add_argument("--first", action="store_true")
    told = parser.parse_args()
    asking = Asking(told.strategy, told.clients, told.backend, told.hops)
    sys.stdout.write(json.dumps(measure(told.home, asking, told.first)) + "\n")
