"""Where Dagster keeps the run history of a home: SQLite files in the home, or tables of a Postgres database.

A delete must remove what it deletes from the history, and prove it. It can do so in these two places; any other is
refused before anything is deleted.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palimpsest.core.errors import ComponentFailed, PalimpsestError, missing_in
from palimpsest.pipeline.deletion.proof import Probes, Proof, quote_name, row_text
from palimpsest.store.home import Home

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine
    from sqlalchemy.exc import DBAPIError


# Dagster's run history in the tables of a Postgres database: what contains a probe is found and deleted.

_PAGE_ROWS = 500
_TABLES = """
    SELECT tablename, pg_has_role(tableowner, 'USAGE') FROM pg_tables
    WHERE schemaname = current_schema() ORDER BY tablename
"""
_LOCK_WAIT_S = 30
_LOCK_NOT_AVAILABLE = "55P03"
LOST_CONNECTION = "DagsterPostgresException"
"""The type of Dagster's error for a server that did not answer several times."""


@dataclass(frozen=True)
class RunTables:
    """The tables of Dagster's run history in a Postgres database."""

    engine: "Engine"

    def not_owned(self) -> list[str]:
        """Returns the tables of other owners: the server would silently not rewrite them."""
        with self._open() as db:
            return [table for table, is_owned in _tables(db).items() if not is_owned]

    def runs_with(self, probes: Probes) -> set[str]:
        """Returns the runs of the rows that contain a probe, and those whose snapshot does."""
        from sqlalchemy import text

        runs, snapshots = set(), []
        with self._open() as db:
            for table in _tables(db):
                for _, row in _matching(db, table, probes):
                    if row.get("run_id"):
                        runs.add(str(row["run_id"]))
                    if table == "snapshots":
                        snapshots.append(row["snapshot_id"])
            wanted = text("SELECT run_id FROM runs WHERE snapshot_id = ANY(:ids)")
            if snapshots:
                runs |= {str(run) for (run,) in db.execute(wanted, {"ids": snapshots})}
        return runs

    def delete_rows(self, probes: Probes) -> None:
        """Deletes the rows that contain a probe, and rewrites every table, so that no deleted row leaves bytes."""
        from sqlalchemy import text

        with self._open() as db:
            tables = _tables(db)
            for table in tables:
                # The place of a row is the same until the end of the transaction only while nobody else writes.
                db.execute(text(f"LOCK TABLE {quote_name(table)} IN SHARE ROW EXCLUSIVE MODE"))
            for table in tables:
                gone = [place for place, _ in _matching(db, table, probes)]
                statement = text(f"DELETE FROM {quote_name(table)} WHERE ctid = ANY(CAST(:rows AS tid[]))")
                if gone:
                    db.execute(statement, {"rows": gone})
            db.commit()
        with self._open(isolation_level="AUTOCOMMIT") as db:
            for table in tables:
                db.execute(text(f"VACUUM FULL {quote_name(table)}"))

    def search(self, probes: Probes) -> tuple[list[str], int]:
        """Returns the tables in which a probe is found, and how many bytes of decoded rows were searched."""
        residue, size = [], 0
        with self._open() as db:
            for table in _tables(db):
                found = False
                for _, row in _rows(db, table):
                    data = row_text(tuple(row.values())).encode("utf-8", "surrogatepass")
                    size += len(data)
                    found = found or probes.any_in(data)
                residue += [f"Postgres table {table}"] if found else []
        return residue, size

    @contextmanager
    def _open(self, **options: str) -> "Iterator[Connection]":
        """Yields a connection, in a transaction unless options say otherwise.

        Raises:
            ComponentFailed: the server does not answer, refuses a statement, or a table stays locked.
            DBAPIError: this module uses the driver wrongly.
        """
        from sqlalchemy import text
        from sqlalchemy.exc import DBAPIError

        try:
            with self.engine.connect().execution_options(**options) as db:
                db.execute(text(f"SET lock_timeout = '{_LOCK_WAIT_S}s'"))
                yield db
        except DBAPIError as e:
            failure = database_failure(e)
            if failure is e:
                raise
            raise failure from None


def database_failure(error: "DBAPIError") -> Exception:
    """Returns the line for an error of the database: without its text, which may quote a row or name the server."""
    from sqlalchemy.exc import InterfaceError, OperationalError

    server, kind = "the Postgres server of Dagster's runs", type(error.orig).__name__
    state = getattr(error.orig, "pgcode", None)
    if type(error.orig).__module__ == "sqlite3":
        return ComponentFailed(
            f"delete: the run history in dagster/: {error.orig}; free space or make it writable, then delete again"
        )
    if state == _LOCK_NOT_AVAILABLE:
        return ComponentFailed(
            f"delete: a table of Dagster's runs was locked for {_LOCK_WAIT_S} s; stop what runs on this home, "
            "then delete again"
        )
    if state is not None:
        return ComponentFailed(
            f"delete: {server} refused a statement ({kind}, SQLSTATE {state}); its user must own Dagster's tables"
        )
    if isinstance(error, OperationalError | InterfaceError):
        return no_answer(kind)
    return error


def no_answer(kind: str, command: str = "delete") -> ComponentFailed:
    """Returns the line for a server that cannot be reached, with the type of the error alone."""
    return ComponentFailed(
        f"{command}: the Postgres server of Dagster's runs does not answer ({kind}); "
        f"check that it runs, and its URL in dagster.yaml, then {command} again"
    )


@contextmanager
def plain_postgres_errors(command: str) -> Iterator[None]:
    """Turns the error of a Postgres server that does not answer into one line, and does not log Dagster's retries.

    Raises:
        ComponentFailed: it does not answer.
    """
    root = logging.getLogger()
    root.addFilter(_is_no_retry)
    try:
        yield
    except Exception as e:
        if type(e).__name__ != LOST_CONNECTION and not _is_lost(e):
            raise
        failure = no_answer(type(e).__name__, command)
        raise failure from None
    finally:
        root.removeFilter(_is_no_retry)


def _is_no_retry(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Retrying failed database")


def _is_lost(error: Exception) -> bool:
    """Returns whether the driver of Postgres lost its server, or never reached it."""
    driver = type(getattr(error, "orig", None))
    return driver.__module__.startswith("psycopg2") and driver.__name__ in ("OperationalError", "InterfaceError")


def _tables(db: "Connection") -> dict[str, bool]:
    """Returns Dagster's tables, and whether the user owns each; tables of other applications are left alone."""
    from dagster._core.storage.event_log.schema import SqlEventLogStorageMetadata
    from dagster._core.storage.runs.schema import RunStorageSqlMetadata
    from dagster._core.storage.schedules.schema import ScheduleStorageSqlMetadata
    from sqlalchemy import text

    parts = (RunStorageSqlMetadata, SqlEventLogStorageMetadata, ScheduleStorageSqlMetadata)
    known = {name for part in parts for name in part.tables}
    return {str(name): bool(is_owned) for name, is_owned in db.execute(text(_TABLES)) if name in known}


def _rows(db: "Connection", table: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the place and the values of each row; bytea as bytes."""
    from sqlalchemy import text

    # The option is given to this statement alone: a cursor of the server cannot run DELETE.
    statement = text(f"SELECT CAST(ctid AS text) AS row_place, * FROM {quote_name(table)}")
    rows = db.execute(statement, execution_options={"yield_per": _PAGE_ROWS})
    names = list(rows.keys())[1:]
    for place, *values in rows:
        plain = [bytes(v) if isinstance(v, memoryview) else _plain(v) for v in values]
        yield str(place), dict(zip(names, plain, strict=True))


def _plain(value: object) -> object:
    """Returns texts and bytes as they are, JSON and arrays as text: `row_text` reads texts and bytes."""
    return value if isinstance(value, str | bytes | int | float | type(None)) else str(value)


def _matching(db: "Connection", table: str, probes: Probes) -> list[tuple[str, dict[str, Any]]]:
    return [
        (place, row)
        for place, row in _rows(db, table)
        if probes.any_in(row_text(tuple(row.values())).encode("utf-8", "surrogatepass"))
    ]


_CONFIGURATION = "dagster.yaml"
_SQLITE, _POSTGRES = "sqlite", "postgres"


@contextmanager
def run_tables(home: Home) -> Iterator[RunTables | None]:
    """Yields the tables of a home whose run history is in Postgres; None where it is in files of the home.

    Raises:
        PalimpsestError: the history, or the logs of runs, are where a delete cannot search.
        ComponentFailed: the Postgres server does not answer.
    """
    if not (home.dagster / _CONFIGURATION).is_file():
        yield None
        return
    from dagster._core.instance.ref import InstanceRef

    ref = InstanceRef.from_dir(str(home.dagster.resolve()))
    _check_files(home, ref)
    parts = _storage_parts(ref)
    if {kind for kind, _ in parts} == {_SQLITE}:
        yield None
        return
    urls = {where for _, where in parts}
    if len(urls) != 1:
        error = _refused(home, "run_storage, event_log_storage and schedule_storage are in different places")
        raise error
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    engine = create_engine(urls.pop(), poolclass=NullPool)
    try:
        yield RunTables(engine)
    finally:
        engine.dispose()


def check_run_storage(home: Home) -> None:
    """Checks, before anything is deleted, that a delete can remove runs from the home's history and prove it.

    Raises:
        PalimpsestError: the history is where it cannot.
        ComponentFailed: the Postgres server does not answer.
    """
    with run_tables(home) as tables:
        if tables is None:
            return
        if others := tables.not_owned():
            error = _refused(home, f"the Postgres tables {', '.join(others)} are not owned by the user of the URL")
            raise error
        tables.search(Probes())


def search_runs(home: Home, probes: Probes, proof: Proof) -> Proof:
    """Returns a proof that also has what was searched, and found, in Postgres tables of the home's runs."""
    with run_tables(home) as tables:
        if tables is None:
            return proof
        residue, size = tables.search(probes)
    return replace(proof, residue=(*proof.residue, *residue), run_bytes=size)


def _storage_parts(ref: Any) -> set[tuple[str, str]]:
    """Returns kind and place of each part of the storage.

    Raises:
        PalimpsestError: a part is neither of SQLite nor of Postgres, or the extra `postgres` is not installed.
        ComponentFailed: the Postgres server does not answer.
    """
    from sqlalchemy.exc import DBAPIError

    try:
        with plain_postgres_errors("delete"):
            storage = ref.storage
        found = {_place(part) for part in (storage.run_storage, storage.event_log_storage, storage.schedule_storage)}
    except DBAPIError as e:
        failure = database_failure(e)
        raise failure from None
    except Exception as e:
        if missing := missing_in(str(e), "delete"):
            raise missing from None
        raise
    return found


def _place(part: Any) -> tuple[str, str]:
    url = getattr(part, "postgres_url", None)
    if url is not None:
        return _POSTGRES, str(url)
    if type(part).__module__.startswith("dagster._core.storage.") and "Sqlite" in type(part).__name__:
        return _SQLITE, ""
    raise PalimpsestError(
        f"delete: Dagster's history is in {type(part).__name__}, which a delete cannot search; nothing was deleted: "
        "use SQLite or Postgres in dagster.yaml"
    )


def _check_files(home: Home, ref: Any) -> None:
    """Checks that what Dagster writes as files is in the home, where a delete searches.

    Raises:
        PalimpsestError: some of it is elsewhere.
    """
    import yaml

    root = home.dagster.resolve()
    parts = {
        "storage": ref.storage_data,
        "run_storage": ref.run_storage_data,
        "event_log_storage": ref.event_storage_data,
        "schedule_storage": ref.schedule_storage_data,
        "compute_logs": ref.compute_logs_data,
        "local_artifact_storage": ref.local_artifact_storage_data,
    }
    if parts["compute_logs"].class_name not in ("LocalComputeLogManager", "NoOpComputeLogManager"):
        error = _refused(home, f"compute_logs is {parts['compute_logs'].class_name}")
        raise error
    for name, data in parts.items():
        folder = (yaml.safe_load(data.config_yaml) or {}).get("base_dir")
        if folder is None:
            continue
        if isinstance(folder, str) and Path(folder).resolve().is_relative_to(root):
            continue
        error = _refused(home, f"base_dir of {name} is outside of the home")
        raise error


def _refused(home: Home, why: str) -> PalimpsestError:
    return PalimpsestError(
        f"delete: {home.dagster / _CONFIGURATION}: {why}, where a delete cannot search; nothing was deleted"
    )
