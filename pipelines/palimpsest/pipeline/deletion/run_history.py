"""Deletes from Dagster's run history the runs that contain something that was deleted; every other run stays."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from palimpsest.core.errors import PalimpsestError
from palimpsest.pipeline.deletion.proof import Probes, compact, connect, contains_probe, quote_name, read_rows, row_text
from palimpsest.pipeline.deletion.run_storage import run_tables
from palimpsest.store.home import Home

# What Dagster keeps of a collection that is deleted whole: runs, partitions, backfills, ticks, checks.
#
# The name of a collection is too common a word to search for, so what names it is found by its columns. Runs of one
# partition name that collection alone. Every other run may name any collection, in its metadata or in a message: all of
# them are deleted, and so are ticks and backfills that have the name anywhere.

_PARTITION, _PARTITIONS = "dagster/partition", "collections"
_TAGS = (_PARTITION, "dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
_NAMES = ("palimpsest/collection", f"{_PARTITION}/collection")


def runs_to_delete(instance: Any, collection: str) -> set[str]:
    """Returns the ids of the runs that name, or may name, a collection: all but those of other partitions."""
    found = set()
    for run in instance.get_runs():
        keys = [run.tags[tag] for tag in _TAGS if tag in run.tags]
        names = {key.split("|")[0] for key in keys} | {run.tags[tag] for tag in _NAMES if tag in run.tags}
        if not keys or collection in names:
            found.add(run.run_id)
    return found


def forget_collection(instance: Any, collection: str) -> None:
    """Removes the partition of a collection, and every row that names it; its runs are deleted before."""
    from dagster._core.storage.event_log.schema import AssetKeyTable
    from dagster._core.storage.runs.schema import BackfillTagsTable, BulkActionsTable
    from dagster._core.storage.schedules.schema import JobTickTable
    from sqlalchemy import or_, select

    instance.delete_dynamic_partition(_PARTITIONS, collection)
    quoted = f'"{collection}'
    with instance.run_storage.connect() as db:
        backfills = _has(BulkActionsTable.c.body, quoted) | _has(BulkActionsTable.c.body, f'\\"{collection}')
        ids = select(BulkActionsTable.c.key).where(backfills)
        db.execute(BackfillTagsTable.delete().where(BackfillTagsTable.c.backfill_id.in_(ids)))
        db.execute(BulkActionsTable.delete().where(backfills))
    with instance.schedule_storage.connect() as db:
        db.execute(JobTickTable.delete().where(_has(JobTickTable.c.tick_body, collection)))
    with _events_without_a_run(instance) as db:
        table, condition = _event_rows(collection)[0]
        db.execute(table.delete().where(condition))
    with instance.event_log_storage.index_connection() as db:
        for table, condition in _event_rows(collection):
            db.execute(table.delete().where(condition))
        columns = (AssetKeyTable.c.last_materialization, AssetKeyTable.c.cached_status_data)
        named = or_(*(_has(column, collection) for column in columns))
        db.execute(AssetKeyTable.update().where(named).values({column.name: None for column in columns}))
    for state in instance.all_instigator_state():
        key = getattr(state.instigator_data, "last_run_key", None)
        if key and key.split("/")[-1] == collection:
            instance.update_instigator_state(state.with_data(state.instigator_data._replace(last_run_key=None)))


def rows_of_collection(instance: Any, collection: str) -> list[str]:
    """Returns the tables of Dagster that still have rows of a collection: the proof of `forget_collection`."""
    from dagster._core.storage.event_log.schema import DynamicPartitionsTable
    from dagster._core.storage.runs.schema import BulkActionsTable, RunTagsTable
    from sqlalchemy import func, select

    partitions, is_name = DynamicPartitionsTable.c, RunTagsTable.c.key.in_((*_TAGS, *_NAMES))
    parts = [
        (instance.run_storage.connect, RunTagsTable, is_name & _is_partition(RunTagsTable.c.value, collection)),
        (instance.run_storage.connect, BulkActionsTable, _has(BulkActionsTable.c.body, f'"{collection}"')),
        (
            instance.event_log_storage.index_connection,
            DynamicPartitionsTable,
            (partitions.partitions_def_name == _PARTITIONS) & (partitions.partition == collection),
        ),
        *((instance.event_log_storage.index_connection, *part) for part in _event_rows(collection)),
        (lambda: _events_without_a_run(instance), *_event_rows(collection)[0]),
    ]
    found = set()
    for opened, table, condition in parts:
        with opened() as db:
            if db.execute(select(func.count()).select_from(table).where(condition)).scalar():
                found.add(f"Dagster's table {table.name}")
    return sorted(found)


def _events_without_a_run(instance: Any) -> Any:
    """Returns a connection to the events that people or sensors report; SQLite has them in a file of their own."""
    return instance.event_log_storage.run_connection("")


def _event_rows(collection: str) -> list[tuple[Any, Any]]:
    """Returns tables of events, each with the condition of the rows that are of a collection's partitions."""
    from dagster._core.storage.event_log.schema import (
        AssetCheckExecutionsTable,
        AssetEventTagsTable,
        SqlEventLogStorageTable,
    )

    checks = AssetCheckExecutionsTable.c
    return [
        (SqlEventLogStorageTable, _is_partition(SqlEventLogStorageTable.c.partition, collection)),
        (AssetEventTagsTable, _is_partition(AssetEventTagsTable.c.value, collection)),
        (AssetCheckExecutionsTable, _has(checks.evaluation_event, collection)),
    ]


def _is_partition(column: Any, collection: str) -> Any:
    return (column == collection) | column.startswith(f"{collection}|", autoescape=True)


def _has(column: Any, words: str) -> Any:
    return column.contains(words, autoescape=True)


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
