"""A real daemon and webserver: what runs by itself publishes a build, and one signal ends every process."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.orchestration import schedule
from palimpsest.orchestration.schedule import schedule_from_environment
from palimpsest.pipeline.plan import make_plan
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from tests.orchestration.dev import Ui, palimpsest_dev, processes_of, wait_for
from tests.small_corpus import write_chats

_RUNS = "{ runsOrError { ... on Runs { results { jobName status tags { key value } } } } }"
_STATES = """{ repositoryOrError(repositorySelector: {repositoryName: "__repository__",
  repositoryLocationName: "palimpsest.definitions"}) { ... on Repository {
  schedules { name executionTimezone cronSchedule scheduleState { status } }
  sensors { name sensorState { status } } } } }"""


@pytest.fixture
def ui(tmp_path: Path) -> Iterator[tuple[Ui, Home]]:
    home = Home(tmp_path / "home")
    home.create()
    home.remember_sources(make_plan(home, [write_chats(tmp_path / "corpus")]).collections)
    settings = {"PALIMPSEST_SCHEDULE": "* * * * *", "PALIMPSEST_TIMEZONE": "Europe/Berlin"}
    with palimpsest_dev(home, tmp_path / "dev.log", **settings) as client:
        yield client, home


def test_what_runs_by_itself_is_on_publishes_a_build_and_ends_whole(ui):
    client, home = ui
    wait_for("the UI", lambda: client.query_graphql("{ version }"))
    states = wait_for(
        "the definitions",
        lambda: client.query_graphql(_STATES)["repositoryOrError"].get("schedules") and client.query_graphql(_STATES),
    )
    found = states["repositoryOrError"]
    (nightly,) = (s for s in found["schedules"] if s["name"] == "nightly_rebuild")
    assert nightly["scheduleState"]["status"] == "RUNNING"
    assert (nightly["cronSchedule"], nightly["executionTimezone"]) == ("* * * * *", "Europe/Berlin")
    sensors = {s["name"]: s["sensorState"]["status"] for s in found["sensors"]}
    assert sensors["changed_folders"] == "RUNNING"
    build = wait_for("a published build", lambda: published(home))
    assert build.manifest.memories == 5
    wait_for(
        "the end of the run",
        lambda: {("rebuild", "SUCCESS")}
        <= {(r["jobName"], r["status"]) for r in client.query_graphql(_RUNS)["runsOrError"]["results"]},
    )
    assert make_plan(home, None).nothing_to_do
    assert len(processes_of(home)) >= 3
    client.server.send_signal(signal.SIGTERM)
    assert client.server.wait(60) == 0
    assert processes_of(home) == {}


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    for name in (schedule.SCHEDULE, schedule.WEEKLY, schedule.TIMEZONE, schedule.AUTOMATION, "TZ"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("set_to", "wanted"),
    [
        ({"TZ": "Asia/Tokyo"}, ("0 3 * * *", "Asia/Tokyo", True)),
        ({"TZ": "CET-1CEST,M3.5.0"}, ("0 3 * * *", "UTC", True)),  # a local zone that has no IANA name
        (
            {schedule.SCHEDULE: "30 22 * * 1-5", schedule.TIMEZONE: "Europe/Berlin", schedule.AUTOMATION: "off"},
            ("30 22 * * 1-5", "Europe/Berlin", False),
        ),
    ],
)
def test_the_schedule_is_that_of_the_environment_and_of_the_machines_time_zone(monkeypatch, set_to, wanted):
    for name, value in set_to.items():
        monkeypatch.setenv(name, value)
    found = schedule_from_environment()
    assert (found.nightly, found.timezone, found.on) == wanted


def test_without_tz_the_zone_is_what_localtime_links_to(monkeypatch, tmp_path):
    zone = tmp_path / "zoneinfo/America/New_York"
    zone.parent.mkdir(parents=True)
    zone.touch()
    (tmp_path / "localtime").symlink_to(zone)
    monkeypatch.setattr(schedule, "_LOCALTIME", tmp_path / "localtime")
    assert schedule_from_environment().timezone == "America/New_York"
    monkeypatch.setattr(schedule, "_LOCALTIME", Path("/nowhere"))
    assert schedule_from_environment().timezone == "UTC"


@pytest.mark.parametrize(
    ("name", "value"), [("SCHEDULE", "at night"), ("TIMEZONE", "Mars/Olympus"), ("AUTOMATION", "maybe")]
)
def test_what_cannot_be_read_is_named(monkeypatch, name, value):
    monkeypatch.setenv(f"PALIMPSEST_{name}", value)
    with pytest.raises(PalimpsestError, match=f"PALIMPSEST_{name}={value}: "):
        schedule_from_environment()
