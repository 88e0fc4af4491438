"""Where Dagster keeps the run history of a home: SQLite files in the home, or tables of a Postgres database.

A delete must remove what it deletes from the history, and prove it. It can do so in these two places; any other is
refused before anything is deleted.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from palimpsest.build.delete.postgres_runs import RunTables, database_failure, plain_postgres_errors
from palimpsest.build.delete.probes import Probes
from palimpsest.build.delete.proof import Proof
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.extras import missing_in
from palimpsest.store.home import Home

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
