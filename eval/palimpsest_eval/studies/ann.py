"""What approximate indexes of vectors would give a scope of millions: recall, latency, seconds to build, bytes.

    pip install faiss-cpu usearch numkong        # no part of this project installs them
    python -m palimpsest_eval.studies.ann SUITES FOLDER [--vectors N ...] [--indexes ivf int8 hnsw] [--threads 2]

Vectors are those of all texts of the suites in the folder SUITES; more are copies with noise, with a cosine of .86 to
their texts. Questions are those of the suites. Each index proposes `PROPOSED` vectors, which are scored again by their
float32 vectors, read from a file that is mapped into memory (FOLDER keeps it): the best ten and hundred are compared
with those of all vectors. One line of JSON for each index and setting.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

PROPOSED = 500
_SEED = 20_261_126
_NOISE = 0.6
_CHUNK = 100_000
_QUESTIONS = 200
_MAX_CHARS = 300
_TRAINED_PER_LIST = 40
_PROBES = (16, 64, 256)
_GRAPHS = ((16, 64), (32, 256))
"""Connectivity and expansion of the graphs while they are built."""

Propose = Callable[[np.ndarray], np.ndarray]
"""Returns the numbers of the vectors that an index proposes for a question."""


@dataclass(frozen=True)
class AnnFigures:
    """An index at a setting.

    Attributes:
        vectors: how many it has.
        index: its name and setting.
        build_s: seconds to make it, training included.
        mib: of it, without the float32 vectors.
        recall_10, recall_100: share of the best ten and hundred that are found.
        p50_ms, p95_ms: of a question, scoring the proposed again included; one question at a time.
    """

    vectors: int
    index: str
    build_s: float
    mib: float
    recall_10: float
    recall_100: float
    p50_ms: float
    p95_ms: float


def suite_vectors(suites: Path, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Returns the vectors of all distinct texts of suites, and of some questions; embeds them once for a folder."""
    from palimpsest.memories.embedders.choose import load_batch_embedder, minilm_space

    texts, questions = dict[str, None](), list[str]()
    for corpus in sorted(suites.glob("*/corpus.jsonl")):
        texts |= dict.fromkeys(t[:_MAX_CHARS] for t in _texts(corpus) if t.strip())
        queries = corpus.parent / "queries.jsonl"
        questions += _texts(queries)[: _QUESTIONS // 4] if queries.exists() else []
    drawn = np.random.default_rng(_SEED).permutation(len(questions))[:_QUESTIONS]
    wanted = {"base.npy": list(texts), "queries.npy": [questions[i] for i in sorted(drawn)]}
    for name, of_file in wanted.items():
        if not (folder / name).exists():
            vectors = np.zeros((len(of_file), 384), np.float32)
            load_batch_embedder(minilm_space()).encode(of_file, partial(_put, vectors))
            np.save(folder / name, vectors)
    return np.load(folder / "base.npy"), np.load(folder / "queries.npy")[:_QUESTIONS]


def _put(vectors: np.ndarray, rows: list[int], found: np.ndarray) -> None:
    vectors[rows] = found


def _texts(path: Path) -> list[str]:
    return [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]


def write_vectors(base: np.ndarray, count: int, path: Path) -> np.ndarray:
    """Writes `count` unit vectors, the given ones and noisy copies, and returns them mapped into memory."""
    if not path.exists():
        out = np.lib.format.open_memmap(path, "w+", np.float32, (count, base.shape[1]))
        for start in range(0, count, _CHUNK):
            rows = np.arange(start, min(start + _CHUNK, count))
            noise = np.random.default_rng([_SEED, start]).standard_normal((len(rows), base.shape[1]), dtype=np.float32)
            noise *= (rows >= len(base))[:, None] * np.float32(_NOISE / np.sqrt(base.shape[1]))
            noise += base[rows % len(base)]
            noise /= np.linalg.norm(noise, axis=1, keepdims=True)
            out[rows[0] : rows[-1] + 1] = noise
        out.flush()
    mapped: np.ndarray = np.load(path, mmap_mode="r")
    return mapped


def true_best(vectors: np.ndarray, questions: np.ndarray, n: int) -> np.ndarray:
    """Returns the numbers of the `n` best vectors of each question, best first, shape (questions, n)."""
    scores, numbers = np.full((len(questions), n), -2.0, np.float32), np.zeros((len(questions), n), np.int64)
    for start in range(0, len(vectors), _CHUNK):
        found = questions @ vectors[start : start + _CHUNK].T
        here = np.argpartition(-found, n, axis=1)[:, :n]
        both = np.concatenate([scores, np.take_along_axis(found, here, 1)], axis=1)
        of_both = np.concatenate([numbers, here + start], axis=1)
        best = np.argsort(-both, axis=1, kind="stable")[:, :n]
        scores, numbers = np.take_along_axis(both, best, 1), np.take_along_axis(of_both, best, 1)
    return numbers


def ivf(vectors: np.ndarray, folder: Path, threads: int) -> Iterator[tuple[str, float, float, Propose]]:
    """Yields faiss's inverted lists of vectors of 8 bits, at three numbers of lists that are read."""
    import faiss

    faiss.omp_set_num_threads(threads)
    lists = 1024 if len(vectors) <= 2_000_000 else 4096
    started = time.perf_counter()
    index = faiss.index_factory(vectors.shape[1], f"IVF{lists},SQ8", faiss.METRIC_INNER_PRODUCT)
    drawn = np.random.default_rng(_SEED).choice(len(vectors), _TRAINED_PER_LIST * lists, replace=False)
    index.train(np.ascontiguousarray(vectors[np.sort(drawn)]))
    for start in range(0, len(vectors), _CHUNK):
        index.add(np.ascontiguousarray(vectors[start : start + _CHUNK]))
    build_s = time.perf_counter() - started
    faiss.write_index(index, str(folder / "ivf.faiss"))
    mib = (folder / "ivf.faiss").stat().st_size / 2**20
    for probes in _PROBES:
        index.nprobe = probes
        yield f"ivf {lists} lists, {probes} read", build_s, mib, lambda q: index.search(q[None], PROPOSED)[1][0]


def int8(vectors: np.ndarray, folder: Path, threads: int) -> Iterator[tuple[str, float, float, Propose]]:
    """Yields a scan of all vectors, of 8 bits each number."""
    import numkong

    started = time.perf_counter()
    scale = 127 / max(float(np.abs(vectors[s : s + _CHUNK]).max()) for s in range(0, len(vectors), _CHUNK))
    small = np.empty(vectors.shape, np.int8)
    for start in range(0, len(vectors), _CHUNK):
        small[start : start + _CHUNK] = np.rint(vectors[start : start + _CHUNK] * scale)
    build_s = time.perf_counter() - started

    def propose(question: np.ndarray) -> np.ndarray:
        wanted = np.rint(question * (127 / np.abs(question).max())).astype(np.int8)
        scores = np.asarray(numkong.cdist(wanted[None], small, "dot")).ravel()
        return np.argpartition(-scores, PROPOSED)[:PROPOSED]

    yield "int8 scan", build_s, small.nbytes / 2**20, propose


def hnsw(vectors: np.ndarray, folder: Path, threads: int) -> Iterator[tuple[str, float, float, Propose]]:
    """Yields usearch's graphs over vectors of 8 bits each number, at two sizes of their search."""
    from usearch.index import Index

    for connectivity, expansion in _GRAPHS:
        started = time.perf_counter()
        index: Any = Index(
            ndim=vectors.shape[1], metric="ip", dtype="i8", connectivity=connectivity, expansion_add=expansion
        )
        for start in range(0, len(vectors), _CHUNK):
            rows = np.arange(start, min(start + _CHUNK, len(vectors)))
            index.add(rows, np.ascontiguousarray(vectors[start : start + _CHUNK]), threads=threads)
        build_s = time.perf_counter() - started
        index.save(folder / "hnsw.usearch")
        mib = (folder / "hnsw.usearch").stat().st_size / 2**20
        for width in (PROPOSED, 4 * PROPOSED):
            index.expansion_search = width
            setting = f"hnsw {connectivity}/{expansion}, search of {width}"
            yield setting, build_s, mib, partial(_nearest, index)


def _nearest(index: Any, question: np.ndarray) -> np.ndarray:
    found: np.ndarray = index.search(question, PROPOSED).keys.astype(np.int64)
    return found


INDEXES: dict[str, Callable[[np.ndarray, Path, int], Iterator[tuple[str, float, float, Propose]]]] = {
    "ivf": ivf,
    "int8": int8,
    "hnsw": hnsw,
}


def measure(
    vectors: np.ndarray, questions: np.ndarray, name: str, folder: Path, truth: np.ndarray, threads: int
) -> Iterator[AnnFigures]:
    """Yields the figures of an index at each of its settings."""
    for setting, build_s, mib, propose in INDEXES[name](vectors, folder, threads):
        took_ms, found = [], []
        for question in (*questions[:5], *questions):  # the first five only warm up
            started = time.perf_counter()
            proposed = propose(question)
            proposed = np.sort(proposed[proposed >= 0])
            scores = vectors[proposed] @ question
            found.append(proposed[np.argsort(-scores, kind="stable")[: truth.shape[1]]])
            took_ms.append((time.perf_counter() - started) * 1000)
        p50, p95 = (round(float(p), 1) for p in np.percentile(took_ms[5:], (50, 95)))
        recall_10, recall_100 = (round(_recall(found[5:], truth, k), 4) for k in (10, 100))
        yield AnnFigures(len(vectors), setting, round(build_s, 1), round(mib), recall_10, recall_100, p50, p95)


def _recall(found: Sequence[np.ndarray], truth: np.ndarray, k: int) -> float:
    return float(np.mean([len(np.intersect1d(f[:k], t[:k])) / k for f, t in zip(found, truth, strict=True)]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the study; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", type=Path, metavar="SUITES")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--vectors", type=int, nargs="+", default=[1_000_000, 5_000_000])
    parser.add_argument("--indexes", nargs="+", choices=INDEXES, default=list(INDEXES))
    parser.add_argument("--threads", type=int, default=2, help="threads that build an index")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    base, questions = suite_vectors(options.suites, options.folder)
    for count in options.vectors:
        vectors = write_vectors(base, count, options.folder / f"vectors-{count}.npy")
        truth = true_best(vectors, questions, 100)
        for name in options.indexes:
            for figures in measure(vectors, questions, name, options.folder, truth, options.threads):
                sys.stdout.write(json.dumps(asdict(figures) | {"load": round(os.getloadavg()[0], 1)}) + "\n")
                sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
