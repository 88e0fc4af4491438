"""When a batch of collections is published: once, after the last of its runs, retried ones and backfills included."""

import sys

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemotePartitionSetOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.orchestration.automation import COLLECTION, TAIL, publishes
from palimpsest.orchestration.dev_server import serve_ui, set_pool_limits
from palimpsest.orchestration.publishing import publish_after_failures, why_not_yet
from palimpsest.orchestration.resources import BATCH, EXECUTOR, PROCESSES, executor_from_environment
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from tests.orchestration.jobs import execute_job, instance_of, last_run, new_home, step_processes
from tests.small_corpus import write_chats

STATUS = dg.DagsterRunStatus
_RETRIES = {"run_retries": {"enabled": True, "max_retries": 2}}


def add_run(instance: dg.DagsterInstance, status: dg.DagsterRunStatus, **tags: str) -> dg.DagsterRun:
    from palimpsest.orchestration.code_location import defs

    job = defs.resolve_job_def("rebuild")
    named = {name.replace("__", "/"): value for name, value in tags.items()}
    tags = {"dagster/partition": "chats", **named}
    run = instance.create_run_for_job(job, tags=tags, asset_selection=frozenset(COLLECTION))
    if event := {STATUS.SUCCESS: "PIPELINE_SUCCESS", STATUS.FAILURE: "PIPELINE_FAILURE"}.get(status):
        instance.report_dagster_event(dg.DagsterEvent(event, "rebuild"), run.run_id)
    found = instance.get_run_by_id(run.run_id)
    assert found is not None and found.status == status
    return found


def repository_origin() -> RemoteRepositoryOrigin:
    target = LoadableTargetOrigin(module_name="palimpsest.definitions")
    location = ManagedGrpcPythonEnvCodeLocationOrigin(
        loadable_target_origin=target, location_name="palimpsest.definitions"
    )
    return RemoteRepositoryOrigin(code_location_origin=location, repository_name="__repository__")


def backfill_of(backfill_id: str, names: list[str]) -> PartitionBackfill:
    """A backfill of `rebuild` that has launched no run yet."""
    origin = RemotePartitionSetOrigin(repository_origin=repository_origin(), partition_set_name="rebuild_partition_set")
    return PartitionBackfill(
        backfill_id,
        status=BulkActionStatus.REQUESTED,
        from_failure=False,
        tags={},
        backfill_timestamp=0.0,
        partition_set_origin=origin,
        partition_names=names,
    )


@pytest.fixture
def instance():
    with dg.instance_for_test(overrides=_RETRIES) as made:
        yield made


def test_the_last_run_of_a_batch_publishes_and_the_others_do_not(instance):
    first = add_run(instance, STATUS.SUCCESS, palimpsest__batch="b")
    assert not publishes(first)
    assert why_not_yet(instance, first) == ""
    waiting = add_run(instance, STATUS.NOT_STARTED, palimpsest__batch="b")
    add_run(instance, STATUS.NOT_STARTED, palimpsest__batch="other")
    assert why_not_yet(instance, first) == "1 collection is still to be built"
    instance.delete_run(waiting.run_id)
    last = add_run(instance, STATUS.SUCCESS, palimpsest__batch="b")
    assert why_not_yet(instance, first) == "another collection ended later"
    assert why_not_yet(instance, last) == ""


def test_a_failed_run_that_will_be_retried_is_waited_for_and_one_that_will_not_is_not(instance):
    done = add_run(instance, STATUS.SUCCESS, palimpsest__batch="b")
    failed = add_run(instance, STATUS.FAILURE, palimpsest__batch="b")
    instance.add_run_tags(failed.run_id, {"dagster/will_retry": "true"})
    assert why_not_yet(instance, done) == "1 collection is still to be built"
    instance.add_run_tags(failed.run_id, {"dagster/auto_retry_run_id": "another"})
    assert why_not_yet(instance, done) == ""
    assert why_not_yet(instance, failed) == "another collection ended later"
    last = add_run(instance, STATUS.SUCCESS, palimpsest__batch="b")
    assert (why_not_yet(instance, done), why_not_yet(instance, last)) == ("another collection ended later", "")


def add_failed(instance: dg.DagsterInstance, batch: str) -> dg.DagsterRun:
    """Adds a run that failed for good: a step of it did."""
    run = add_run(instance, STATUS.FAILURE, palimpsest__batch=batch)
    instance.add_run_tags(run.run_id, {"dagster/will_retry": "false"})
    return instance.get_run_by_id(run.run_id)


def test_where_the_last_collection_of_a_batch_cannot_be_built_the_others_are_published_once(instance):
    done = add_run(instance, STATUS.SUCCESS, palimpsest__batch="b")
    failed = add_failed(instance, "b")
    assert (why_not_yet(instance, done), why_not_yet(instance, failed)) == ("another collection ended later", "")
    alone = add_failed(instance, "c")
    assert why_not_yet(instance, alone) == "no collection was built"
    event = dg.DagsterEvent("PIPELINE_FAILURE", "rebuild")
    context = dg.build_run_status_sensor_context("publish_after_failures", event, instance, failed)
    request = publish_after_failures(context)
    assert (request.job_name, request.tags[BATCH], request.run_key) == ("rebuild", "b", f"b/tail/{failed.run_id}")
    assert request.asset_selection == TAIL and request.partition_key is None


def test_pools_have_a_limit_before_their_first_run_and_the_environment_sets_it(tmp_path, monkeypatch):
    home = new_home(tmp_path / "home", write_chats(tmp_path / "corpus"))
    monkeypatch.setenv("PALIMPSEST_POOL_LM", "4")
    with instance_of(home) as instance:
        set_pool_limits(instance)
        limits = {p.name: p.limit for p in instance.event_log_storage.get_pool_limits()}
        assert limits == {"home": 1, "embedder": 1, "lm": 4, "neo4j": 1}
        monkeypatch.setenv("PALIMPSEST_POOL_LM", "none")
        with pytest.raises(PalimpsestError, match="PALIMPSEST_POOL_LM: 'none' must be a whole number"):
            set_pool_limits(instance)


@pytest.mark.parametrize(
    ("dagster_yaml", "error", "line"),
    [
        ("run_retries: {often: true}\n", PalimpsestError, "Errors whilst loading dagster instance config"),
        (
            "storage: {postgres: {postgres_url: 'postgresql+psycopg2://a@/b?host=/nowhere'}}\n",
            ComponentFailed,
            "the database of Dagster's runs does not answer",
        ),
    ],
)
def test_settings_or_a_database_that_dagster_cannot_use_are_one_line_before_anything_starts(
    tmp_path, dagster_yaml, error, line
):
    home = Home(tmp_path / "home")
    home.create()
    home.dagster.mkdir(exist_ok=True)
    (home.dagster / "dagster.yaml").write_text(dagster_yaml)
    with pytest.raises(error, match=rf"dagster\.yaml: {line}"):
        serve_ui(home, 0)


@pytest.mark.parametrize("variables", [{EXECUTOR: "dask"}, {EXECUTOR: "multiprocess", PROCESSES: "0"}])
def test_a_wrong_executor_is_one_line_before_anything_starts(tmp_path, monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(PalimpsestError, match=f"^{list(variables)[-1]}[=:]") as raised:
        serve_ui(Home(tmp_path / "home"), 0)
    assert raised.value.exit_code == 2
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("named", "executor"),
    [("", "in_process"), ("in_process", "in_process"), ("multiprocess", "multiprocess"), ("k8s", "k8s")],
)
def test_the_environment_names_the_executor(monkeypatch, named, executor):
    monkeypatch.setenv(EXECUTOR, named)
    assert executor_from_environment().name == executor


@pytest.mark.parametrize(
    ("variables", "line"),
    [
        ({EXECUTOR: "dask"}, "PALIMPSEST_EXECUTOR=dask: write one of in_process, multiprocess"),
        ({EXECUTOR: "multiprocess", PROCESSES: "many"}, "_PROCESSES: 'many' must be a whole number"),
        ({EXECUTOR: "k8s"}, "PALIMPSEST_EXECUTOR=k8s needs the extra k8s"),
    ],
)
def test_a_wrong_name_number_or_extra_is_named(monkeypatch, variables, line):
    monkeypatch.setitem(sys.modules, "dagster_k8s", None)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(PalimpsestError, match=line):
        executor_from_environment()


@pytest.mark.parametrize("executor", [pytest.param("in_process", marks=pytest.mark.slow), "multiprocess"])
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
        done = execute_job(home, "rebuild", "chats", PALIMPSEST_EXECUTOR=executor)
        assert done.returncode == 0, done.stderr[-3000:]
        processes = step_processes(home, last_run(home).run_id)
        assert last_run(home).status == dg.DagsterRunStatus.SUCCESS
        assert len(set(processes.values())) == (1 if executor == "in_process" else len(processes))
        found[executor] = published(home).manifest.digest
    assert found["multiprocess"] == found["in_process"]
