"""What a build of many turns takes end to end, by stage: seconds and peak memory, without the time of an embedder.

    python -m palimpsest_eval.studies.large_build [--memories 100000] [--users 50] [--folder FOLDER]

The turns are those of `eval.bench.synthetic`, written as JSON lines, a file for each user and a thousand sessions.
Vectors are sums of vectors drawn for words, so that texts with words in common are near each other as they are with a
model. A second build of the same turns follows. FOLDER keeps the home, for queries of it and for Neo4j.
"""

import argparse
import json
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import polars as pl

from palimpsest.build.plan import make_plan
from palimpsest.build.publish import run_without_dagster
from palimpsest.build.stages import embeddings
from palimpsest.build.summary import stage_seconds
from palimpsest.store.home import Home
from palimpsest_eval.bench.measure_queries import write_questions
from palimpsest_eval.bench.synthetic import COLLECTION, DIMENSIONS, SyntheticBuild, synthetic_build

_SESSIONS_OF_A_FILE = 1000
_QUESTIONS = 310
_SAMPLE_S = 0.05
_CHUNK = 4096


@dataclass(frozen=True)
class LargeBuild:
    """A first and a second build.

    Attributes:
        memories: of the build.
        relations: pairs that were labelled UPDATE, EXTEND or DERIVE.
        by_stage_s: seconds of each stage of the first build, of `index` and of what follows it.
        total_s: of the first build, without the stage `embeddings`.
        again_s: of the second build, of the same files: it finds that nothing changed.
        peak_gib: most resident memory of the process during the first build; it includes libraries.
        home_bytes: of the home's files.
    """

    memories: int
    relations: int
    by_stage_s: dict[str, float]
    total_s: float
    again_s: float
    peak_gib: float
    home_bytes: int


class DrawnWordEmbedder:
    """Vectors that are sums of vectors drawn for words: no model, and nearness by words in common."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._vectors = np.zeros((0, DIMENSIONS), np.float32)

    def encode(self, texts: Sequence[str], done: Callable[[list[int], np.ndarray], None]) -> None:
        """Calls `done` for every batch of texts, with their indices and vectors."""
        for start in range(0, len(texts), _CHUNK):
            batch = [text.lower().split() for text in texts[start : start + _CHUNK]]
            numbers = [[self._numbers.setdefault(w, len(self._numbers)) for w in words] or [0] for words in batch]
            self._draw()
            ends = np.cumsum([len(n) for n in numbers])
            flat = np.fromiter((n for of_text in numbers for n in of_text), np.int64, int(ends[-1]))
            vectors = np.add.reduceat(self._vectors[flat], np.concatenate([[0], ends[:-1]]))
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
            done(list(range(start, start + len(batch))), vectors)

    def _draw(self) -> None:
        missing = max(1, len(self._numbers)) - len(self._vectors)
        if missing > 0:
            drawn = np.random.default_rng(len(self._vectors)).standard_normal((missing, DIMENSIONS), dtype=np.float32)
            self._vectors = np.concatenate([self._vectors, drawn])


def measure(memories: int, users: int, folder: Path) -> LargeBuild:
    """Writes a corpus of synthetic turns to a folder, builds it twice, and writes questions about it to the home.

    Args:
        memories: turns in all.
        users: of Zipf size.
        folder: where `corpus` and `home` are written.
    """
    made, corpus, home = synthetic_build(memories, users, "turns", _QUESTIONS), folder / "corpus", Home(folder / "home")
    write_corpus(corpus / COLLECTION, made)
    largest, queries = made.largest, made.queries
    del made
    with patch.object(embeddings, "load_batch_embedder", lambda space: DrawnWordEmbedder()), _peak_memory() as peak:
        started = time.perf_counter()
        first = run_without_dagster(home, make_plan(home, [corpus]))
        took_s = time.perf_counter() - started
        peak_gib = peak() / 2**30
        started = time.perf_counter()
        if not (again := make_plan(home, [corpus])).nothing_to_do:  # as palimpsest build decides
            run_without_dagster(home, again)
        again_s = time.perf_counter() - started
    write_questions(home.path, largest, queries)
    by_stage = {stage: round(s, 1) for stage, s in stage_seconds(first.manifest).items()}
    return LargeBuild(
        memories=first.table(COLLECTION, "memories").height,
        relations=first.table(COLLECTION, "relations").filter(pl.col("label") != "NONE").height,
        by_stage_s=by_stage,
        total_s=round(took_s - by_stage["embeddings"], 1),
        again_s=round(again_s, 1),
        peak_gib=round(peak_gib, 2),
        home_bytes=sum(p.stat().st_size for p in home.path.rglob("*") if p.is_file()),
    )


def write_corpus(folder: Path, made: SyntheticBuild) -> None:
    """Writes the turns of a synthetic build as a collection of JSON lines files."""
    folder.mkdir(parents=True)
    settings = f"name: {COLLECTION}\ndescription: synthetic turns\nunit: turn\nuser_id: {made.largest}\n"
    (folder / "collection.yaml").write_text(settings, encoding="utf-8")
    columns = [
        "session_id",
        "user_id",
        "speaker",
        "text",
        pl.col("observed_at").dt.strftime("%FT%TZ").alias("timestamp"),
    ]
    turns = made.tables["memories"].sort("user_id", "session_id", "ordinal").select(columns)
    part = pl.col("session_id").rank("dense").over("user_id") // _SESSIONS_OF_A_FILE
    for (user, number), rows in turns.with_columns(part=part).group_by("user_id", "part", maintain_order=True):
        rows.drop("part").write_ndjson(folder / f"{user}-{number:04d}.jsonl")


@contextmanager
def _peak_memory() -> Iterator[Callable[[], int]]:
    """Yields what returns the most resident bytes of this process since it was entered, sampled."""
    most, stopped = [0], threading.Event()

    def sample() -> None:
        page = resource.getpagesize()
        while not stopped.wait(_SAMPLE_S):
            most[0] = max(most[0], int(Path("/proc/self/statm").read_text().split()[1]) * page)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield lambda: most[0]
    finally:
        stopped.set()
        thread.join()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the study; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--folder", type=Path, help="keeps the corpus and the home; default: a temporary folder")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="palimpsest-large-") as scratch:
        found = measure(options.memories, options.users, options.folder or Path(scratch))
    sys.stdout.write(json.dumps(asdict(found)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
