"""What Dagster keeps of a collection that is deleted whole: runs, partitions, backfills, ticks, checks.

The name of a collection is too common a word to search for, so what names it is found by its columns. Runs of one
partition name that collection alone. Every other run may name any collection, in its metadata or in a message: all of
them are deleted, and so are ticks and backfills that have the name anywhere.
"""

from typing import Any

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
    for connect, table, condition in parts:
        with connect() as db:
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
