"""The usage log of a home: when memories were results of a search, which `--accessed-within` filters by.

`<home>/usage/reads.jsonl` has a line of JSON for each minute and scope of a batch: ids of memories and how often each
was read, never a word of a question, and a hash in place of the scope's names. Several processes append under one lock;
what a crash left half written is skipped. A delete keeps only ids that a kept build still has, and begins a new epoch:
a reader that was opened before it writes nothing any more, for it may still return what was deleted.
"""

import datetime as dt
import json
import logging
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from palimpsest.core.environment import whole_number
from palimpsest.core.files import write_bytes, write_private
from palimpsest.core.ids import ScopeKey, content_id, scope_parts

DAYS_VARIABLE = "PALIMPSEST_USAGE_DAYS"
_BATCH_READS, _BATCH_S = 500, 60.0
_MIN_COMPACT_BYTES = 4 * 2**20
_EXACT_S = 2 * 86_400  # older reads of a memory are merged by day
_LOCK_WAIT_S = 2.0
_DAY_S = 86_400

_Counts = Counter[tuple[int, str, str]]
"""Reads by (second since 1970 of the minute, scope, memory id)."""


class _Read(NamedTuple):
    time: int
    scope: str
    memory_id: str
    reads: int


def usage_days() -> int:
    """Returns for how many days reads are kept: $PALIMPSEST_USAGE_DAYS, else 90; 0 means that none is counted.

    Raises:
        PalimpsestError: the variable is no whole number from 0 to 3,650.
    """
    return whole_number(DAYS_VARIABLE)


class UsageLog:
    """Counts reads of one reader, and appends them in batches. Safe to share between threads."""

    def __init__(self, home: Path, days: int, clock: Callable[[], dt.datetime]):
        """Makes a log of the epoch that is current; make it before the index is opened.

        Args:
            home: the home's folder.
            days: for how many days reads are kept.
            clock: the time, in UTC.
        """
        self.days, self._home, self._clock, self._epoch = days, home, clock, _read_epoch(home)
        self._pending: _Counts = Counter()
        self._since, self._compact_at = time.monotonic(), _MIN_COMPACT_BYTES
        self._mutex, self._is_off = threading.Lock(), False

    def renewed(self) -> "UsageLog":
        """Writes what is waiting, and returns a log of the current epoch: make it before another build is opened."""
        self.flush()
        return UsageLog(self._home, self.days, self._clock)

    def add(self, reads: Iterable[tuple[ScopeKey, str]]) -> None:
        """Counts one read of each memory, by its scope and id; writes when enough are waiting."""
        minute = int(self._clock().timestamp()) // 60 * 60
        with self._mutex:
            if self._is_off:
                return
            if not self._pending:
                self._since = time.monotonic()
            self._pending.update((minute, scope_key(scope), memory_id) for scope, memory_id in reads)
            is_due = self._pending.total() >= _BATCH_READS or time.monotonic() - self._since > _BATCH_S
        if is_due:
            self.flush()

    def flush(self) -> None:
        """Writes what is waiting. A home that cannot be written counts nothing, and no search fails for it."""
        with self._mutex:
            if self._pending and not self._is_off:
                try:
                    with _lock(self._home):
                        self._append()
                    self._pending.clear()
                except Timeout:
                    self._is_off = self._pending.total() > 100 * _BATCH_READS  # the next flush tries again
                except OSError as e:
                    logging.getLogger(__name__).warning("reads are not counted: %s", e)
                    self._is_off = True

    def accessed_since(self, scope: ScopeKey, since: dt.datetime) -> frozenset[str]:
        """Returns the ids of the memories of a scope that were read at or after a time."""
        self.flush()
        key, first = scope_key(scope), int(since.timestamp()) // 60 * 60
        return frozenset(r.memory_id for r in _reads(_path(self._home)) if r.scope == key and r.time >= first)

    def count_reads(self, scope: ScopeKey) -> Counter[str]:
        """Returns how often each memory of a scope was a result of a search, as far back as reads are kept."""
        self.flush()
        key, counts = scope_key(scope), Counter[str]()
        for read in _reads(_path(self._home)):
            if read.scope == key:
                counts[read.memory_id] += read.reads
        return counts

    def _append(self) -> None:
        if _read_epoch(self._home) != self._epoch:
            self._is_off = True  # something was deleted since the index was opened
            return
        path = _path(self._home)
        data = b"".join(_lines(self._pending))
        with path.open("ab") as file:
            path.chmod(0o600)
            if file.tell() and not _ends_with_newline(path):
                data = b"\n" + data  # a crash left half a line
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        if size > self._compact_at:
            _rewrite(path, _compacted(_reads(path), int(self._clock().timestamp()), self.days))
            self._compact_at = max(_MIN_COMPACT_BYTES, 2 * path.stat().st_size)


def reads_of(home: Path, memory_ids: Collection[str]) -> dict[str, tuple[int, int]]:
    """Returns (reads, second since 1970 of the last minute) of memories, as far back as reads are kept."""
    found: dict[str, tuple[int, int]] = {}
    for read in _reads(_path(home)):
        if read.memory_id in memory_ids:
            reads, last = found.get(read.memory_id, (0, 0))
            found[read.memory_id] = (reads + read.reads, max(last, read.time))
    return found


def first_read(home: Path) -> int | None:
    """Returns the second since 1970 of the first read that the log has; None where it has none."""
    return min((read.time for read in _reads(_path(home))), default=None)


def keep_reads(home: Path, memory_ids: Collection[str]) -> int:
    """Removes the reads of all memories but these, and begins a new epoch; returns how many memories were removed.

    Call it after the builds were rewritten: a reader that is opened later returns nothing that was deleted.
    """
    with _lock(home, -1):
        write_bytes(_epoch_path(home), uuid.uuid4().hex.encode())
        if not (path := _path(home)).exists():
            return 0
        reads = list(_reads(path))
        kept: _Counts = Counter()
        for read in reads:
            if read.memory_id in memory_ids:
                kept[read[:3]] += read.reads
        _rewrite(path, kept)
        return len({r.memory_id for r in reads} - {i for _, _, i in kept})


def scope_key(scope: ScopeKey) -> str:
    """Returns what the log has in place of a scope's names."""
    return content_id("usage", *scope_parts(*scope))


def _compacted(reads: Iterable[_Read], now: int, days: int) -> _Counts:
    """Returns reads without those that are too old; of each day before the last two, only a memory's last minute."""
    kept: _Counts = Counter()
    last: dict[tuple[int, str, str], int] = {}
    counts: Counter[tuple[int, str, str]] = Counter()
    for read in reads:
        if read.time < now - days * _DAY_S:
            continue
        if read.time >= now - _EXACT_S:
            kept[read[:3]] += read.reads
        else:
            key = (read.time // _DAY_S, read.scope, read.memory_id)
            last[key] = max(last.get(key, 0), read.time)
            counts[key] += read.reads
    for key, latest in last.items():
        kept[(latest, key[1], key[2])] += counts[key]
    return kept


def _lines(counts: _Counts) -> Iterator[bytes]:
    grouped: dict[tuple[int, str], dict[str, int]] = {}
    for (minute, scope, memory_id), count in sorted(counts.items()):
        grouped.setdefault((minute, scope), {})[memory_id] = count
    for (minute, scope), memories in grouped.items():
        yield json.dumps({"time": minute, "scope": scope, "memories": memories}, separators=(",", ":")).encode() + b"\n"


def _reads(path: Path) -> Iterator[_Read]:
    try:
        lines = path.read_bytes().splitlines()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    for line in lines:
        try:
            row = json.loads(line)
            found = [_Read(int(row["time"]), str(row["scope"]), i, int(n)) for i, n in row["memories"].items()]
        except (ValueError, TypeError, KeyError, AttributeError):
            continue  # half a line, left by a crash
        yield from found


def _rewrite(path: Path, counts: _Counts) -> None:
    write_private(path, b"".join(_lines(counts)))


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _read_epoch(home: Path) -> str:
    try:
        return _epoch_path(home).read_text(encoding="utf-8")
    except OSError:  # flush reports a home that cannot be written
        return ""


def _path(home: Path) -> Path:
    return home / "usage" / "reads.jsonl"


def _epoch_path(home: Path) -> Path:
    return home / "usage" / "epoch"


def _lock(home: Path, wait_s: float = _LOCK_WAIT_S) -> FileLock:
    (home / "usage").mkdir(mode=0o700, exist_ok=True)
    return FileLock(home / "usage" / ".lock", timeout=wait_s)
