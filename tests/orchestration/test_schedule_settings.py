"""When builds start by themselves, as the environment says."""

from pathlib import Path

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.orchestration import schedule
from palimpsest.orchestration.schedule import schedule_from_environment


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
