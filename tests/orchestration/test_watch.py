"""Alerts of builds that failed and of a published build that is overdue, to a real server on loopback."""

import datetime as dt
import os
from unittest.mock import patch

import dagster as dg
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.orchestration.resources import HomeResource
from palimpsest.orchestration.watch import overdue_build
from palimpsest.pipeline.summary import freshness
from palimpsest.store.event_log import read_events, write_event
from palimpsest.store.home import Home
from tests.orchestration.test_alerts import Hook
from tests.small_corpus import build_home, write_chats

NOW = dt.datetime.now(dt.UTC)


@pytest.fixture(scope="module")
def built(tmp_path_factory, shared_vectors):
    base = tmp_path_factory.mktemp("watched")
    home = Home(base / "home", shared_vectors)
    build_home(home, write_chats(base / "corpus"))
    return HomeResource(path=str(home.path), embeddings_path=str(shared_vectors))


def look(resource, cursor, hours=0.0):
    later = NOW + dt.timedelta(hours=hours)
    with (
        patch("palimpsest.orchestration.watch._now", return_value=later),
        dg.instance_for_test() as instance,
        dg.build_sensor_context(instance=instance, cursor=cursor, resources={"home": resource}) as context,
    ):
        return overdue_build(context).skip_message, context.cursor


def test_an_overdue_build_alerts_once_a_day_until_it_is_confirmed(built, monkeypatch):
    with Hook(200) as hook:
        monkeypatch.setenv("PALIMPSEST_ALERT_URL", hook.url)
        said, cursor = look(built, None, 1)
        assert "was confirmed" in said and not cursor and hook.got == []
        said, cursor = look(built, None, 30)
        assert "overdue" in said and [m["event"] for _, m in hook.got] == ["build_overdue"]
        assert hook.got[0][1]["text"].endswith("last confirmed 30 hours ago, at most 26")
        look(built, cursor, 40)
        assert len(hook.got) == 1
        look(built, cursor, 60)
        assert len(hook.got) == 2
    events = read_events(built.home().path, level="warning")
    assert [e.event for e in events] == ["build_overdue"] * 2


def test_an_alert_that_is_not_delivered_is_tried_again(built, monkeypatch):
    monkeypatch.setattr("palimpsest.orchestration.watch.MAX_WAIT_S", 0.0)
    with Hook(400) as hook:
        monkeypatch.setenv("PALIMPSEST_ALERT_URL", hook.url)
        said, cursor = look(built, None, 30)
    assert "refused" in said and not cursor


def test_a_night_on_which_nothing_changed_confirms_and_a_failed_build_does_not(built):
    home = built.home()
    before = freshness(home, NOW)
    write_event(home.path, "build_failed", level="error")
    write_event(home.path, "build_finished", published=0)
    assert freshness(home, NOW).confirmed_at == before.confirmed_at
    write_event(home.path, "build_confirmed", build_id="000001")
    assert freshness(home, NOW).confirmed_at > before.confirmed_at


def test_the_hours_are_a_setting(built, monkeypatch):
    monkeypatch.setenv("PALIMPSEST_OVERDUE_HOURS", "soon")
    with pytest.raises(PalimpsestError, match="PALIMPSEST_OVERDUE_HOURS"):
        assert freshness(built.home(), NOW).is_overdue


def test_a_stage_that_fails_alerts_with_its_name_and_without_the_words_of_the_error(tmp_path, built, monkeypatch):
    from palimpsest.orchestration.code_location import defs

    monkeypatch.setenv("DAGSTER_HOME", os.environ.get("DAGSTER_HOME", str(tmp_path)))
    with (
        Hook(200) as hook,
        dg.instance_for_test() as instance,
        patch("palimpsest.orchestration.build_assets.run_stage", side_effect=OSError("a secret")),
    ):
        monkeypatch.setenv("PALIMPSEST_ALERT_URL", hook.url)
        instance.add_dynamic_partitions("collections", ["chats"])
        job = defs.resolve_job_def("build_collection")
        options = {"instance": instance, "resources": {"home": built}, "raise_on_error": False}
        assert not job.execute_in_process(partition_key="chats", **options).success
    assert [m["event"] for _, m in hook.got] == ["build_failed"]
    assert hook.got[0][1]["stage"] == "documents" and "secret" not in str(hook.got)
    assert read_events(built.home().path, level="error")[-1].event == "run_failed"
