"""Connections to the run history: cheap inside the context, closed after it, others unchanged."""

import sqlite3

import pytest
from sqlalchemy import create_engine, text

from palimpsest.orchestration.run import cheap_connections

NORMAL, FULL = 1, 2


def make_database(path):
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE events (n INTEGER)")
    db.close()
    return create_engine(f"sqlite:///{path}")


def synchronous(engine):
    with engine.connect() as connection:
        value = connection.execute(text("PRAGMA synchronous")).scalar()
    engine.dispose()
    return value


def test_commits_are_not_synced_only_below_the_folder_and_only_inside_the_context(tmp_path):
    history, other = make_database(tmp_path / "dagster/runs.db"), make_database(tmp_path / "other/a.db")
    with cheap_connections(tmp_path / "dagster"):
        assert (synchronous(history), synchronous(other)) == (NORMAL, FULL)
    assert (synchronous(history), synchronous(other)) == (FULL, FULL)


def test_the_log_is_open_inside_the_context_and_written_to_the_file_after_an_error_too(tmp_path):
    path = tmp_path / "dagster/runs.db"
    engine = make_database(path)
    with pytest.raises(RuntimeError), cheap_connections(tmp_path / "dagster"):
        with engine.begin() as connection:
            connection.execute(text("INSERT INTO events VALUES (1)"))
        engine.dispose()
        assert path.with_name("runs.db-wal").exists()
        raise RuntimeError
    assert not path.with_name("runs.db-wal").exists()
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT n FROM events").fetchall() == [(1,)]
    db.close()
