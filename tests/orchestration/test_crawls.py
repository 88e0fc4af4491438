"""Entries of sources.yaml under Dagster: a run where one is due, and the sensor that builds what it stored."""

import datetime as dt

import dagster as dg

from palimpsest.orchestration.automation import _folder_state
from palimpsest.orchestration.resources import HomeResource
from palimpsest.sources.crawl.address_guard import VARIABLE
from palimpsest.store.home import Home
from palimpsest.store.web_pages import web_pages
from tests.small_corpus import write_notes
from tests.sources.crawl.local_site import html, serve


def look(resource: HomeResource, when: dt.datetime) -> dg.RunRequest | dg.SkipReason:
    from palimpsest.orchestration.publishing import due_sites

    with dg.build_schedule_context(scheduled_execution_time=when, resources={"home": resource}) as context:
        return due_sites(context)


def test_a_due_entry_is_crawled_by_a_run_and_its_pages_wake_the_sensor(tmp_path, monkeypatch):
    from palimpsest.orchestration.code_location import defs

    home = Home(tmp_path / "home")
    home.create()
    resource = HomeResource(path=str(home.path))
    now = dt.datetime.now(dt.UTC)
    assert isinstance(look(resource, now), dg.SkipReason)
    folder = write_notes(tmp_path / "corpus", {"a.md": "A note.\n"}) / "notes"
    home.remember_sources({"notes": folder})
    with serve({"/": html("The pump.")}) as site:
        monkeypatch.setenv(VARIABLE, "127.0.0.1")
        (folder / "sources.yaml").write_text(
            f"web:\n- {{url: {site.url}, schedule: '0 2 * * *'}}\n- {{url: {site.url}x}}\n"
        )
        assert isinstance(look(resource, now), dg.RunRequest)
        before = _folder_state(home)
        with dg.instance_for_test() as instance:
            job = defs.resolve_job_def("crawl_sites")
            result = job.execute_in_process(instance=instance, resources={"home": resource}, raise_on_error=False)
            assert result.success
            (event,) = result.asset_materializations_for_node("web_pages")
        assert event.metadata["stored"].value == 1 and event.metadata["crawls"].value == 1
        assert [page.record.uri for page in web_pages(home.web, "notes")] == [site.url]
        assert _folder_state(home) != before
        skipped = look(resource, now)
        assert isinstance(skipped, dg.SkipReason) and "none of 1 entries" in str(skipped.skip_message)
        assert isinstance(look(resource, now + dt.timedelta(days=2)), dg.RunRequest)
    (folder / "sources.yaml").write_text("web: [{url: 3}]\n")
    assert "sources.yaml" in str(look(resource, now).skip_message)
