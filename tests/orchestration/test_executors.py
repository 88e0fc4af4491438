"""The executors: which one the environment names, and that the steps of a real run end in the same build."""

import sys

import dagster as dg
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.orchestration.resources import EXECUTOR, PROCESSES, executor_from_environment
from palimpsest.store.builds import published
from tests.orchestration.jobs import execute_job, instance_of, last_run, new_home, step_processes
from tests.small_corpus import write_chats


@pytest.mark.parametrize(
    ("named", "executor"),
    [("", "in_process"), ("in_process", "in_process"), ("multiprocess", "multiprocess"), ("k8s", "k8s")],
)
def test_the_environment_names_the_executor(monkeypatch, named, executor):
    monkeypatch.setenv(EXECUTOR, named)
    assert executor_from_environment().name == executor


def test_a_wrong_name_number_or_extra_is_named(monkeypatch):
    monkeypatch.setenv(EXECUTOR, "dask")
    with pytest.raises(PalimpsestError, match="PALIMPSEST_EXECUTOR=dask: write one of in_process, multiprocess"):
        executor_from_environment()
    monkeypatch.setenv(EXECUTOR, "multiprocess")
    monkeypatch.setenv(PROCESSES, "many")
    with pytest.raises(PalimpsestError, match="PALIMPSEST_EXECUTOR_PROCESSES: 'many' must be a whole number"):
        executor_from_environment()
    monkeypatch.setenv(EXECUTOR, "k8s")
    monkeypatch.setitem(sys.modules, "dagster_k8s", None)
    with pytest.raises(PalimpsestError, match="PALIMPSEST_EXECUTOR=k8s needs the extra k8s"):
        executor_from_environment()


@pytest.mark.parametrize("executor", ["in_process", "multiprocess"])
def test_steps_run_in_the_process_of_the_run_or_in_their_own(tmp_path, executor):
    home = new_home(tmp_path / "home", write_chats(tmp_path / "corpus"))
    done = execute_job(home, "serve_graph", PALIMPSEST_EXECUTOR=executor, NEO4J_URI="bolt://127.0.0.1:1")
    assert done.returncode == 0, done.stderr[-3000:]
    run = last_run(home).run_id
    (process,) = step_processes(home, run).values()
    with instance_of(home) as instance:
        starts = [e.dagster_event.pid for e in instance.all_logs(run, of_type=dg.DagsterEventType.RUN_START)]
    assert (process == starts[0]) == (executor == "in_process")


@pytest.mark.slow
def test_a_build_in_several_processes_equals_one_in_one(tmp_path):
    corpus, found = write_chats(tmp_path / "corpus"), {}
    for executor in ("in_process", "multiprocess"):
        home = new_home(tmp_path / executor, corpus)
        for job, partition in (("build_collection", "chats"), ("publish_build", "")):
            done = execute_job(home, job, partition, PALIMPSEST_EXECUTOR=executor)
            assert done.returncode == 0, done.stderr[-3000:]
            processes = step_processes(home, last_run(home).run_id)
            assert last_run(home).status == dg.DagsterRunStatus.SUCCESS
            assert len(set(processes.values())) == (1 if executor == "in_process" else len(processes))
        found[executor] = published(home).manifest.digest
    assert found["multiprocess"] == found["in_process"]
