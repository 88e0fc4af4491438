"""What is tried again: a step whose component failed, and a run whose process died; never what a person must fix."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from unittest.mock import patch

import dagster as dg
import pytest
from sqlalchemy import create_engine, text

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.orchestration.dev_server import write_dagster_yaml
from palimpsest.orchestration.resources import HomeResource
from palimpsest.orchestration.run import cheap_connections
from palimpsest.orchestration.watch import close_interrupted_runs
from palimpsest.pipeline.plan import make_plan
from palimpsest.pipeline.run_stage import run_stage
from palimpsest.store.builds import published
from palimpsest.store.event_log import read_events
from palimpsest.store.home import Home
from tests.orchestration.dev import Ui, palimpsest_dev, processes_of, wait_for
from tests.orchestration.jobs import instance_of, new_home
from tests.small_corpus import TURNS, build_home, write_chats

STATUS = dg.DagsterRunStatus


@pytest.fixture
def home(tmp_path, shared_vectors):
    made = new_home(tmp_path / "home", write_chats(tmp_path / "corpus"))
    return Home(made.path, shared_vectors)


def run_collection(home: Home, instance: dg.DagsterInstance, **tags: str) -> dg.ExecuteInProcessResult:
    from palimpsest.orchestration.code_location import defs

    resources = {"home": HomeResource(path=str(home.path), embeddings_path=str(home.embeddings))}
    job = defs.resolve_job_def("rebuild")
    return job.execute_in_process(
        partition_key="chats", instance=instance, resources=resources, raise_on_error=False, tags=tags
    )


def failing(times: int, error: Exception):
    """Returns a `run_stage` that fails at `chunks`, some times, and then works."""
    left = [error] * times

    def run(context, name, **options):
        if name == "chunks" and left:
            raise left.pop()
        return run_stage(context, name, **options)

    return patch("palimpsest.orchestration.build_assets.run_stage", side_effect=run)


def retries_of(result: dg.ExecuteInProcessResult) -> list[str]:
    return [str(e.step_key) for e in result.all_events if e.event_type == dg.DagsterEventType.STEP_UP_FOR_RETRY]


@pytest.fixture(autouse=True)
def no_wait(monkeypatch):
    monkeypatch.setattr("palimpsest.orchestration.resources.DELAY_S", 0.01)


def test_a_step_whose_component_does_not_answer_is_tried_again_and_the_build_is_whole(home):
    with instance_of(home) as instance, failing(2, ComponentFailed("the model does not answer")):
        result = run_collection(home, instance)
    assert result.success and retries_of(result) == ["chunks", "chunks"]


def test_a_component_that_stays_away_fails_the_run_with_its_own_error_and_by_the_command_line_at_once(home):
    with instance_of(home) as instance:
        for tags, retries in (({"palimpsest/by": "cli"}, 0), ({}, 2)):
            with failing(9, ComponentFailed("the model does not answer")):
                result = run_collection(home, instance, **tags)
            assert not result.success and len(retries_of(result)) == retries
            assert read_events(home.path, level="error")[-1].fields["error"] == "ComponentFailed"


def test_bad_input_is_not_tried_again_neither_the_step_nor_the_run(home):
    with instance_of(home) as instance, failing(1, PalimpsestError("collection.yaml: no such unit")):
        result = run_collection(home, instance)
        run = instance.get_run_by_id(result.run_id)
        assert instance.run_retries_enabled and instance.run_retries_max_retries == 2
    assert not result.success and retries_of(result) == []
    (failed,) = (e for e in result.all_events if e.is_step_failure)
    assert failed.event_specific_data.error.message.endswith("Failure: collection.yaml: no such unit\n"), "it is first"
    assert run.tags["dagster/will_retry"] == "false" and run.tags["dagster/failure_reason"] == "STEP_FAILURE"


def test_a_started_run_without_a_process_is_closed_and_will_be_retried(home):
    from palimpsest.orchestration.code_location import defs

    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    with instance_of(home) as instance:
        job = defs.resolve_job_def("rebuild")
        lost, alive = (instance.create_run_for_job(job, tags={"dagster/partition": "chats"}) for _ in range(2))
        for run, pid in ((lost, child), (alive, os.getpid())):
            with patch("dagster._core.events.os.getpid", return_value=pid):
                event = dg.DagsterEvent("PIPELINE_START", "rebuild", message="started", pid=pid)
                instance.report_dagster_event(event, run.run_id)
        assert _look_while_another_process_writes(home) == []
        assert close_interrupted_runs(instance, home) == [lost.run_id]
        closed = instance.get_run_by_id(lost.run_id)
        assert (closed.status, closed.tags["dagster/will_retry"]) == (STATUS.FAILURE, "true")
        assert instance.get_run_by_id(alive.run_id).status == STATUS.STARTED


def test_a_run_that_an_earlier_process_was_launching_is_closed_and_will_be_retried(home, monkeypatch):
    from palimpsest.orchestration.code_location import defs

    with instance_of(home) as instance:
        run = instance.create_run_for_job(defs.resolve_job_def("rebuild"), tags={"dagster/partition": "chats"})
        instance.report_dagster_event(dg.DagsterEvent("PIPELINE_STARTING", "rebuild"), run.run_id)
        assert close_interrupted_runs(instance, home) == []
        monkeypatch.setattr("palimpsest.orchestration.watch.process_created_s", lambda pid: time.time() + 60)
        assert close_interrupted_runs(instance, home) == [run.run_id]
        closed = instance.get_run_by_id(run.run_id)
        assert (closed.status, closed.tags["dagster/will_retry"]) == (STATUS.FAILURE, "true")


def _look_while_another_process_writes(home: Home) -> list[str]:
    """Returns which runs are closed while another process has the home's lock."""
    code = (
        "import sys; from pathlib import Path; from palimpsest.store.home import Home\n"
        "with Home(Path(sys.argv[1])).lock(): print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(home.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer, instance_of(home) as seen:
        assert writer.stdout and writer.stdout.readline() == b"locked\n"
        return close_interrupted_runs(seen, home)


def test_a_home_gets_the_retries_unless_a_person_changed_its_settings(tmp_path):
    from palimpsest.orchestration.dev_server import _EARLIER_YAML

    old, own = Home(tmp_path / "old"), Home(tmp_path / "own")
    for home, words in ((old, _EARLIER_YAML), (own, "telemetry: {enabled: false}\n")):
        home.create()
        home.dagster.mkdir(exist_ok=True)
        (home.dagster / "dagster.yaml").write_text(words)
        write_dagster_yaml(home)
    with instance_of(old) as instance:
        assert instance.run_retries_enabled and not instance.run_retries_retry_on_asset_or_op_failure
    assert (own.dagster / "dagster.yaml").read_text() == "telemetry: {enabled: false}\n"


def runs_of(home: Home, job: str = "rebuild") -> list[dg.DagsterRun]:
    with instance_of(home) as instance:
        return list(reversed(instance.get_runs(dg.RunsFilter(job_name=job))))


def process_of_started_run(home: Home) -> int:
    """Returns the process of the run that is started and has begun a stage; 0 where there is none."""
    with instance_of(home) as instance:
        for run in instance.get_runs(dg.RunsFilter(statuses=[STATUS.STARTED], job_name="rebuild")):
            logs = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_START)
            pids = [log.dagster_event.pid for log in logs if log.dagster_event]
            if pids and pids[-1]:
                return pids[-1]
    return 0


def is_rebuilt(home: Home, memories: int) -> bool:
    build = published(home)
    return build is not None and build.manifest.memories == memories and make_plan(home, None).nothing_to_do


@pytest.mark.slow
def test_runs_that_are_killed_alone_or_with_everything_are_finished_later(tmp_path):
    """The change of a watched folder that a killed run was to build is not lost."""
    corpus, log = write_chats(tmp_path / "corpus"), tmp_path / "dev.log"
    home = new_home(tmp_path / "home", corpus)
    with palimpsest_dev(home, log, PALIMPSEST_SCHEDULE="0 0 1 1 *") as ui:
        ui.wait_until_loaded()
        os.kill(wait_for("a started run", lambda: process_of_started_run(home)), signal.SIGKILL)
        wait_for("the build of the retried run", lambda: is_rebuilt(home, 5))
        first, second = runs_of(home)
        assert (first.status, second.status) == (STATUS.FAILURE, STATUS.SUCCESS)
        assert second.parent_run_id == first.run_id and second.tags["palimpsest/by"] == "folders"
        write_chats(corpus, [*TURNS, ("s9", "ann", "Ann", "The tea is out.", "2026-05-01T09:00:00Z")])
        wait_for("the next started run", lambda: process_of_started_run(home))
        kill_everything(ui, home)
    assert runs_of(home)[-1].status == STATUS.STARTED
    with palimpsest_dev(home, log, PALIMPSEST_SCHEDULE="0 0 1 1 *"):
        wait_for("the build of the run that was lost", lambda: is_rebuilt(home, 6))
    assert [r.status for r in runs_of(home)][-2:] == [STATUS.FAILURE, STATUS.SUCCESS]
    whole = Home(tmp_path / "whole", home.embeddings)
    build_home(whole, corpus)
    assert published(home).manifest.digest == published(whole).manifest.digest


def kill_everything(ui: Ui, home: Home) -> None:
    """Kills `palimpsest dev` and all that it started, as a machine that goes down does."""
    ui.server.kill()
    for pid in processes_of(home):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    wait_for("the end of every process", lambda: not processes_of(home))


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
