"""The arrays of one scope that a query reads, by local row: vectors, postings, ids, priors."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

# Work on the arrays of a large scope in several threads: numpy works on them without Python's lock.

Part = TypeVar("Part")
Result = TypeVar("Result")

MANY = 100_000
"""Values from which several threads are faster: two read memory faster than one."""
_THREADS = min(4, os.cpu_count() or 1)


class Threads:
    """The threads of this process, or none. Work must not wait for other work of theirs."""

    def __init__(self, pool: ThreadPoolExecutor | None):
        self._pool = pool

    def map(self, function: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
        """Returns what a function returns of each part, in the order of the parts; the parts are computed in any."""
        return list(map(function, parts) if self._pool is None else self._pool.map(function, parts))


def threads_for(size: int) -> Threads:
    """Returns threads for work on arrays of `size` values: none where there are few."""
    return Threads(_pool() if size >= MANY else None)


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="palimpsest-scope")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a fork has none of the threads


# Cosines of a large scope by its vectors as 8-bit integers: read in a quarter of the time.
#
# Their products are whole numbers, which every processor adds to the same sum. Who ranks by them computes the cosines
# of the best again by the float32 vectors.

_LARGEST = 127  # of the integers of a vector
_SCALE_BYTES = 4
WORST_ESTIMATE = 0.003
"""By how much an estimated cosine is wrong at most."""


def estimates_bytes(count: int, float_bytes: int) -> int:
    """Returns the size of the estimates of `count` vectors that take `float_bytes` as float32."""
    return float_bytes // np.dtype(np.float32).itemsize + count * _SCALE_BYTES


@dataclass(frozen=True)
class EstimatedCosines:
    """Vectors of 8-bit integers, each with a scale.

    Attributes:
        matrices: shape (m, dimensions) int8, one below the other.
        scales: of the vectors of each matrix, shape (m,) float32: a vector is about its integers times its scale.
    """

    matrices: tuple[np.ndarray, ...]
    scales: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, matrices: Sequence[np.ndarray]) -> "EstimatedCosines":
        """Makes them of matrices of shape (m, dimensions) float32."""
        found = threads_for(sum(map(len, matrices))).map(_integers, matrices)
        return cls(tuple(matrix for matrix, _ in found), tuple(scale for _, scale in found))

    def cosines(self, query: np.ndarray) -> np.ndarray:
        """Returns about the cosine of each vector with the unit query, shape (vectors,) float32."""
        whole, scale = _integers(query[None])
        rest, rest_scale = _integers(query[None] - whole * scale[:, None])  # without it all were wrong to one side
        of_part = partial(_cosines, np.concatenate([whole, rest]), np.concatenate([scale, rest_scale]))
        parts = zip(self.matrices, self.scales, strict=True)
        return np.concatenate(threads_for(sum(map(len, self.matrices))).map(of_part, parts))


def _integers(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns rows of integers up to 127, int8, and the scale of each; a row of zeros has the scale 0."""
    most = np.abs(matrix).max(axis=1)
    factor = _LARGEST / np.where(most > 0, most, 1)
    return np.rint(matrix * factor[:, None]).astype(np.int8), (most / _LARGEST).astype(np.float32)


def _cosines(query: np.ndarray, query_scales: np.ndarray, part: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    from simsimd import cdist  # numpy has no products of 8 bits that use the processor's instructions for them

    matrix, scales = part
    products = np.asarray(cdist(matrix, query, metric="dot", out_dtype="float32"))  # a row of the query a column
    found: np.ndarray = products[:, 0] * query_scales[0]
    found += products[:, 1] * query_scales[1]
    found *= scales
    return found


Arrays = dict[str, Any]
"""Numpy arrays and lists of strings by name: one part of a scope as a store keeps it; empty where it has none."""


def rows_of(known: np.ndarray, ids: Iterable[str]) -> np.ndarray:
    """Returns the local rows of memories by their ids, all of them among `known`, which are ascending."""
    return np.searchsorted(known, np.array(list(ids), dtype=object))


def known_rows(known: np.ndarray, ids: Iterable[str]) -> dict[str, int]:
    """Returns the local rows of those memories that are among `known`, by id, in the order of `ids`."""
    wanted = list(dict.fromkeys(ids))
    rows = zip(wanted, rows_of(known, wanted).tolist(), strict=True)
    return {i: row for i, row in rows if row < len(known) and known[row] == i}


def ranges(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Returns the numbers from each start to before its end, one range after the other."""
    sizes = ends - starts
    numbers: np.ndarray = np.arange(int(sizes.sum())) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
    return numbers


@dataclass(frozen=True)
class ScopeVectors:
    """A scope's vectors: matrices of shape (m, 384) float32, one below the other, as they were read.

    `starts` is the number of the vector at which each memory's windows start, shape (memories,).
    """

    matrices: tuple[np.ndarray, ...]
    starts: np.ndarray
    count: int

    @property
    def nbytes(self) -> int:
        """Size in bytes, that of the estimates of cosines included."""
        size = sum(m.nbytes for m in self.matrices)
        return size + (estimates_bytes(self.count, size) if self._has_estimates else 0) + self.starts.nbytes

    @property
    def _has_estimates(self) -> bool:
        return self.count >= MANY and len(self.starts) == self.count

    @cached_property
    def _estimates(self) -> EstimatedCosines:
        return EstimatedCosines.of(self.matrices)

    def estimated_cosines(self, query: np.ndarray) -> np.ndarray | None:
        """Returns about the cosine of each memory, shape (memories,); None where there are few, or some have more."""
        return self._estimates.cosines(query) if self._has_estimates else None

    def windows(self) -> np.ndarray | None:
        """Returns how many windows each memory has, shape (memories,); None where each has one."""
        return None if len(self.starts) == self.count else np.diff(self.starts, append=self.count)

    def cosines(self, query: np.ndarray) -> np.ndarray:
        """Returns the cosine of each memory's best window with the unit query, shape (memories,) float64."""
        # Row by row in this thread: as fast as BLAS threads for one client, and twenty times faster for eight at once.
        scores = np.concatenate(threads_for(self.count).map(partial(np.vecdot, query), self.matrices))
        if len(self.starts) < self.count:
            scores = np.maximum.reduceat(scores, self.starts)
        return scores.astype(np.float64)

    def cosines_of(self, rows: np.ndarray, query: np.ndarray) -> np.ndarray:
        """Returns the same for some local rows, reading no others; shape (len(rows),) float64."""
        if len(rows) == 0:
            return np.zeros(0)
        starts, ends = self._bounds(rows)
        found = self._cosines_of_windows(ranges(starts, ends), query)
        best: np.ndarray = np.maximum.reduceat(found, np.cumsum(ends - starts) - (ends - starts))
        return best

    def window_cosines(self, rows: np.ndarray, query: np.ndarray) -> list[np.ndarray]:
        """Returns the cosines of the windows of some local rows with the unit query, in their order, for each row."""
        if len(rows) == 0:
            return []
        starts, ends = self._bounds(rows)
        found = self._cosines_of_windows(ranges(starts, ends), query)
        return np.split(found, np.cumsum(ends - starts)[:-1])

    def _bounds(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers of the first window of some memories, and of the one after their last."""
        following = np.minimum(rows + 1, len(self.starts) - 1)
        return self.starts[rows], np.where(rows + 1 < len(self.starts), self.starts[following], self.count)

    def _cosines_of_windows(self, wanted: np.ndarray, query: np.ndarray) -> np.ndarray:
        offsets = np.cumsum([0, *(len(m) for m in self.matrices)])
        found = np.empty((len(wanted), len(query)), np.float32)
        for matrix, first, last in zip(self.matrices, offsets, offsets[1:], strict=False):
            here = np.flatnonzero((wanted >= first) & (wanted < last))
            found[here] = matrix[wanted[here] - first]
        cosines: np.ndarray = np.vecdot(found, query).astype(np.float64)
        return cosines


@dataclass(frozen=True)
class Postings:
    """Where a term occurs: local rows, ascending, and the BM25 score of each."""

    rows: np.ndarray
    scores: np.ndarray

    @property
    def nbytes(self) -> int:
        """Size in bytes, the bookkeeping of one cache entry included."""
        return self.rows.nbytes + self.scores.nbytes + 400

    def scores_of(self, rows: np.ndarray) -> np.ndarray:
        """Returns the score of each of some local rows, 0 where the term does not occur."""
        if len(self.rows) == 0:
            return np.zeros(len(rows))
        wanted = rows.astype(self.rows.dtype)  # numbers of another size would convert the whole posting list
        at = np.minimum(np.searchsorted(self.rows, wanted), len(self.rows) - 1)
        return np.where(self.rows[at] == rows, self.scores[at], 0.0)


def word_sums(postings: Iterable[Postings], size: int, dtype: type[np.floating[Any]] = np.float64) -> np.ndarray:
    """Returns the BM25 sum of each of `size` memories; terms are added in their order, for float sums depend on it."""
    sums = np.zeros(size, dtype)
    for term in postings:
        sums[term.rows] += term.scores
    return sums


@dataclass(frozen=True)
class Flags:
    """Which local rows have a property, shape (memories,) bool."""

    values: np.ndarray

    @classmethod
    def from_rows(cls, rows: ArrayLike, size: int) -> "Flags":
        """Makes the flags of `size` memories from the local rows that have the property."""
        values = np.zeros(size, bool)
        values[np.asarray(rows, np.int64)] = True
        return cls(values)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.values.nbytes


@dataclass(frozen=True)
class RetirementReasons:
    """Why memories of a scope were retired or retained, by id: JSON lines of `memories.version_reasons`."""

    lines: dict[str, list[str]]

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "RetirementReasons":
        """Groups the reasons (column `reason`) by the memory ids `ids`, in order."""
        lines: dict[str, list[str]] = {}
        for memory_id, line in zip(arrays.get("ids", ()), arrays.get("reason", ()), strict=True):
            lines.setdefault(memory_id, []).append(line)
        return cls(lines)

    @property
    def nbytes(self) -> int:
        """Size in bytes, about."""
        return sum(250 + sum(map(len, lines)) for lines in self.lines.values())

    def select(self, ids: Iterable[str]) -> dict[str, list[str]]:
        """Returns the lines of those ids that have any."""
        return {i: self.lines[i] for i in ids if i in self.lines}


@dataclass(frozen=True)
class Priors:
    """What no question changes about every memory of a scope, by local row.

    Attributes:
        observed: seconds since 1970, NaN where undated, shape (memories,) float64.
        importance: 0..1, NaN where not stated, shape (memories,) float64.
        support: how many other memories support it, shape (memories,) int64.
    """

    observed: np.ndarray
    importance: np.ndarray
    support: np.ndarray

    @classmethod
    def from_arrays(cls, arrays: Arrays, size: int) -> "Priors":
        """Makes it of the part `priors` of a scope of `size` memories."""
        if not arrays:
            return cls(np.full(size, np.nan), np.full(size, np.nan), np.zeros(size, np.int64))
        return cls(arrays["observed"], arrays["importance"], arrays["support"].astype(np.int64))

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.observed.nbytes + self.importance.nbytes + self.support.nbytes


# A cache bounded in bytes, shared between threads: the least recently used value is dropped first.


class Sized(Protocol):
    """A value that knows its size."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""


Value = TypeVar("Value", bound=Sized)


class ByteCache:
    """A cache bounded in bytes, safe to share between threads: one of them loads a value while the others wait."""

    def __init__(self, limit_bytes: int):
        self._limit, self._used = limit_bytes, 0
        self._values: OrderedDict[Hashable, Sized] = OrderedDict()
        self._loading: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, load: Callable[[], Any]) -> Any:
        """Returns the value of `key`, made by `load` where it is not cached; the newest stays whatever its size."""
        with self._lock:
            if (value := self._find(key)) is not None:
                return value
            gate = self._loading.setdefault(key, threading.Lock())
        with gate:
            with self._lock:
                if (value := self._find(key)) is not None:
                    return value
            value = load()
            self.put(key, value)
            with self._lock:
                self._loading.pop(key, None)
        return value

    def peek(self, key: Hashable) -> Any:
        """Returns the value of `key`, or None where it is not cached."""
        with self._lock:
            return self._find(key)

    def put(self, key: Hashable, value: Sized) -> None:
        """Caches a value and drops the least recently used ones that no longer fit."""
        with self._lock:
            if (old := self._values.pop(key, None)) is not None:
                self._used -= old.nbytes
            self._values[key] = value
            self._used += value.nbytes
            while self._used > self._limit and len(self._values) > 1:
                self._used -= self._values.popitem(last=False)[1].nbytes

    def get_each(
        self, keys: Mapping[int, Hashable], load: Callable[[list[int]], Mapping[int, Value]]
    ) -> dict[int, Value]:
        """Returns the values of several rows, in their order; `load` makes those that are not cached, all at once.

        Args:
            keys: the key of each row.
            load: returns the value of every row that it is given.
        """
        found = {row: self.peek(key) for row, key in keys.items()}
        if missing := [row for row, value in found.items() if value is None]:
            for row, value in load(missing).items():
                self.put(keys[row], value)
                found[row] = value
        return found

    def clear(self) -> None:
        """Drops every value."""
        with self._lock:
            self._values.clear()
            self._used = 0

    def _find(self, key: Hashable) -> Any:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value


# What precedes and follows each memory: turns in their session, other memories in their document.

FULL_SHARE_TOKENS = 25
"""Tokens from which a turn takes the whole share of its neighbors' scores."""

REACH = 3
"""Turns away from which a turn may take a share of a score."""


@dataclass(frozen=True)
class ReadingOrder:
    """Local rows of the memories before and after each, shape (memories,) int64; -1 where there is none."""

    before: np.ndarray
    after: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, next_rows: np.ndarray, size: int) -> "ReadingOrder":
        """Makes the order of `size` memories from pairs of local rows that follow each other."""
        before, after = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
        after[rows], before[next_rows] = next_rows, rows
        return cls(before, after)

    @classmethod
    def from_arrays(cls, turns: Arrays, documents: Arrays, size: int) -> "ReadingOrder":
        """Makes it of the parts `order` and `written` of a scope of `size` memories."""
        found = [part for part in (turns, documents) if part]
        nothing = np.zeros(0, np.int64)
        rows, following = (np.concatenate([nothing, *(part[n] for part in found)]) for n in ("row", "next_row"))
        return cls.of(rows, following, size)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.before.nbytes + self.after.nbytes

    def neighbors(self, row: int, reach: int) -> list[tuple[int, int]]:
        """Returns (offset, row) of the memories up to `reach` away: nearest first, the one before first."""
        found = []
        low = high = row
        for distance in range(1, reach + 1):
            low, high = (int(self.before[low]) if low >= 0 else -1), (int(self.after[high]) if high >= 0 else -1)
            found += [(offset, at) for offset, at in ((-distance, low), (distance, high)) if at >= 0]
        return found


@dataclass(frozen=True)
class TurnOrder:
    """How the turns of a scope follow each other.

    Local rows are in the order of ids, which are hashes: turns of one session are anywhere. So sessions are also laid
    out in a line, each turn next to the one before it and `REACH` empty places between sessions. What reads the
    neighbors of every turn reads the line from its start to its end instead of a random row for each neighbor.

    Attributes:
        order: the turns before and after each turn of its session.
        smoothing_weight: share of its neighbors' contribution that a turn takes, shape (memories,), 0 to 1: a turn of
            a few words takes less.
        places: of every memory in the line, shape (memories,) int64.
        rows: local row of the memory at each place, -1 at an empty one, shape (length,) int64.
        line_weight: `smoothing_weight` of the memory at each place, 0 at an empty one, shape (length,).
    """

    order: ReadingOrder
    smoothing_weight: np.ndarray
    places: np.ndarray
    rows: np.ndarray
    line_weight: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, next_rows: np.ndarray, tokens: np.ndarray) -> "TurnOrder":
        """Makes the order from pairs of local rows that follow each other and the tokens of every memory."""
        order, weight = ReadingOrder.of(rows, next_rows, len(tokens)), np.minimum(1.0, tokens / FULL_SHARE_TOKENS)
        places, length = _line(order.before)
        at, line_weight = np.full(length, -1), np.zeros(length)
        at[places], line_weight[places] = np.arange(len(tokens)), weight
        return cls(order, weight, places, at, line_weight)

    @classmethod
    def from_arrays(cls, arrays: Arrays, size: int) -> "TurnOrder":
        """Makes it of the part `order` of a scope of `size` memories."""
        nothing = np.zeros(0, np.int64)
        rows, following = (arrays.get(n, nothing).astype(np.int64) for n in ("row", "next_row"))
        return cls.of(rows, following, arrays.get("tokens", np.zeros(size, np.int64)))

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        arrays = (self.smoothing_weight, self.places, self.rows, self.line_weight)
        return self.order.nbytes + sum(a.nbytes for a in arrays)

    @property
    def length(self) -> int:
        """Places of the line, the empty ones at both ends included."""
        return len(self.rows)


def _line(before: np.ndarray) -> tuple[np.ndarray, int]:
    """Returns the place of each memory and the length of the line, from the row before each."""
    first, position, at = np.arange(len(before)), (before >= 0).astype(np.int64), before.copy()
    while len(follows := np.flatnonzero(at >= 0)):  # each round doubles how far back `at` is
        back = at[follows]
        first[follows] = first[back]
        position[follows] += position[back]
        at[follows] = at[back]
    sizes = np.bincount(first, minlength=len(before))
    gaps = np.where(sizes > 0, sizes + REACH, 0)
    starts = np.cumsum(gaps) - gaps + REACH
    return starts[first] + position, int(gaps.sum()) + REACH
