"""Reads and cleans SQLite files of a home: Dagster's run history and the ledger of a language model's answers."""

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
_LOCK_WAIT_S = 30.0


def connect(path: Path) -> sqlite3.Connection:
    """Opens a file for reading and cleaning; waits for another writer, and overwrites what it deletes."""
    db = sqlite3.connect(path, timeout=_LOCK_WAIT_S, isolation_level=None)
    db.execute("PRAGMA secure_delete = ON")
    db.execute("PRAGMA temp_store = MEMORY")
    return db


def read_rows(path: Path) -> Iterator[tuple[str, tuple[str, ...], tuple[Any, ...]]]:
    """Yields (table, columns, row) of every row of every table."""
    with closing(connect(path)) as db:
        for (table,) in db.execute(_TABLES).fetchall():
            rows = db.execute(f"SELECT * FROM {quote_name(table)}")
            columns = tuple(c[0] for c in rows.description)
            for row in rows:
                yield table, columns, row


def row_text(row: tuple[Any, ...]) -> str:
    """Returns the texts of a row, one a line; zlib data is unpacked, as Dagster packs its snapshots."""
    return "\n".join(_decode_value(value) for value in row if isinstance(value, str | bytes))


def compact(path: Path) -> None:
    """Rewrites a file without the pages of deleted rows, its write-ahead log included."""
    with closing(connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def quote_name(name: str) -> str:
    """Returns a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def _decode_value(value: str | bytes) -> str:
    if isinstance(value, str):
        return value
    if value[:1] == b"\x78":
        with suppress(zlib.error):
            value = zlib.decompress(value)
    return value.decode("utf-8", "replace")
