"""Every answer of a language model, kept before anything is made of it: no answered call is paid twice.

A call is written down before it is made: two processes never ask the same, and what a killed one had on its way, which
may have been paid, is counted.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from palimpsest.core.needles import RowSearch
from palimpsest.core.processes import process_started

_TABLE = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, newer_id TEXT NOT NULL, older_id TEXT NOT NULL, program TEXT NOT NULL, model TEXT NOT NULL,
    answer TEXT NOT NULL, tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, cost REAL NOT NULL
) WITHOUT ROWID
"""
_CALLS = """
CREATE TABLE IF NOT EXISTS calls (
    key TEXT NOT NULL, newer_id TEXT NOT NULL, older_id TEXT NOT NULL, pid INTEGER NOT NULL, began TEXT NOT NULL
)
"""
_WAIT_S = 0.1  # between looks at a call that another process has on its way
_PUT = "INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_GET = "SELECT answer, tokens_in, tokens_out, cost FROM answers WHERE key = ?"
_ROWS = {"answers": "SELECT * FROM answers", "calls": "SELECT * FROM calls"}
_FORGET = {"answers": "DELETE FROM answers WHERE key = ?", "calls": "DELETE FROM calls WHERE key = ?"}
_AT_ONCE = 1000
_TOTAL = (
    "SELECT count(*), coalesce(sum(tokens_in), 0), coalesce(sum(tokens_out), 0), coalesce(sum(cost), 0) FROM answers"
)


@dataclass(frozen=True)
class LmAnswer:
    """What a model said, word for word, and what it cost when it was asked."""

    text: str
    tokens_in: int
    tokens_out: int
    cost: float


class Ledger:
    """Answers by key (pair, program, model) in a SQLite file: WAL, each answer committed, erased bytes overwritten."""

    def __init__(self, path: Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, check_same_thread=False, timeout=60, isolation_level=None)
        path.chmod(0o600)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("PRAGMA secure_delete=ON")
        self._db.execute(_TABLE)
        self._db.execute(_CALLS)
        self._holder = (os.getpid(), process_started(os.getpid()) or "")

    def get(self, key: str) -> LmAnswer | None:
        """Returns the answer that was given under this key."""
        with self._lock:
            row = self._db.execute(_GET, [key]).fetchone()
        return LmAnswer(*row) if row else None

    def put(self, key: str, newer_id: str, older_id: str, program: str, model: str, answer: LmAnswer) -> None:
        """Keeps an answer; it is on disk when this returns. The first answer under a key stays."""
        values = [key, newer_id, older_id, program, model]
        with self._lock, self._transaction():
            self._db.execute(_PUT, [*values, answer.text, answer.tokens_in, answer.tokens_out, answer.cost])
            self._end(key)

    def claim(self, key: str, newer_id: str, older_id: str) -> LmAnswer | None:
        """Returns the answer under a key, or None where the caller is the one to ask now, and to `put` or `release`.

        Waits while another has the same call on its way; a process that died has none.
        """
        if known := self.get(key):
            return known
        while True:
            with self._lock, self._transaction():
                if row := self._db.execute(_GET, [key]).fetchone():
                    return LmAnswer(*row)
                asking = self._db.execute("SELECT pid, began FROM calls WHERE key = ?", [key]).fetchall()
                if not any(_lives(*holder) for holder in asking):
                    self._db.execute(
                        "INSERT INTO calls VALUES (?, ?, ?, ?, ?)", [key, newer_id, older_id, *self._holder]
                    )
                    return None
            time.sleep(_WAIT_S)

    def release(self, key: str) -> None:
        """Ends a claimed call that got no answer."""
        with self._lock:
            self._end(key)

    def totals(self) -> dict[str, float]:
        """Returns calls, tokens and cost of all answers kept, and `unheard`: calls whose process died on the way.

        Those may have been answered, and paid: a server's own count lies between `calls` and `calls` + `unheard`.
        """
        with self._lock:
            calls, tokens_in, tokens_out, cost = self._db.execute(_TOTAL).fetchone()
            asking = self._db.execute("SELECT pid, began FROM calls").fetchall()
        unheard = sum(not _lives(*holder) for holder in asking)
        return {"calls": calls, "tokens_in": tokens_in, "tokens_out": tokens_out, "cost": cost, "unheard": unheard}

    def forget(self, probes: RowSearch) -> int:
        """Removes for good the answers that name or quote one of the probes, in any column; returns how many."""
        removed = 0
        with self._lock:
            for table in ("answers", "calls"):
                rows = self._db.execute(_ROWS[table])
                gone: list[tuple[str]] = []
                while some := rows.fetchmany(_AT_ONCE):
                    gone += [(some[i][0],) for i in probes.rows_in(["\n".join(map(str, row)) for row in some])]
                self._db.executemany(_FORGET[table], gone)
                removed += len(gone) if table == "answers" else 0
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            if removed:
                self._db.execute("VACUUM")
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return removed

    def drop(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Removes the answers about these (newer, older) pairs, so that they are asked, and paid, again."""
        with self._lock, self._transaction():
            for pair in pairs:
                self._db.execute("DELETE FROM answers WHERE newer_id = ? AND older_id = ?", pair)

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._db.close()

    def _end(self, key: str) -> None:
        self._db.execute("DELETE FROM calls WHERE key = ? AND pid = ? AND began = ?", [key, *self._holder])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def _lives(pid: int, began: str) -> bool:
    return process_started(pid) == began
