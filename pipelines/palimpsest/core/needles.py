"""Strings to search for, stored as keyed hashes: a file of them serves to search, and shows none of the strings.

A needle is the hash of a string, its length, and a 24-bit hash of its first bytes. Windows of the searched bytes are
hashed with numpy; where a window's 24 bits are those of a needle, the whole string is hashed and compared. One pass
finds any number of needles.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

_WINDOW_BYTES = (32, 16, 8)
_BLOCK_BYTES = 1 << 16
_BUCKET_SHIFT = np.uint64(40)  # leaves 24 bits
_BUCKETS = 1 << 24
_MAX_SORTED_BUCKETS = 2_000
_MULTIPLIERS = tuple(np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))
WORD_BYTES = 8  # shorter needles are found as whole words only

Buffer = bytes | memoryview


@dataclass(frozen=True, slots=True, order=True)
class Needle:
    """A string as a keyed hash. `window` bytes of it make the 24-bit `bucket`; `length` is in bytes of UTF-8."""

    window: int
    bucket: int
    length: int
    digest: str


class RowSearch(Protocol):
    """Finds the rows of text that contain one of a set of strings."""

    def rows_in(self, rows: Sequence[str]) -> list[int]:
        """Returns the indexes of the rows that contain one of the strings, ascending."""
        ...


@dataclass(frozen=True)
class Needles:
    """A set of needles that share a key.

    Attributes:
        key: 8 to 64 bytes; without it the hashes reveal nothing.
        items: the needles, sorted.
    """

    key: bytes
    items: tuple[Needle, ...]

    @classmethod
    def of(cls, strings: Iterable[str], key: bytes | None = None) -> "Needles":
        """Returns the needles of non-empty strings; a new random key where none is given."""
        key = key or secrets.token_bytes(16)
        coded = sorted({encode_text(s) for s in strings} - {b""})
        return cls(key, tuple(sorted(_make_needle(data, key) for data in coded)))

    def __len__(self) -> int:
        return len(self.items)

    def union(self, other: "Needles") -> "Needles":
        """Returns the needles of both.

        Raises:
            ValueError: the keys differ.
        """
        if other.key != self.key:
            raise ValueError("needles with different keys cannot be merged")
        return Needles(self.key, tuple(sorted({*self.items, *other.items})))

    def without(self, found: set[Needle]) -> "Needles":
        """Returns the needles that are not in `found`."""
        return Needles(self.key, tuple(n for n in self.items if n not in found))

    def any_in(self, data: Buffer, min_length: int = 1) -> bool:
        """Returns whether `data` contains a needle of at least `min_length` bytes."""
        return next(self.find(data, min_length), None) is not None

    def found_in(self, data: Buffer) -> set[Needle]:
        """Returns the needles that `data` contains."""
        return {needle for _, _, needle in self.find(data)}

    def rows_in(self, rows: Sequence[str]) -> list[int]:
        """Returns the indexes of the rows that contain a needle, ascending."""
        return rows_containing(lambda data: ((a, b) for a, b, _ in self.find(data)), rows)

    def find(self, data: Buffer, min_length: int = 1) -> Iterator[tuple[int, int, Needle]]:
        """Yields (start, end, needle) in bytes for all occurrences; needles under 8 bytes only as whole words."""
        view = memoryview(data)
        groups = {w: g for w, g in self._groups.items() if w >= min(min_length, WORD_BYTES)}
        if not groups:
            return
        for at in range(0, len(view), _BLOCK_BYTES):
            windows = _BlockHashes(view[at : at + _BLOCK_BYTES + _WINDOW_BYTES[0]], self._seed)
            for window, group in groups.items():
                for offset in windows.candidates(window, group, min(_BLOCK_BYTES, len(view) - at)):
                    start = at + int(offset)
                    for needle in group.needles[int(windows.buckets(window)[offset])]:
                        end = start + needle.length
                        if needle.length < min_length or end > len(view):
                            continue
                        if needle.length < WORD_BYTES and not is_word(view, start, end):
                            continue
                        if _keyed_digest(view[start:end], self.key) == needle.digest:
                            yield start, end, needle

    @cached_property
    def _seed(self) -> np.uint64:
        return _seed(self.key)

    @cached_property
    def _groups(self) -> dict[int, "_WindowNeedles"]:
        by_window: dict[int, dict[int, list[Needle]]] = {}
        for needle in self.items:
            by_window.setdefault(needle.window, {}).setdefault(needle.bucket, []).append(needle)
        return {window: _WindowNeedles(buckets) for window, buckets in sorted(by_window.items())}


class _WindowNeedles:
    """Needles of one window size by bucket, with a quick test of which buckets have one.

    The test is a table of all 24-bit values, or a binary search while the needles are few.
    """

    def __init__(self, needles: dict[int, list[Needle]]):
        self.needles = needles
        self._sorted_buckets = np.array(sorted(needles), dtype=np.uint32)
        self._table = np.zeros(_BUCKETS, dtype=bool) if len(needles) > _MAX_SORTED_BUCKETS else None
        if self._table is not None:
            self._table[self._sorted_buckets] = True

    def find_in(self, buckets: np.ndarray) -> np.ndarray:
        """Returns the indexes of the buckets that have a needle."""
        if self._table is not None:
            return np.flatnonzero(self._table[buckets])
        at = np.searchsorted(self._sorted_buckets, buckets)
        return np.flatnonzero(self._sorted_buckets[np.minimum(at, len(self._sorted_buckets) - 1)] == buckets)


class _BlockHashes:
    """Hashes of the windows that start at each byte of a block; past the end the block is padded with zeros."""

    def __init__(self, block: Buffer, seed: np.uint64):
        size = len(block)
        padded = np.zeros(size + 2 * _WINDOW_BYTES[0] + 8, dtype=np.uint8)
        padded[:size] = np.frombuffer(block, dtype=np.uint8)
        count = (len(padded) - 8) // 8 * 8
        words = np.empty(count, dtype="<u8")
        for r in range(8):
            words[r::8] = padded[r : r + count].view("<u8") if r == 0 else padded[r : r + count].copy().view("<u8")
        self._words, self._seed = words, seed
        self._buckets: dict[int, np.ndarray] = {}
        self._hashes_by_window: dict[int, np.ndarray] = {}

    def buckets(self, window: int) -> np.ndarray:
        """Returns the 24-bit hash of the window at each byte."""
        if window not in self._buckets:
            self._buckets[window] = (self._hashes(window) >> _BUCKET_SHIFT).astype(np.uint32)
        return self._buckets[window]

    def candidates(self, window: int, group: _WindowNeedles, count: int) -> np.ndarray:
        """Returns the offsets below `count` where a needle may start, ascending."""
        found = group.find_in(self.buckets(window))
        return found[found < count]

    def _hashes(self, window: int) -> np.ndarray:
        if window not in self._hashes_by_window:
            if window < WORD_BYTES:
                self._hashes_by_window[window] = _mix_hash(self._words & np.uint64((1 << 8 * window) - 1), self._seed)
            elif window == WORD_BYTES:
                self._hashes_by_window[window] = _mix_hash(self._words, self._seed)
            else:
                half = self._hashes(window // 2)
                self._hashes_by_window[window] = _join_halves(half[: -window // 2], half[window // 2 :])
        return self._hashes_by_window[window]


def rows_containing(find: Callable[[bytes], Iterable[tuple[int, int]]], rows: Sequence[str]) -> list[int]:
    """Returns the indexes of the strings in which `find` finds something, ascending; all are searched at once."""
    parts = [encode_text(r) for r in rows]
    starts = np.cumsum([0, *(len(p) + 1 for p in parts)])
    found = set()
    for start, end in find(b"\0".join(parts)):
        at = int(np.searchsorted(starts, start, side="right")) - 1
        if end < starts[at + 1]:
            found.add(at)
    return sorted(found)


def is_word(view: Buffer, start: int, end: int) -> bool:
    """Returns whether no letter, digit or underscore is next to view[start:end]."""
    around = (view[start - 1] if start else 32, view[end] if end < len(view) else 32)
    return not any(chr(b).isalnum() or b == 95 or b >= 128 for b in around)


def encode_text(text: str) -> bytes:
    """Returns the text as UTF-8; lone surrogates, which file names may contain, are encoded too."""
    return text.encode("utf-8", "surrogatepass")


def _mix_hash(words: np.ndarray, seed: np.uint64) -> np.ndarray:
    mixed = (words ^ seed) * _MULTIPLIERS[0]
    return (mixed ^ (mixed >> np.uint64(29))) * _MULTIPLIERS[1]


def _join_halves(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    joined: np.ndarray = (a * _MULTIPLIERS[2]) ^ (b + (b >> np.uint64(31))) * _MULTIPLIERS[0]
    return joined


def _seed(key: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little"))


def _keyed_digest(data: Buffer, key: bytes) -> str:
    return hashlib.blake2b(data, digest_size=12, key=key).hexdigest()


def _make_needle(data: bytes, key: bytes) -> Needle:
    window = next((w for w in _WINDOW_BYTES if w <= len(data)), len(data))
    bucket = _BlockHashes(data[:window], _seed(key)).buckets(window)[0]
    return Needle(window, int(bucket), len(data), _keyed_digest(data, key))
