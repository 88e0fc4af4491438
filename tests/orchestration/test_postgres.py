"""Dagster's runs in a real Postgres: a build writes them, and a delete removes those that name what it deletes."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import create_engine, text

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.orchestration.automation import publishes
from palimpsest.orchestration.run import build
from palimpsest.pipeline.deletion import run_storage
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.deletion.proof import Probes
from palimpsest.pipeline.deletion.run_storage import RunTables, check_run_storage
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from tests.orchestration.jobs import instance_of
from tests.orchestration.postgres_server import postgres
from tests.small_corpus import TURNS, build_home, write_chats

_YAML = """\
telemetry: {{enabled: false}}
storage:
  postgres:
    postgres_url: {url}
"""
_NOWHERE = "postgresql+psycopg2://postgres@/postgres?host=/nowhere"
_SECRET = "My locker code is quixotic-77."


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres() as socket:
        yield f"postgresql+psycopg2://postgres@/postgres?host={socket}"


def home_with(path: Path, dagster_yaml: str) -> Home:
    home = Home(path)
    home.create()
    (home.dagster / "dagster.yaml").write_text(dagster_yaml)
    return home


def rows_with(url: str, words: str) -> int:
    return int(execute(url, f"SELECT count(*) FROM event_logs WHERE event LIKE '%{words}%'")[0][0])


def test_a_delete_removes_the_runs_in_postgres_that_name_a_user_or_a_collection(tmp_path, url):
    home, corpus = home_with(tmp_path / "home", _YAML.format(url=url)), write_chats(tmp_path / "corpus")
    build(home, [write_chats(corpus, [t for t in TURNS if t[1] != "bob"], name="zebrafish")])
    assert published(home) is not None and not (home.dagster / "history").exists()
    with instance_of(home) as instance:
        runs = {run.run_id: run for run in instance.get_runs() if not publishes(run)}
        ids = {run.tags["palimpsest/collection"]: run_id for run_id, run in runs.items()}
        (tail,) = {run.run_id for run in instance.get_runs()} - set(runs)
        assert set(ids) == {"chats", "zebrafish"}
        assert any(log.dagster_event.is_step_success for log in instance.all_logs(ids["chats"]) if log.dagster_event)
        instance.report_engine_event(f"read {_SECRET}", runs[ids["chats"]])
        for asset, metadata in (("documents", {"text": _SECRET}), ("layout", {})):
            instance.report_runless_asset_event(dg.AssetMaterialization(asset, metadata=metadata))
            instance.report_runless_asset_event(dg.AssetMaterialization(asset, partition="zebrafish"))
    assert rows_with(url, "quixotic-77") == 2
    done = delete(home, user="bob")
    assert (done.memories, done.to_json()["runs"]) == (2, 1) and done.fields["proof"]["run_bytes"] > 1000
    assert "or in the Postgres tables of Dagster's runs" in done.text and rows_with(url, "quixotic-77") == 0
    with instance_of(home) as instance:
        assert {run.run_id for run in instance.get_runs()} == {ids["zebrafish"], tail}
    delete(home, collection="zebrafish")
    engine = create_engine(url)
    assert RunTables(engine).search(Probes(frozenset({"zebrafish"})))[0] == []
    engine.dispose()
    with instance_of(home) as instance:
        assert not [run for run in instance.get_runs() if not publishes(run)]


def test_what_the_tables_still_contain_is_found_by_the_proof_and_those_of_others_are_left_alone(
    tmp_path, url, monkeypatch
):
    home = home_with(tmp_path / "home", _YAML.format(url=url))
    build_home(home, write_chats(tmp_path / "corpus"))
    with instance_of(home) as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization("documents", metadata={"text": _SECRET}))
        execute(url, "CREATE TABLE notes (words text)", f"INSERT INTO notes VALUES ('{_SECRET}')")
    with monkeypatch.context() as broken:
        broken.setattr(RunTables, "delete_rows", lambda *_: None)
        with pytest.raises(PalimpsestError, match=r"still found in .*Postgres table event_logs"):
            delete(home, user="bob")
    delete(home, user="bob")
    assert rows_with(url, "quixotic-77") == 0
    assert execute(url, "SELECT words FROM notes") == [(_SECRET,)], "the table of another application"


def execute(url: str, *statements: str) -> list[tuple[object, ...]]:
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as db:
        results = [db.execute(text(statement)) for statement in statements]
        rows = [tuple(row) for row in results[-1]] if results[-1].returns_rows else []
    engine.dispose()
    return rows


def test_a_locked_table_and_a_refused_statement_are_one_line(tmp_path, url, monkeypatch):
    monkeypatch.setattr(run_storage, "_LOCK_WAIT_S", 1)
    home, engine = home_with(tmp_path / "home", _YAML.format(url=url)), create_engine(url)
    with instance_of(home), engine.begin() as db:
        db.execute(text("LOCK TABLE event_logs"))
        with pytest.raises(ComponentFailed, match="a table of Dagster's runs was locked for 1 s"):
            check_run_storage(home)
    with (
        pytest.raises(ComponentFailed, match=r"refused a statement \(UndefinedTable, SQLSTATE 42P01\)"),
        RunTables(engine)._open() as db,
    ):
        db.execute(text("SELECT 1 FROM nothing"))
    engine.dispose()


def test_tables_of_another_owner_are_refused_since_the_server_would_not_rewrite_them(tmp_path, url):
    with instance_of(home_with(tmp_path / "first", _YAML.format(url=url))):
        grant = "GRANT ALL ON ALL TABLES IN SCHEMA public TO guest"
        execute(url, "CREATE ROLE guest LOGIN", "GRANT CREATE ON SCHEMA public TO guest", grant)
    home = home_with(tmp_path / "home", _YAML.format(url=url.replace("postgres@", "guest@")))
    with pytest.raises(
        PalimpsestError, match=r"asset_keys.* are not owned by the user of the URL.*nothing was deleted"
    ):
        check_run_storage(home)
    execute(url, "DROP OWNED BY guest", "DROP ROLE guest")


@pytest.mark.parametrize(
    ("dagster_yaml", "error", "reason"),
    [
        (_YAML.format(url=_NOWHERE), ComponentFailed, "does not answer"),
        ("storage: {sqlite: {base_dir: /tmp/elsewhere}}\n", PalimpsestError, "outside of the home"),
        (
            "compute_logs: {module: dagster_aws.s3.compute_log_manager, class: S3ComputeLogManager, config: {}}\n",
            PalimpsestError,
            "compute_logs is S3ComputeLogManager",
        ),
    ],
)
def test_a_history_that_cannot_be_searched_is_refused_before_anything_is_deleted(tmp_path, dagster_yaml, error, reason):
    home = home_with(tmp_path / "home", dagster_yaml)
    with pytest.raises(error, match=reason):
        check_run_storage(home)


def test_a_server_that_is_gone_is_one_line_of_builds_and_deletes(tmp_path, caplog):
    home = home_with(tmp_path / "home", _YAML.format(url=_NOWHERE))
    with pytest.raises(ComponentFailed, match=r"^build: the Postgres server .* does not answer .* then build again$"):
        build(home, [write_chats(tmp_path / "corpus")])
    with pytest.raises(ComponentFailed, match=r"^delete: the Postgres server .* does not answer .* then delete again$"):
        check_run_storage(home)
    assert "Retrying" not in caplog.text
