"""What Dagster keeps of a collection goes with it: runs, events without a run, backfills, ticks, states of sensors."""

import dagster as dg
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    SensorInstigatorData,
    TickData,
    TickStatus,
)

from palimpsest.pipeline.deletion import run_history
from palimpsest.pipeline.deletion.proof import Probes
from palimpsest.pipeline.deletion.run_history import delete_runs, search_collection
from palimpsest.store.home import Home
from tests.orchestration.jobs import instance_of, new_home
from tests.orchestration.test_publishing import STATUS, add_run, backfill_of, repository_origin
from tests.small_corpus import write_chats

NAME = "zebrafish"


@pytest.fixture
def home(tmp_path):
    """A home whose Dagster has something of two collections in every table that may name one."""
    home = new_home(tmp_path / "home", write_chats(write_chats(tmp_path / "corpus"), name=NAME))
    with instance_of(home) as instance:
        for name in ("chats", NAME):
            add_run(instance, STATUS.SUCCESS, dagster__partition=name, palimpsest__collection=name)
            for asset, partition in (("layout", name), ("documents", name)):
                instance.report_runless_asset_event(dg.AssetMaterialization(asset, partition=partition))
            instance.add_backfill(backfill_of(f"fill-{name}", [name]))
        origin = repository_origin().get_instigator_origin("changed_folders")
        data = SensorInstigatorData(last_run_key=f"folders-1/{NAME}", cursor="1")
        instance.add_instigator_state(InstigatorState(origin, InstigatorType.SENSOR, InstigatorStatus.RUNNING, data))
        ticked = (origin.get_id(), "changed_folders", InstigatorType.SENSOR, TickStatus.SUCCESS, 1.0)
        runs = {"run_ids": [], "run_keys": [f"folders-1/{NAME}"]}
        instance.create_tick(TickData(*ticked, selector_id="sensor", **runs))
    return home


def files_with(home: Home, name: str) -> list[str]:
    found = (p for p in home.dagster.rglob("*") if p.is_file() and name.encode() in p.read_bytes())
    return [p.name for p in found]


def test_nothing_of_a_deleted_collection_is_left_and_the_other_stays(home, monkeypatch):
    assert {".db", "index.db", "runs.db", "schedules.db"} <= set(files_with(home, NAME))
    with monkeypatch.context() as patch:
        patch.setattr("palimpsest.pipeline.deletion.run_history.forget_collection", lambda *_: None)
        assert delete_runs(home, Probes(), NAME) == 1
    left = [f"Dagster's table {name}" for name in ("bulk_actions", "dynamic_partitions", "event_logs")]
    assert search_collection(home, NAME) == left, "the proof names it"
    assert delete_runs(home, Probes(), NAME) == 0
    assert files_with(home, NAME) == [] and search_collection(home, NAME) == []
    with instance_of(home) as instance:
        assert [run.tags["dagster/partition"] for run in instance.get_runs()] == ["chats"]
        assert [backfill.partition_names for backfill in instance.get_backfills()] == [["chats"]]
        assert instance.get_dynamic_partitions("collections") == ["chats"]
        assert len(instance.fetch_materializations(dg.AssetKey("documents"), limit=5).records) == 1
        (state,) = instance.all_instigator_state()
        assert (state.status, state.instigator_data.cursor) == (InstigatorStatus.RUNNING, "1")


def test_a_run_without_a_partition_may_name_any_collection(home):
    from palimpsest.orchestration.code_location import defs

    with instance_of(home) as instance:
        (own,) = (r.run_id for r in instance.get_runs() if r.tags["dagster/partition"] == NAME)
        whole = instance.create_run_for_job(defs.resolve_job_def("rebuild"))
        assert run_history.runs_to_delete(instance, NAME) == {whole.run_id, own}
