"""Times as texts and on the clock that stated them, and names of time zones."""

import datetime as dt
from zoneinfo import ZoneInfo


def parse_time(value: object) -> dt.datetime | None:
    """Returns a time in ISO form with its own offset, UTC where it states none; None where there is none.

    Raises:
        ValueError: it is no time; an OverflowError where it is none in UTC.
    """
    return None if value is None else with_offset(dt.datetime.fromisoformat(str(value)))


def with_offset(time: dt.datetime) -> dt.datetime:
    """Returns a time with its own offset, UTC where it has none.

    Raises:
        OverflowError: it is outside the years 1 to 9999 in UTC.
    """
    offset = time.utcoffset() or dt.timedelta()
    zoned = time.replace(tzinfo=dt.timezone(offset))
    zoned.astimezone(dt.UTC)
    return zoned


def utc_offset(time: dt.datetime | None) -> int | None:
    """Returns how many minutes east of UTC the clock of a time is; None where it is UTC or unknown."""
    offset = time.utcoffset() if time else None
    return int(offset.total_seconds() / 60) if offset else None


def on_own_clock(time: dt.datetime | None, utc_offset: int | None) -> dt.datetime | None:
    """Returns a time as the clock showed it that stated it: its `date()` is the day there."""
    return time.astimezone(dt.timezone(dt.timedelta(minutes=utc_offset))) if time and utc_offset else time


def comparable(time: dt.datetime, limit: dt.datetime) -> dt.datetime:
    """Returns a time as it compares with a limit, which without an offset is one of the clock that stated the time."""
    return time.replace(tzinfo=None) if is_of_own_clock(limit) else time


def is_of_own_clock(limit: object) -> bool:
    """Returns whether a limit is a time without an offset: one of the clock of each time that it is compared with."""
    return isinstance(limit, dt.datetime) and limit.tzinfo is None


def is_time_zone(name: str) -> bool:
    """Returns whether a text is the IANA name of a time zone."""
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # ZoneInfoNotFoundError is a KeyError on some systems
        return False
    return True
