"""Removes from Dagster's run history what names something that was deleted; every other run stays."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from palimpsest.build.delete.probes import Probes
from palimpsest.build.delete.proof import holds
from palimpsest.build.delete.sqlite import cells, compact, connect, quoted, text_of
from palimpsest.core.errors import PalimpsestError
from palimpsest.store.home import Home

_AT_ONCE = 500
_PARTITION = "dagster/partition"


def forget_runs(home: Home, probes: Probes, collection: str | None = None) -> int:
    """Deletes the runs whose events, logs or settings hold a probe; returns how many runs went.

    Args:
        home: the home.
        probes: what must not be found.
        collection: a collection that goes whole: the runs of its partition go too.

    Raises:
        PalimpsestError: another process is writing the history.
    """
    if not home.dagster.is_dir():
        return 0
    found = [
        p for p in sorted(home.dagster.rglob("*")) if p.is_file() and p.name != "dagster.yaml" and holds(p, probes)
    ]
    if not found and collection is None:
        return 0
    try:
        runs = {run for path in found for run in _runs_named(home, path, probes)}
        runs = _delete_runs(home, runs, collection)
        for path in (p for p in home.dagster.rglob("*") if p.is_file() and p.name != "dagster.yaml"):
            if path.suffix == ".db":
                _clean(path, probes)
        for path in (p for p in found if p.suffix != ".db" and p.exists()):
            if holds(path, probes):
                path.unlink()
    except sqlite3.OperationalError as e:
        raise PalimpsestError(
            f"delete: Dagster's run history is in use ({e}); stop palimpsest dev, then delete again"
        ) from None
    return len(runs)


def _runs_named(home: Home, path: Path, probes: Probes) -> set[str]:
    """Returns the runs that a file is of, or that those rows of it are of that hold a probe."""
    parts = path.relative_to(home.dagster).parts
    if parts[:1] == ("storage",) and len(parts) > 1:
        return {parts[1]}
    if path.suffix != ".db":
        return set()
    named = set()
    for _, columns, row in cells(path):
        if "run_id" in columns and probes.any_in(text_of(row).encode("utf-8", "surrogatepass")):
            named.add(str(row[columns.index("run_id")]))
    return named


def _delete_runs(home: Home, runs: set[str], collection: str | None) -> set[str]:
    import dagster as dg

    with dg.DagsterInstance.from_config(str(home.dagster.resolve())) as instance:
        if collection is not None:
            of_partition = dg.RunsFilter(tags={_PARTITION: collection})
            runs = runs | {record.dagster_run.run_id for record in instance.get_run_records(filters=of_partition)}
            instance.delete_dynamic_partition("collections", collection)
        for run in sorted(runs):
            if instance.has_run(run):
                instance.delete_run(run)
    for run in runs:
        shutil.rmtree(home.dagster / "storage" / run, ignore_errors=True)
        for path in (home.dagster / "history" / "runs").glob(f"{run}.db*"):
            path.unlink()
    return runs


def _clean(path: Path, probes: Probes) -> None:
    """Deletes rows that still hold a probe, such as the last event of an asset, and the bytes of deleted rows."""
    with closing(connect(path)) as db:
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            name = quoted(table)
            rows = db.execute(f"SELECT rowid, * FROM {name}")
            gone: list[int] = []
            while some := rows.fetchmany(_AT_ONCE):
                gone += [some[i][0] for i in probes.rows_in([text_of(r[1:]) for r in some])]
            db.executemany(f"DELETE FROM {name} WHERE rowid = ?", [(g,) for g in gone])
    compact(path)
