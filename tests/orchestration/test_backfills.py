"""Real backfills by the daemon of `palimpsest dev`: of a job, and of all assets; then a delete."""

import datetime as dt
import json
from itertools import pairwise
from pathlib import Path

import dagster as dg
import pytest

from palimpsest.orchestration.automation import publishes
from palimpsest.orchestration.dev_server import write_dagster_yaml
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.store.builds import published
from palimpsest.store.event_log import read_events
from palimpsest.store.home import Home
from tests.orchestration.dev import REPOSITORY, Ui, palimpsest_dev, wait_for
from tests.orchestration.jobs import instance_of, new_home
from tests.orchestration.test_definitions import GROUPS
from tests.small_corpus import build_home, write_chats, write_notes

NAMES = ["chats", "notes", "zebrafish"]
SUCCESS = dg.DagsterRunStatus.SUCCESS
_STATUS = """query($id: String!) { partitionBackfillOrError(backfillId: $id) {
  ... on PartitionBackfill { status } ... on PythonError { message } } }"""


def write_corpus(corpus: Path) -> Path:
    write_chats(corpus)
    write_chats(corpus, name="zebrafish")
    return write_notes(corpus, {"a.md": "The bridge is 40 metres long.\n", "b.md": "The harbour has two cranes.\n"})


def wait_for_backfill(ui: Ui, backfill: str) -> None:
    def look() -> bool:
        status = ui.query_graphql(_STATUS, id=backfill)["partitionBackfillOrError"]["status"]
        assert status not in ("FAILED", "COMPLETED_FAILED"), status
        return status in ("COMPLETED", "COMPLETED_SUCCESS")

    wait_for("the end of the backfill", look)


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def backfilled(tmp_path_factory, embed_corpus) -> tuple[Home, Path]:
    """A home that two backfills filled, with room for three runs at once: pools alone keep its runs apart."""
    base = tmp_path_factory.mktemp("backfills")
    home = Home(base / "home")
    write_dagster_yaml(home)
    configuration = home.dagster / "dagster.yaml"
    several = configuration.read_text().replace("max_concurrent_runs: 1", "max_concurrent_runs: 3")
    home = new_home(home.path, write_corpus(base / "corpus"), several)
    embed_corpus(home.path, base / "corpus")
    with palimpsest_dev(home, base / "dev.log", PALIMPSEST_AUTOMATION="off") as ui:
        ui.wait_until_loaded()
        selector = {"partitionSetName": "rebuild_partition_set", "repositorySelector": REPOSITORY}
        wait_for_backfill(ui, ui.launch_backfill(selector=selector, partitionNames=NAMES))
        nodes = ui.query_graphql("{ assetNodes { assetKey { path } isExecutable } }")["assetNodes"]
        everything = [node["assetKey"] for node in nodes if node["isExecutable"]]
        wait_for_backfill(ui, ui.launch_backfill(assetSelection=everything, allPartitions=True))

        def ended() -> bool:
            with instance_of(home) as instance:
                return all(run.is_finished for run in instance.get_runs())

        wait_for("the end of all runs", ended)
    return home, base


def runs_of(home: Home, job: str) -> list[dg.RunRecord]:
    with instance_of(home) as instance:
        return sorted(instance.get_run_records(dg.RunsFilter(job_name=job)), key=lambda r: r.start_time or 0.0)


def test_a_backfill_builds_each_collection_once_and_publishes_what_one_build_makes(backfilled):
    home, base = backfilled
    runs = [r.dagster_run for r in runs_of(home, "rebuild")]
    assert sorted(run.tags["dagster/partition"] for run in runs) == NAMES
    assert {run.status for run in runs} == {SUCCESS} and all(map(publishes, runs))
    whole = Home(base / "whole", home.embeddings)
    build_home(whole, base / "corpus")
    assert published(home).manifest.digest == published(whole).manifest.digest


def test_materialize_all_queues_a_run_for_each_collection_and_one_for_all_that_follows(backfilled):
    home, _ = backfilled
    runs = [r.dagster_run for r in runs_of(home, "__ASSET_JOB")]
    assert sorted(run.tags.get("dagster/partition", "") for run in runs) == ["", *NAMES]
    assert {run.status for run in runs} == {SUCCESS}
    (tail,) = (run for run in runs if "dagster/partition" not in run.tags)
    keys = {key.to_user_string() for key in tail.asset_selection}
    assert keys == GROUPS["serving"]
    with instance_of(home) as instance:
        for asset in ("documents", "versions", "layout"):
            found = instance.fetch_materializations(dg.AssetKey(asset), limit=10).records
            assert sorted(str(record.partition_key) for record in found) == sorted([*NAMES, *NAMES])


def test_runs_of_a_pool_with_a_limit_of_one_do_not_overlap_and_neither_do_stages(backfilled):
    home, _ = backfilled
    records = [*runs_of(home, "rebuild"), *runs_of(home, "__ASSET_JOB")]
    spans = sorted((r.start_time, r.end_time) for r in records)
    assert all(a[1] <= b[0] for a, b in pairwise(spans)), spans
    events = [e for e in read_events(home.path) if e.event == "stage_finished" and e.fields.get("collection") in NAMES]
    stages = sorted((e.time - dt.timedelta(seconds=float(e.fields["seconds"])), e.time) for e in events)
    assert len(stages) >= 3 * 13
    rounding = dt.timedelta(milliseconds=5)
    assert all(a[1] <= b[0] + rounding for a, b in pairwise(stages))


def test_runs_are_found_by_their_collection_their_build_and_what_started_them(backfilled):
    home, _ = backfilled
    with instance_of(home) as instance:
        of_collection = instance.get_runs(dg.RunsFilter(job_name="rebuild", tags={"palimpsest/collection": "notes"}))
        of_build = instance.get_runs(dg.RunsFilter(tags={"palimpsest/build": "000001"}))
    assert [r.tags["dagster/partition"] for r in of_collection] == ["notes"]
    assert {r.job_name for r in of_build} == {"rebuild"}


def test_a_delete_of_a_collection_leaves_nothing_of_it_in_dagsters_tables(backfilled):
    """Runs last: it deletes one of the three collections."""
    home, _ = backfilled
    done = delete(home, collection="zebrafish")
    assert json.dumps(done.to_json()) and done.memories
    left = [p for p in home.dagster.rglob("*") if p.is_file() and b"zebrafish" in p.read_bytes()]
    assert left == []
    kept = [r.dagster_run for r in runs_of(home, "rebuild")]
    assert sorted(run.tags["dagster/partition"] for run in kept) == ["chats", "notes"]
    with instance_of(home) as instance:
        assert sorted(instance.get_dynamic_partitions("collections")) == ["chats", "notes"]
