"""What retrieval over names, sentences and time costs to index, beside embedding the memories alone.

    python -m palimpsest.eval.studies.index_time FOLDER [--rounds 3]

FOLDER is a suite. Flat is the bare embedder over the memories' texts. A profile adds what strategies beyond `flat` and
`hybrid` need: sentences and their vectors, names and titles, and the whole writing of the index, in which periods and
order are not told apart from the words and vectors that all strategies need: an upper bound. All are measured in turns
within one process, so that a busy machine is as busy for one as for the other.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from palimpsest.build.plan import make_plan, run_without_dagster
from palimpsest.eval.golden.retrieval_run import SearchSettings
from palimpsest.eval.metrics.latency import this_machine
from palimpsest.eval.runs.suite_runs import cache_folder
from palimpsest.eval.suites.run_suite import run_suite
from palimpsest.eval.suites.suite import Suite, load_suite
from palimpsest.eval.suites.suite_collection import write_collection
from palimpsest.query import open_home
from palimpsest.store.builds import Build
from palimpsest.store.home import Home

PROFILES = ("full", "fast")
LIMITS = {"full": 6.0, "fast": 1.5}
MEASURE = "R@5"
_VECTOR = np.eye(1, 384, dtype=np.float32)  # what the index stores takes no longer for being another


@dataclass(frozen=True)
class Took:
    """Seconds of one step: by the clock, and of processor time over all threads."""

    wall_s: float
    cpu_s: float


def timed(run: Callable[[], Any]) -> Took:
    """Runs something once."""
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return Took(time.perf_counter() - wall, time.process_time() - cpu)


def index_time(folder: Path, rounds: int = 3) -> dict[str, Any]:
    """Returns medians of the seconds that embedding alone and each profile's additions take, and their ratios.

    `gain_kept` is the share of what `auto` gains over `hybrid` with the full profile that the fast one keeps; null
    where there is no gain.

    Args:
        folder: a suite.
        rounds: how often each is measured.

    Raises:
        PalimpsestError: the suite is malformed.
    """
    from palimpsest.memories.embed import load_embedder

    suite, embedder = load_suite(folder), load_embedder()
    with tempfile.TemporaryDirectory(prefix="palimpsest-index-time-") as scratch:
        builds, scores = _built(suite, Path(scratch))
        tables = {profile: _tables(build) for profile, build in builds.items()}
        texts = tables["full"]["embed_inputs"]["text"].to_list()
        embedder.encode(texts[:200])
        took: dict[str, list[Took]] = {name: [] for name in ("flat", *PROFILES)}
        for number in range(rounds):
            for name in list(took)[:: 1 if number % 2 == 0 else -1]:
                if name == "flat":
                    took[name].append(timed(lambda: embedder.encode(texts)))
                else:
                    parts = _added(tables[name], name, embedder, Path(scratch))
                    took[name].append(Took(sum(p.wall_s for p in parts), sum(p.cpu_s for p in parts)))
    return _report(suite, took, scores) | {
        "memories": len(texts),
        "rounds": rounds,
        "machine": this_machine().to_json(),
    }


def _built(suite: Suite, scratch: Path) -> tuple[dict[str, Build], dict[str, float]]:
    """Builds a suite in both profiles, over one store of vectors; returns the builds and what each strategy reaches."""
    builds, scores = {}, {}
    for profile in PROFILES:
        corpus = write_collection(suite, scratch / profile)
        for config in corpus.glob("*/collection.yaml"):
            config.write_text(f"{config.read_text(encoding='utf-8')}\nprofile: {profile}\n", encoding="utf-8")
        home = Home(scratch / f"home-{profile}", cache_folder() / "embeddings")
        home.create()
        with home.lock(600):
            builds[profile] = run_without_dagster(home, make_plan(home, [corpus]))
        with open_home(home.path) as reader:
            scores[profile] = run_suite(reader, suite, SearchSettings("auto", 0)).metrics[MEASURE]
            scores["hybrid"] = run_suite(reader, suite, SearchSettings("hybrid", 0)).metrics[MEASURE]
    return builds, scores


def _tables(build: Build) -> dict[str, pl.DataFrame]:
    return build.tables(("documents", "memories", "embed_inputs", "context_inputs", "entities", "mentions"))


def _added(tables: dict[str, pl.DataFrame], profile: str, embedder: Any, scratch: Path) -> list[Took]:
    """Does once more all that a profile adds to embedding the memories; returns what each part took."""
    from palimpsest.entities.collection_shape import strategy_for
    from palimpsest.entities.entity_tables import entity_tables
    from palimpsest.index.write_index import write_index
    from palimpsest.memories.context_inputs import context_inputs
    from palimpsest.store.decisions import Decisions

    memories, documents = tables["memories"], tables["documents"]
    sentences = tables["context_inputs"].filter(pl.col("text_hash").is_not_null()).unique("text_hash")["text"].to_list()

    def vectors(hashes: Sequence[str]) -> np.ndarray:
        return np.broadcast_to(_VECTOR, (len(hashes), 384))

    return [
        timed(lambda: context_inputs(memories, strategy_for(memories), profile == "full")),
        timed(lambda: embedder.encode(sentences)),
        timed(lambda: entity_tables(memories, documents, None, None, Decisions())),
        timed(lambda: write_index(tables, vectors, scratch / "index.duckdb", {"build_id": "000001"})),
    ]


def _report(suite: Suite, took: dict[str, list[Took]], scores: dict[str, float]) -> dict[str, Any]:
    middle = {
        name: {kind: statistics.median(getattr(t, kind) for t in all_of) for kind in ("wall_s", "cpu_s")}
        for name, all_of in took.items()
    }
    ratios = {
        profile: {kind: middle[profile][kind] / middle["flat"][kind] for kind in ("wall_s", "cpu_s")}
        for profile in PROFILES
    }
    gain = scores["full"] - scores["hybrid"]
    return {
        "suite": suite.name,
        "seconds": middle,
        "times_flat": ratios,
        MEASURE: scores,
        "gain_kept": (scores["fast"] - scores["hybrid"]) / gain if gain > 0 else None,
    }


def index_time_text(report: dict[str, Any]) -> str:
    """Returns the figures for people."""
    lines = [
        f"{report['suite']}: {report['memories']} memories, median of {report['rounds']}, load "
        f"{report['machine']['load_1min']:.1f}",
        f"{'':8}{'wall s':>9}{'cpu s':>9}{'times flat':>12}{'in cpu':>9}{'limit':>7}{MEASURE:>8}",
    ]
    for name, at in report["seconds"].items():
        line = f"{name:8}{at['wall_s']:9.2f}{at['cpu_s']:9.2f}"
        if name != "flat":
            ratio = report["times_flat"][name]
            line += f"{ratio['wall_s']:12.2f}{ratio['cpu_s']:9.2f}{LIMITS[name]:7.1f}{report[MEASURE][name]:8.3f}"
        lines.append(line)
    kept = report["gain_kept"]
    told = "no gain to keep" if kept is None else f"fast keeps {100 * kept:.0f} % of the gain"
    return "\n".join([*lines, f"hybrid {report[MEASURE]['hybrid']:.3f}; {told}"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    done = index_time(told.folder, told.rounds)
    sys.stdout.write((json.dumps(done) if told.json else index_time_text(done)) + "\n")
