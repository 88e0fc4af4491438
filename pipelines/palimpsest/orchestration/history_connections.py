"""Cheaper SQLite connections to Dagster's run history while a build writes it.

Dagster opens and closes a connection for every statement of an event. When the last connection to a file closes, SQLite
moves its write-ahead log into the file; every commit syncs the log. Here one idle connection keeps each file open until
the runs end, and commits are not synced: a loss of power can lose the last events of a run, but cannot damage a file
(https://sqlite.org/pragma.html#pragma_synchronous).
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_BUSY_TIMEOUT_S = 30


@contextmanager
def cheap_connections(folder: Path) -> Iterator[None]:
    """Makes SQLAlchemy's SQLite connections to files below a folder cheap, until the context ends.

    Args:
        folder: the home's DAGSTER_HOME; other databases of this process are not changed.
    """
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    root = folder.resolve()
    idle: dict[Path, sqlite3.Connection] = {}

    def configure(connection: Any, _: object) -> None:
        if not isinstance(connection, sqlite3.Connection):
            return
        path = Path(connection.execute("PRAGMA database_list").fetchone()[2])
        if root not in path.parents:
            return
        connection.execute("PRAGMA synchronous = NORMAL")
        if path not in idle and connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
            idle[path] = _open_log(path)

    event.listen(Engine, "connect", configure)
    try:
        yield
    finally:
        event.remove(Engine, "connect", configure)
        for connection in idle.values():
            connection.close()


def _open_log(path: Path) -> sqlite3.Connection:
    """Returns a connection that has the file and its write-ahead log open, and no transaction."""
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return connection
