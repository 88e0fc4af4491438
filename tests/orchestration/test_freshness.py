"""Freshness: each collection by its own hours, and the policy that Dagster's daemon evaluates."""

import datetime as dt
import re
from types import SimpleNamespace
from unittest.mock import patch

import dagster as dg
import pytest
from dagster._core.definitions.freshness import FreshnessState, FreshnessStateRecord
from dagster._core.test_utils import freeze_time
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from dagster._daemon.freshness import FreshnessDaemon

from palimpsest.core.errors import PalimpsestError
from palimpsest.orchestration.build_assets import fresh_collections, freshness_of_builds
from palimpsest.orchestration.resources import HomeResource
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.pipeline.summary import collection_freshness, confirm_collections
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from tests.orchestration.jobs import instance_of, new_home
from tests.small_corpus import TURNS, build_home, copy_built, write_chats, write_notes

NOW = dt.datetime.now(dt.UTC)


@pytest.fixture(scope="module")
def made(tmp_path_factory, shared_vectors):
    base = tmp_path_factory.mktemp("made")
    home = Home(base / "home", shared_vectors)
    corpus = write_notes(write_chats(base / "corpus"), {"a.md": "The bridge is long.\n"}, overdue_hours="100")
    build_home(home, corpus)
    return base


@pytest.fixture
def built(made, tmp_path, shared_vectors):
    return copy_built(made, tmp_path, shared_vectors)


def events_at(hours: float):
    """Dates the events of a block some hours from now."""
    later = NOW + dt.timedelta(hours=hours)
    clock = type("Later", (dt.datetime,), {"now": classmethod(lambda *_: later)})
    return patch("palimpsest.store.event_log.dt", SimpleNamespace(**{**vars(dt), "datetime": clock}))


def overdue(home: Home, hours: float) -> list[str]:
    found = collection_freshness(home, NOW + dt.timedelta(hours=hours))
    return [f.collection for f in found if f.is_overdue]


def check(home: Home, hours: float) -> dg.AssetCheckResult:
    later = NOW + dt.timedelta(hours=hours)
    with patch("palimpsest.orchestration.build_assets._now", return_value=later):
        return fresh_collections(HomeResource(path=str(home.path), embeddings_path=str(home.embeddings)))


def test_each_collection_is_overdue_after_its_own_hours_which_change_no_plan_until_a_look_confirms_it(built):
    home, _ = built
    assert overdue(home, 1) == [] and check(home, 1).passed
    assert overdue(home, 30) == ["chats"], "26 hours of the home; notes has 100 of its own"
    assert overdue(home, 101) == ["chats", "notes"]
    result = check(home, 30)
    assert not result.passed and result.severity == dg.AssetCheckSeverity.WARN
    assert result.description == "overdue: chats" and result.metadata["overdue"].value == 1
    assert re.search(r"\| notes \| (?:30|29)\.\d \| 100 \|", result.metadata["hours"].value)
    home, corpus = built
    write_notes(corpus, {}, overdue_hours="7")
    assert make_plan(home, None).nothing_to_do and overdue(home, 8) == ["notes"]
    with events_at(25):
        confirm_collections(home, ["chats", "notes"])
    assert overdue(home, 30) == []


def test_a_collection_that_cannot_be_built_stays_overdue_while_the_others_are_published(built):
    home, corpus = built
    write_chats(corpus, [*TURNS, ("s9", "ann", "Ann", "The tea is out.", "2026-05-01T09:00:00Z")])
    write_notes(corpus, {"b.md": "The harbour has two cranes.\n"}, overdue_hours="100")
    with events_at(101):
        run_without_dagster(home, make_plan(home, [corpus], ["notes"]))
    assert published(home).build_id == "000002"
    assert overdue(home, 102) == ["chats"]


def test_the_policy_follows_the_setting(monkeypatch):
    monkeypatch.setenv("PALIMPSEST_OVERDUE_HOURS", "10")
    policy = freshness_of_builds()
    assert policy.warn_window.to_timedelta() == dt.timedelta(hours=10)
    assert policy.fail_window.to_timedelta() == dt.timedelta(hours=30)
    monkeypatch.setenv("PALIMPSEST_OVERDUE_HOURS", "soon")
    with pytest.raises(PalimpsestError, match="PALIMPSEST_OVERDUE_HOURS"):
        freshness_of_builds()


def test_the_daemon_finds_the_published_build_fresh_then_old_then_overdue(tmp_path):
    home = new_home(tmp_path / "home", write_chats(tmp_path / "corpus"))
    key, states = dg.AssetKey("published"), []
    target = ModuleTarget("palimpsest.definitions", None, tmp_path.as_posix(), "palimpsest.definitions")
    with instance_of(home) as instance, WorkspaceProcessContext(instance, target) as workspace:
        assert instance.freshness_enabled
        instance.report_runless_asset_event(dg.AssetMaterialization(key))
        for hours in (1, 27, 79):
            with freeze_time(NOW + dt.timedelta(hours=hours)):
                list(FreshnessDaemon().run_iteration(workspace))
            records = instance.get_freshness_state_records([key])
            assert isinstance(records[key], FreshnessStateRecord)
            states.append(records[key].freshness_state)
    assert states == [FreshnessState.PASS, FreshnessState.WARN, FreshnessState.FAIL]
