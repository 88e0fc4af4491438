"""What retrieval over names, sentences and time costs to index, compared with embedding the memories alone.

    python -m palimpsest_eval.studies.index_time FOLDER [--rounds 3]

FOLDER is a suite. Flat is the bare embedder over the memories' texts. A profile adds what strategies beyond `flat` and
`hybrid` need: sentences and their vectors, names and titles, and all of writing the index, whose periods and order are
not timed apart from the words and vectors that all strategies need: an upper bound. All are measured in turns within
one process, so that a busy machine is as busy for one as for the other.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from palimpsest.build.plan import make_plan
from palimpsest.build.publish import run_without_dagster
from palimpsest.core.json_types import JsonObject
from palimpsest.query import open_home
from palimpsest.store.builds import Build
from palimpsest.store.home import Home
from palimpsest_eval.golden.retrieval_run import SearchSettings
from palimpsest_eval.metrics.latency import Machine, this_machine
from palimpsest_eval.runs.suite_runs import cache_folder
from palimpsest_eval.suites.run_suite import run_suite
from palimpsest_eval.suites.suite import Suite, load_suite
from palimpsest_eval.suites.suite_collection import write_collection

PROFILES = ("full", "fast")
LIMITS = {"full": 6.0, "fast": 1.5}
MEASURE = "R@5"
_VECTOR = np.eye(1, 384, dtype=np.float32)  # the values do not change the time to store them


@dataclass(frozen=True)
class StepSeconds:
    """Seconds of one step: by the clock, and of processor time over all threads."""

    wall_s: float
    cpu_s: float


def time_step(run: Callable[[], object]) -> StepSeconds:
    """Returns the seconds of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return StepSeconds(time.perf_counter() - wall, time.process_time() - cpu)


@dataclass(frozen=True)
class IndexTimeReport:
    """Times of a suite, as medians over the rounds.

    Attributes:
        suite: its name.
        memories: how many.
        rounds: how often each time was measured.
        seconds: of embedding alone, as `flat`, and of what each profile adds.
        times_flat: the same of each profile as a multiple of embedding alone.
        recall: R@5 of `auto` by profile, and of `hybrid`.
        gain_kept: of the gain of `auto` over `hybrid` in the full profile, the share that the fast one keeps; None
            where there is no gain.
        machine: where it was measured.
    """

    suite: str
    memories: int
    rounds: int
    seconds: Mapping[str, StepSeconds]
    times_flat: Mapping[str, StepSeconds]
    recall: Mapping[str, float]
    gain_kept: float | None
    machine: Machine

    def to_json(self) -> JsonObject:
        """Returns the report as JSON values."""
        report = asdict(self)
        return {MEASURE if name == "recall" else name: value for name, value in report.items()}

    def text(self) -> str:
        """Returns the report as a table for people."""
        lines = [
            f"{self.suite}: {self.memories} memories, median of {self.rounds}, load {self.machine.load_1min:.1f}",
            f"{'':8}{'wall s':>9}{'cpu s':>9}{'times flat':>12}{'in cpu':>9}{'limit':>7}{MEASURE:>8}",
        ]
        for name, at in self.seconds.items():
            line = f"{name:8}{at.wall_s:9.2f}{at.cpu_s:9.2f}"
            if name != "flat":
                ratio = self.times_flat[name]
                line += f"{ratio.wall_s:12.2f}{ratio.cpu_s:9.2f}{LIMITS[name]:7.1f}{self.recall[name]:8.3f}"
            lines.append(line)
        kept = "no gain to keep" if self.gain_kept is None else f"fast keeps {100 * self.gain_kept:.0f} % of the gain"
        return "\n".join([*lines, f"hybrid {self.recall['hybrid']:.3f}; {kept}"])


def measure_index_time(folder: Path, rounds: int = 3) -> IndexTimeReport:
    """Times embedding alone and what each profile adds to it.

    Args:
        folder: a suite.
        rounds: how often each is measured.

    Raises:
        PalimpsestError: the suite is malformed.
    """
    from palimpsest.memories.embed import load_embedder

    suite, embedder = load_suite(folder), load_embedder()
    with tempfile.TemporaryDirectory(prefix="palimpsest-index-time-") as scratch:
        builds, recall = _build_profiles(suite, Path(scratch))
        tables = {profile: _tables(build) for profile, build in builds.items()}
        texts = tables["full"]["embed_inputs"]["text"].to_list()
        embedder.encode(texts[:200])
        took: dict[str, list[StepSeconds]] = {name: [] for name in ("flat", *PROFILES)}
        for number in range(rounds):
            for name in list(took)[:: 1 if number % 2 == 0 else -1]:
                if name == "flat":
                    took[name].append(time_step(lambda: embedder.encode(texts)))
                else:
                    parts = _time_additions(tables[name], name, embedder, Path(scratch))
                    took[name].append(StepSeconds(sum(p.wall_s for p in parts), sum(p.cpu_s for p in parts)))
    seconds = {
        name: StepSeconds(*(statistics.median(getattr(t, kind) for t in times) for kind in ("wall_s", "cpu_s")))
        for name, times in took.items()
    }
    flat, gain = seconds["flat"], recall["full"] - recall["hybrid"]
    return IndexTimeReport(
        suite=suite.name,
        memories=len(texts),
        rounds=rounds,
        seconds=seconds,
        times_flat={p: StepSeconds(seconds[p].wall_s / flat.wall_s, seconds[p].cpu_s / flat.cpu_s) for p in PROFILES},
        recall=recall,
        gain_kept=(recall["fast"] - recall["hybrid"]) / gain if gain > 0 else None,
        machine=this_machine(),
    )


def _build_profiles(suite: Suite, scratch: Path) -> tuple[dict[str, Build], dict[str, float]]:
    """Builds a suite in both profiles, over one store of vectors; returns the builds and recall by strategy."""
    builds, scores = {}, {}
    for profile in PROFILES:
        corpus = write_collection(suite, scratch / profile)
        for config in corpus.glob("*/collection.yaml"):
            config.write_text(f"{config.read_text(encoding='utf-8')}\nprofile: {profile}\n", encoding="utf-8")
        home = Home(scratch / f"home-{profile}", cache_folder() / "embeddings")
        home.create()
        with home.lock(600):
            builds[profile] = run_without_dagster(home, make_plan(home, [corpus]))
        with open_home(home.path, count_reads=False) as reader:
            scores[profile] = run_suite(reader, suite, SearchSettings("auto", 0)).metrics[MEASURE]
            scores["hybrid"] = run_suite(reader, suite, SearchSettings("hybrid", 0)).metrics[MEASURE]
    return builds, scores


def _tables(build: Build) -> dict[str, pl.DataFrame]:
    return build.tables(("documents", "memories", "embed_inputs", "context_inputs", "entities", "mentions"))


def _time_additions(tables: dict[str, pl.DataFrame], profile: str, embedder: Any, scratch: Path) -> list[StepSeconds]:
    """Runs each step that a profile adds to embedding the memories once more."""
    from palimpsest.entities.collection_shape import strategy_for
    from palimpsest.entities.entity_tables import entity_tables
    from palimpsest.index.write_index import write_index
    from palimpsest.memories.form import context_inputs
    from palimpsest.store.decisions import Decisions

    memories, documents = tables["memories"], tables["documents"]
    sentences = tables["context_inputs"].filter(pl.col("text_hash").is_not_null()).unique("text_hash")["text"].to_list()

    def vectors(hashes: Sequence[str]) -> np.ndarray:
        return np.broadcast_to(_VECTOR, (len(hashes), 384))

    return [
        time_step(lambda: context_inputs(memories, strategy_for(memories), profile == "full")),
        time_step(lambda: embedder.encode(sentences)),
        time_step(lambda: entity_tables(memories, documents, None, None, Decisions())),
        time_step(lambda: write_index(tables, vectors, scratch / "index.duckdb", {"build_id": "000001"})),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    report = measure_index_time(args.folder, args.rounds)
    sys.stdout.write((json.dumps(report.to_json()) if args.json else report.text()) + "\n")
