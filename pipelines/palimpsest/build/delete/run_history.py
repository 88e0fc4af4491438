"""Deletes from Dagster's run history the runs that contain something that was deleted; every other run stays."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from palimpsest.build.delete.collection_runs import forget_collection, rows_of_collection, runs_to_delete
from palimpsest.build.delete.probes import Probes
from palimpsest.build.delete.proof import contains_probe
from palimpsest.build.delete.run_storage import run_tables
from palimpsest.build.delete.sqlite import compact, connect, quote_name, read_rows, row_text
from palimpsest.core.errors import PalimpsestError
from palimpsest.store.home import Home

_BATCH_ROWS = 500


def delete_runs(home: Home, probes: Probes, collection: str | None = None) -> int:
    """Deletes the runs whose events, logs or settings contain a probe; returns how many.

    Args:
        home: the home.
        probes: what must not be found afterwards.
        collection: a collection that is deleted whole: runs and other rows that name it are deleted too.

    Raises:
        PalimpsestError: another process is writing the history.
    """
    if not home.dagster.is_dir():
        return 0
    with run_tables(home) as tables:
        in_tables = tables.runs_with(probes) if tables else set()
        count = _delete_runs(home, probes, collection, in_tables)
        if tables is not None:
            tables.delete_rows(probes)
    return count


def _delete_runs(home: Home, probes: Probes, collection: str | None, runs: set[str]) -> int:
    found = [path for path in _history_files(home) if contains_probe(path, probes)]
    if not found and not runs and collection is None:
        return 0
    try:
        runs = runs | {run for path in found for run in _find_runs(home, path, probes)}
        runs = _delete_dagster_runs(home, runs, collection)
        for path in _history_files(home):
            if path.name.endswith(".db"):  # `.db` alone has the events of no run
                _delete_matching_rows(path, probes)
        for path in (p for p in found if p.suffix != ".db" and p.exists()):
            if contains_probe(path, probes):
                path.unlink()
    except sqlite3.OperationalError as e:
        raise PalimpsestError(
            f"delete: Dagster's run history is in use ({e}); stop palimpsest dev, then delete again"
        ) from None
    return len(runs)


def search_collection(home: Home, collection: str) -> list[str]:
    """Returns the tables of Dagster in which rows of a deleted collection are left."""
    if not home.dagster.is_dir():
        return []
    import dagster as dg

    with dg.DagsterInstance.from_config(str(home.dagster.resolve())) as instance:
        return rows_of_collection(instance, collection)


def _history_files(home: Home) -> list[Path]:
    return [p for p in sorted(home.dagster.rglob("*")) if p.is_file() and p.name != "dagster.yaml"]


def _find_runs(home: Home, path: Path, probes: Probes) -> set[str]:
    """Returns the run that a file belongs to; for a database, the runs of its rows that contain a probe."""
    parts = path.relative_to(home.dagster).parts
    if parts[:1] == ("storage",) and len(parts) > 1:
        return {parts[1]}
    if path.suffix != ".db":
        return set()
    named = set()
    for _, columns, row in read_rows(path):
        if "run_id" in columns and probes.any_in(row_text(row).encode("utf-8", "surrogatepass")):
            named.add(str(row[columns.index("run_id")]))
    return named


def _delete_dagster_runs(home: Home, runs: set[str], collection: str | None) -> set[str]:
    import dagster as dg

    with dg.DagsterInstance.from_config(str(home.dagster.resolve())) as instance:
        if collection is not None:
            runs = runs | runs_to_delete(instance, collection)
        for run in sorted(runs):
            if instance.has_run(run):
                instance.delete_run(run)
        if collection is not None:
            forget_collection(instance, collection)
    for run in runs:
        remove_run_files(home, run)
    return runs


def remove_run_files(home: Home, run_id: str) -> None:
    """Removes the logs and the events of a run that Dagster has deleted."""
    shutil.rmtree(home.dagster / "storage" / run_id, ignore_errors=True)
    for path in (home.dagster / "history" / "runs").glob(f"{run_id}.db*"):
        path.unlink()


def _delete_matching_rows(path: Path, probes: Probes) -> None:
    """Deletes rows that still contain a probe, such as the last event of an asset, and the bytes of deleted rows."""
    with closing(connect(path)) as db:
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            name = quote_name(table)
            rows = db.execute(f"SELECT rowid, * FROM {name}")
            gone: list[int] = []
            while batch := rows.fetchmany(_BATCH_ROWS):
                gone += [batch[i][0] for i in probes.rows_in([row_text(r[1:]) for r in batch])]
            db.executemany(f"DELETE FROM {name} WHERE rowid = ?", [(rowid,) for rowid in gone])
    compact(path)
