"""What a scope needs at every query, held in memory: vectors, flags and graph, least recently used first to go."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from palimpsest.text.terms import terms as terms_of


class Sized(Protocol):
    """Anything that knows how many bytes it holds."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""


def rows_of(known: np.ndarray, ids: Iterable[str]) -> np.ndarray:
    """Returns the local rows of memories by their ids, all of them among `known`, which are ascending."""
    return np.searchsorted(known, np.array(list(ids), dtype=object))


class ByteCache:
    """A cache bounded in bytes, safe to share between threads: one of them loads a value while the others wait."""

    def __init__(self, limit_bytes: int):
        self._limit, self._used = limit_bytes, 0
        self._held: OrderedDict[Hashable, Sized] = OrderedDict()
        self._loading: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, load: Callable[[], Any]) -> Any:
        """Returns the value of `key`, made by `load` where it is not held; the newest is held whatever its size."""
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
        """Returns the value of `key`, or None where it is not held."""
        with self._lock:
            return self._find(key)

    def put(self, key: Hashable, value: Sized) -> None:
        """Holds a value and lets go of the least recently used ones that no longer fit."""
        with self._lock:
            if (old := self._held.pop(key, None)) is not None:
                self._used -= old.nbytes
            self._held[key] = value
            self._used += value.nbytes
            while self._used > self._limit and len(self._held) > 1:
                self._used -= self._held.popitem(last=False)[1].nbytes

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._held.clear()
            self._used = 0

    def _find(self, key: Hashable) -> Any:
        value = self._held.get(key)
        if value is not None:
            self._held.move_to_end(key)
        return value


@dataclass(frozen=True)
class ScopeVectors:
    """A scope's vectors: matrices of shape (m, 384) float32, one below the other, as they were read.

    `starts` says at which vector each memory's windows start, shape (memories,).
    """

    matrices: tuple[np.ndarray, ...]
    starts: np.ndarray
    count: int

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(m.nbytes for m in self.matrices) + self.starts.nbytes

    def cosines(self, query: np.ndarray) -> np.ndarray:
        """Returns the cosine of each memory's best window with the unit query, shape (memories,) float64."""
        # Row by row in this thread: as fast as BLAS threads for one client, and twenty times faster for eight at once.
        scores = np.concatenate([np.vecdot(m, query) for m in self.matrices])
        if len(self.starts) < self.count:
            scores = np.maximum.reduceat(scores, self.starts)
        return scores.astype(np.float64)

    def cosines_of(self, rows: np.ndarray, query: np.ndarray) -> np.ndarray:
        """Returns what `cosines` says of some local rows, reading no others; shape (len(rows),) float64."""
        ends = np.append(self.starts[1:], self.count)
        windows = [np.arange(self.starts[r], ends[r]) for r in rows]
        wanted = np.concatenate(windows)
        below = np.cumsum([0, *(len(m) for m in self.matrices)])
        found = np.empty((len(wanted), len(query)), np.float32)
        for matrix, first, last in zip(self.matrices, below, below[1:], strict=False):
            here = np.flatnonzero((wanted >= first) & (wanted < last))
            found[here] = matrix[wanted[here] - first]
        return np.maximum.reduceat(np.vecdot(found, query), np.cumsum([0, *map(len, windows[:-1])])).astype(np.float64)


@dataclass(frozen=True)
class Postings:
    """Where a term occurs: local rows, ascending, and the BM25 score of each."""

    rows: np.ndarray
    scores: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes held, the bookkeeping of one entry included."""
        return self.rows.nbytes + self.scores.nbytes + 400

    def scores_of(self, rows: np.ndarray) -> np.ndarray:
        """Returns the score of each of some local rows, 0 where the term does not occur."""
        if len(self.rows) == 0:
            return np.zeros(len(rows))
        at = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return np.where(self.rows[at] == rows, self.scores[at], 0.0)


@dataclass(frozen=True)
class Vocabulary:
    """Every term of a scope and its postings."""

    postings: dict[str, Postings]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(p.nbytes for p in self.postings.values())


@dataclass(frozen=True)
class Terms:
    """Where the postings of a scope's terms lie: terms, ascending, the first place of each and how many."""

    names: np.ndarray
    first: np.ndarray
    df: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes held: about 64 for each term."""
        return 64 * len(self.names) + self.first.nbytes + self.df.nbytes

    def find(self, terms: Iterable[str]) -> list[tuple[str, int, int]]:
        """Returns (term, first, df) of those terms that occur, ascending."""
        found = []
        for term in sorted(set(terms)):
            at = int(np.searchsorted(self.names, term))
            if at < len(self.names) and self.names[at] == term:
                found.append((term, int(self.first[at]), int(self.df[at])))
        return found


@dataclass(frozen=True)
class Rows:
    """A scope's memories by local row, as they were read, and how many characters their texts have."""

    values: list[tuple[Any, ...]]
    characters: int

    @property
    def nbytes(self) -> int:
        """Bytes held: about 1,500 for a memory beside its text."""
        return 1500 * len(self.values) + 2 * self.characters


@dataclass(frozen=True)
class Flags:
    """Which local rows are candidates, shape (memories,) bool."""

    values: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.values.nbytes


@dataclass(frozen=True)
class Ids:
    """Memory ids by local row, ascending, and for the id of a newer memory those it replaced directly."""

    values: np.ndarray
    replaced: dict[str, list[str]]

    @property
    def nbytes(self) -> int:
        """Bytes held: about 73 for each string of 16 characters."""
        return 73 * (len(self.values) + 4 * len(self.replaced))

    def row(self, memory_id: str) -> int:
        """Returns the local row of an id, -1 where the scope does not hold it."""
        row = int(np.searchsorted(self.values, memory_id))
        return row if row < len(self.values) and self.values[row] == memory_id else -1

    def chain(self, memory_id: str) -> list[str]:
        """Returns every memory that this one replaced, directly or through another."""
        found: dict[str, None] = {}
        waiting = list(self.replaced.get(memory_id, ()))
        while waiting:
            older = waiting.pop()
            if older not in found and older != memory_id:
                found[older] = None
                waiting += self.replaced.get(older, ())
        return list(found)


@dataclass(frozen=True)
class Told:
    """Why memories of a scope were retired or kept, by id: lines of JSON, as `memories.reasons` tells them."""

    values: dict[str, list[str]]

    @classmethod
    def of(cls, rows: Iterable[tuple[str, str]]) -> "Told":
        """Groups (memory id, line), in order."""
        values: dict[str, list[str]] = {}
        for memory_id, line in rows:
            values.setdefault(memory_id, []).append(line)
        return cls(values)

    @property
    def nbytes(self) -> int:
        """Bytes held, about."""
        return sum(250 + sum(map(len, lines)) for lines in self.values.values())

    def among(self, ids: Iterable[str]) -> dict[str, list[str]]:
        """Returns what is told of those ids that anything is told of."""
        return {i: self.values[i] for i in ids if i in self.values}


@dataclass(frozen=True)
class Topics:
    """Which memory belongs to which topic, and how much: local row, local topic and relevance of each.

    Of each topic its label, and the broader topic that it is below, -1 where it is below none.
    """

    rows: np.ndarray
    topics: np.ndarray
    relevance: np.ndarray
    labels: np.ndarray
    parents: np.ndarray

    @cached_property
    def terms(self) -> list[frozenset[str]]:
        """Terms of each label, as a query's are."""
        return [frozenset(terms_of(str(label))) for label in self.labels]

    @property
    def nbytes(self) -> int:
        """Bytes held; labels and their terms count 200 each."""
        return (
            self.rows.nbytes + self.topics.nbytes + self.relevance.nbytes + self.parents.nbytes + 200 * len(self.labels)
        )
