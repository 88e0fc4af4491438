"""Sensors and schedule evaluated in this process, on a small home."""

import datetime as dt
import shutil
from unittest.mock import patch

import dagster as dg
import pytest

from palimpsest.orchestration.automation import _folder_state
from palimpsest.orchestration.resources import HomeResource
from palimpsest.pipeline.document_info import operation_status
from palimpsest.pipeline.plan import make_plan
from palimpsest.sources.crawl.address_guard import VARIABLE
from palimpsest.sources.inbox import ingest_text
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest.store.web_pages import web_pages
from tests.command import run
from tests.small_corpus import TURNS, build_home, copy_built, write_chats, write_notes
from tests.sources.crawl.local_site import html, serve

NEW_TURN = ("s9", "ann", "Ann", "The tea is out.", "2026-05-01T09:00:00Z")


@pytest.fixture(scope="module")
def made(tmp_path_factory, shared_vectors):
    base = tmp_path_factory.mktemp("made")
    home = Home(base / "home", shared_vectors)
    build_home(home, write_chats(base / "corpus"))
    return base


@pytest.fixture
def built(made, tmp_path, shared_vectors):
    home, corpus = copy_built(made, tmp_path)
    return HomeResource(path=str(home.path), embeddings_path=str(shared_vectors)), corpus


def look(resource, cursor, instance):
    from palimpsest.orchestration.automation import changed_folders

    with dg.build_sensor_context(instance=instance, cursor=cursor, resources={"home": resource}) as context:
        found = list(changed_folders(context))
        return [r.partition_key for r in found if isinstance(r, dg.RunRequest)], context.cursor


def test_the_sensor_asks_for_a_collection_whose_contents_or_inbox_changed_and_only_then(built):
    resource, corpus = built
    with dg.instance_for_test() as instance:
        wanted, cursor = look(resource, None, instance)
        assert wanted == []
        (corpus / "chats/turns.jsonl").touch()
        wanted, touched = look(resource, cursor, instance)
        assert wanted == [] and touched != cursor
        write_chats(corpus, [*TURNS, NEW_TURN])
        wanted, later = look(resource, touched, instance)
        assert wanted == ["chats"] and look(resource, later, instance) == ([], later)
        write_chats(corpus)
        _, cursor = look(resource, later, instance)
        ingest_text(resource.home(), "The spare key hangs behind the clock.", user="ann")
        wanted, later = look(resource, cursor, instance)
        assert wanted == ["chats"] and look(resource, later, instance) == ([], later)


def test_a_change_whose_run_never_began_is_seen_by_the_next_process_and_one_in_progress_is_waited_for(
    built, monkeypatch
):
    from palimpsest.orchestration.code_location import defs

    resource, corpus = built
    write_chats(corpus, [*TURNS, NEW_TURN])
    with dg.instance_for_test() as instance:
        wanted, cursor = look(resource, None, instance)
        assert wanted == ["chats"] and look(resource, cursor, instance) == ([], cursor)
        # The run was created and its launch failed, as where everything stops: nobody launches it again.
        job = defs.resolve_job_def("rebuild")
        run = instance.create_run_for_job(job, tags={"dagster/partition": "chats"})
        monkeypatch.setattr("palimpsest.orchestration.automation.process_created_s", lambda pid: 1.0)
        wanted, later = look(resource, cursor, instance)
        assert wanted == ["chats"] and later != cursor
        instance.report_dagster_event(dg.DagsterEvent("PIPELINE_STARTING", "rebuild"), run.run_id)
        assert look(resource, cursor, instance) == ([], cursor)
        instance.report_run_canceled(run)
        assert look(resource, cursor, instance)[0] == ["chats"]


def test_a_build_that_fails_says_so_of_what_is_in_the_inbox_and_the_next_one_publishes_it(built):
    from palimpsest.orchestration.code_location import defs

    resource, corpus = built
    home = resource.home()
    operation = ingest_text(home, "The spare key hangs behind the clock.", user="ann").operation_id
    with (
        dg.instance_for_test() as instance,
        patch("palimpsest.orchestration.build_assets.run_stage", side_effect=OSError("disk full")),
    ):
        instance.add_dynamic_partitions("collections", ["chats"])
        job = defs.resolve_job_def("rebuild")
        options = {"instance": instance, "resources": {"home": resource}, "raise_on_error": False}
        assert not job.execute_in_process(partition_key="chats", **options).success
    failed = operation_status(home, operation)
    assert failed.state == "failed" and "disk full" in str(failed.reason)
    build_home(home, corpus)
    assert operation_status(home, operation).state == "published"


def test_the_nightly_schedule_skips_when_nothing_changed_and_rebuilds_what_did(built):
    from palimpsest.orchestration.automation import nightly_rebuild

    resource, corpus = built
    night = dt.datetime(2026, 7, 1, 2, tzinfo=dt.UTC)
    with dg.instance_for_test() as instance:

        def tick():
            resources = {"home": resource}
            with dg.build_schedule_context(instance, night, resources) as context:
                return list(nightly_rebuild(context))

        assert [type(r) for r in tick()] == [dg.SkipReason]
        write_chats(corpus, TURNS[:-1])
        assert [r.partition_key for r in tick()] == ["chats"]
        assert instance.get_dynamic_partitions("collections") == ["chats"]


def test_settings_that_cannot_be_read_fail_in_a_run_of_their_own_and_keep_no_other_collection_from_being_built(built):
    resource, corpus = built
    write_notes(corpus, {"a.md": "The gate is green.\n"})
    home = resource.home()
    build_home(home, corpus)
    (corpus / "notes/collection.yaml").write_text("name: notes\ndescription: notes\nunti: turn\n")
    write_chats(corpus, [*TURNS, NEW_TURN])
    with dg.instance_for_test() as instance:
        wanted, cursor = look(resource, None, instance)
        assert wanted == ["notes", "chats"] and look(resource, cursor, instance) == ([], cursor)
    plan = make_plan(home, [corpus])
    assert plan.changed == ("chats",) and "no field 'unti'; use unit" in str(plan.broken["notes"])
    shutil.copytree(home.embeddings, home.path / "embeddings")
    done = run("build", "--home", home.path, "--corpus", corpus)
    assert done.returncode == 2 and done.stderr.startswith("collection notes is not built: collection.yaml: ")
    current = published(home)
    texts = current.tables(["memories"])["memories"]["text"].to_list()
    assert "The tea is out." in texts and "The gate is green." in texts
    assert run("build", "--home", home.path, "--corpus", corpus, "--collection", "chats").returncode == 0


def look_at_sites(resource: HomeResource, when: dt.datetime) -> dg.RunRequest | dg.SkipReason:
    from palimpsest.orchestration.publishing import due_sites

    with dg.build_schedule_context(scheduled_execution_time=when, resources={"home": resource}) as context:
        return due_sites(context)


def test_a_due_entry_is_crawled_by_a_run_and_its_pages_wake_the_sensor(tmp_path, monkeypatch):
    from palimpsest.orchestration.code_location import defs

    home = Home(tmp_path / "home")
    home.create()
    resource = HomeResource(path=str(home.path))
    now = dt.datetime.now(dt.UTC)
    assert isinstance(look_at_sites(resource, now), dg.SkipReason)
    folder = write_notes(tmp_path / "corpus", {"a.md": "A note.\n"}) / "notes"
    home.remember_sources({"notes": folder})
    with serve({"/": html("The pump.")}) as site:
        monkeypatch.setenv(VARIABLE, "127.0.0.1")
        (folder / "sources.yaml").write_text(
            f"web:\n- {{url: {site.url}, schedule: '0 2 * * *'}}\n- {{url: {site.url}x}}\n"
        )
        assert isinstance(look_at_sites(resource, now), dg.RunRequest)
        before = _folder_state(home)
        with dg.instance_for_test() as instance:
            job = defs.resolve_job_def("crawl_sites")
            result = job.execute_in_process(instance=instance, resources={"home": resource}, raise_on_error=False)
            assert result.success
            found = [e for e in result.all_events if e.is_step_materialization]
        (event,) = (e.step_materialization_data.materialization for e in found)
        assert event.metadata["stored"].value == 1 and event.metadata["crawls"].value == 1
        assert [page.record.uri for page in web_pages(home.web, "notes")] == [site.url]
        assert _folder_state(home) != before
        skipped = look_at_sites(resource, now)
        assert isinstance(skipped, dg.SkipReason) and "none of 1 entries" in str(skipped.skip_message)
        assert isinstance(look_at_sites(resource, now + dt.timedelta(days=2)), dg.RunRequest)
    (folder / "sources.yaml").write_text("web: [{url: 3}]\n")
    assert "sources.yaml" in str(look_at_sites(resource, now).skip_message)
