"""The default times of the nightly and weekly schedules, and the environment variables that change them."""

import os
from dataclasses import dataclass
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.times import is_time_zone

SCHEDULE, WEEKLY, TIMEZONE, AUTOMATION = (
    "PALIMPSEST_SCHEDULE",
    "PALIMPSEST_WEEKLY_SCHEDULE",
    "PALIMPSEST_TIMEZONE",
    "PALIMPSEST_AUTOMATION",
)
CONSOLIDATE = "PALIMPSEST_CONSOLIDATE"
_NIGHTLY, _WEEKLY = "0 3 * * *", "0 4 * * 0"
_ON, _OFF = ("", "on", "1", "true", "yes"), ("off", "0", "false", "no")
_LOCALTIME = Path("/etc/localtime")


@dataclass(frozen=True)
class Schedule:
    """Cron expressions in a time zone (an IANA name); `on`: whether they run by default."""

    nightly: str
    weekly: str
    timezone: str
    on: bool


def schedule_from_environment() -> Schedule:
    """Returns when to build: 03:00 in the machine's time zone each night, unless the environment says otherwise.

    Raises:
        PalimpsestError: a variable cannot be read; the message names it.
    """
    return Schedule(_cron(SCHEDULE, _NIGHTLY), _cron(WEEKLY, _WEEKLY), schedule_timezone(), _is_on())


def _cron(variable: str, default: str) -> str:
    from dagster._utils.schedules import is_valid_cron_string

    found = os.environ.get(variable, "").strip() or default
    if not is_valid_cron_string(found):
        raise PalimpsestError(f"{variable}={found}: no cron expression; write five fields, such as '{default}'")
    return found


def consolidates_always() -> bool:
    """Returns whether each build that publishes something is followed by consolidation, not only that of the night.

    Raises:
        PalimpsestError: the variable has another word.
    """
    found = os.environ.get(CONSOLIDATE, "").strip() or "nightly"
    if found not in ("nightly", "always"):
        raise PalimpsestError(f"{CONSOLIDATE}={found[:40]}: must be nightly or always")
    return found == "always"


def schedule_timezone() -> str:
    """Returns the zone of all schedules: $PALIMPSEST_TIMEZONE, else the machine's, else UTC.

    Raises:
        PalimpsestError: the variable names no zone.
    """
    if found := os.environ.get(TIMEZONE, "").strip():
        if not is_time_zone(found):
            raise PalimpsestError(f"{TIMEZONE}={found}: no such time zone; write an IANA name, such as Europe/Berlin")
        return found
    local = localschedule_timezone()
    return local if is_time_zone(local) else "UTC"


def localschedule_timezone() -> str:
    """Returns the machine's time zone: $TZ, else what /etc/localtime links to, else UTC."""
    if found := os.environ.get("TZ", "").lstrip(":").strip():
        return found
    parts = _LOCALTIME.resolve().parts
    return "/".join(parts[parts.index("zoneinfo") + 1 :]) if "zoneinfo" in parts else "UTC"


def _is_on() -> bool:
    found = os.environ.get(AUTOMATION, "").strip().lower()
    if found not in _ON + _OFF:
        raise PalimpsestError(f"{AUTOMATION}={found}: write on or off")
    return found in _ON
