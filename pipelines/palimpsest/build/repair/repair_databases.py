"""Puts damaged SQLite databases aside, so that new ones are begun: Dagster's run history, the ledger of answers."""

import sqlite3
from contextlib import closing
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.store.home import Home

_CHECK = "PRAGMA quick_check(1)"
_HISTORY = ("history/runs.db", "history/runs/index.db", "schedules/schedules.db")
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PRIMARY = 0xFF  # bits of an error code of SQLite that say its kind
DAMAGED = ".damaged-"
"""Part of the name of a database that was put aside; a delete removes these, for nothing can be looked for in them."""


def repair_history(home: Home) -> list[str]:
    """Puts damaged databases of Dagster aside; returns a line for each."""
    return [
        f"Dagster's {path.relative_to(home.dagster)} was damaged; a new one is begun, the old one is {_put_aside(path)}"
        for path in damaged_history(home)
    ]


def repair_ledger(home: Home, after_ns: int, allow_lost: bool) -> list[str]:
    """Puts a damaged ledger of answers aside; returns a line for it.

    Args:
        home: the home.
        after_ns: time of change from which on it is read.
        allow_lost: go on without the answers that were paid.

    Raises:
        PalimpsestError: it is damaged, and `allow_lost` is not given.
    """
    if not is_ledger_damaged(home, after_ns):
        return []
    if not allow_lost:
        raise PalimpsestError(
            f"{home.lm_ledger.name}: damaged; its answers were paid: restore a backup with palimpsest restore, or "
            f"--allow-lost puts it aside and goes on without them ({home.lm_ledger})"
        )
    return [f"{home.lm_ledger.name} was damaged; a new one is begun, the old one is {_put_aside(home.lm_ledger)}"]


def damaged_history(home: Home) -> list[Path]:
    """Returns the databases of Dagster that are damaged."""
    paths = [path for name in _HISTORY if (path := home.dagster / name).is_file()]
    return [path for path in paths if _is_damaged(path) or _is_half_made(path)]


def is_ledger_damaged(home: Home, after_ns: int = 0) -> bool:
    """Returns whether the ledger of answers is damaged; it is read where it changed after `after_ns`."""
    path = home.lm_ledger
    return path.is_file() and path.stat().st_mtime_ns > after_ns and _is_damaged(path)


def remove_damaged(home: Home) -> None:
    """Removes the databases that were put aside."""
    for folder in (home.path.glob(f"*{DAMAGED}*"), home.dagster.rglob(f"*{DAMAGED}*")):
        for path in folder:
            path.unlink()


def _is_damaged(path: Path) -> bool:
    if path.stat().st_size == 0:  # SQLite takes it for a new database, Dagster for one that it made
        log = _beside(path, "-wal")
        return not log.is_file() or log.stat().st_size == 0
    try:
        with closing(sqlite3.connect(path, timeout=30)) as db:
            return bool(db.execute(_CHECK).fetchall() != [("ok",)])
    except sqlite3.DatabaseError as e:
        # A database that is locked, or a disk that is full, is no damage.
        return e.sqlite_errorcode & _PRIMARY in _DAMAGE or e.sqlite_errorcode == sqlite3.SQLITE_IOERR_SHORT_READ


def _is_half_made(path: Path) -> bool:
    """Returns whether Dagster was stopped while it made a database: it writes the revision of the tables last.

    Dagster itself would take it for one of an earlier version, and no run of the home would start any more.
    """
    try:
        with closing(sqlite3.connect(path, timeout=30)) as db:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            has_revision = "alembic_version" in tables and bool(db.execute("SELECT * FROM alembic_version").fetchall())
    except sqlite3.DatabaseError:
        return False
    return bool(tables) and not has_revision


def _put_aside(path: Path) -> str:
    number = 1
    while (aside := path.with_name(f"{path.name}{DAMAGED}{number}")).exists():
        number += 1
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        _beside(path, suffix).unlink(missing_ok=True)
    return aside.name


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
