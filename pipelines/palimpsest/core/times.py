"""Times as texts and on the clock that stated them, and names of time zones."""

import datetime as dt
import re
from dataclasses import dataclass
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


def readable(time: str) -> str:
    """Returns a time in ISO form and UTC as people read it, to the second."""
    return f"{time[:19].replace('T', ' ')} UTC"


def is_time_zone(name: str) -> bool:
    """Returns whether a text is the IANA name of a time zone."""
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # ZoneInfoNotFoundError is a KeyError on some systems
        return False
    return True


# Is a text a cron expression? Without the libraries that compute its times, which the base does not install.

_MACROS = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@dataclass(frozen=True)
class _Field:
    """What one of the five fields may contain: numbers, their names, and a pattern of forms that only it has."""

    lowest: int
    highest: int
    names: tuple[str, ...] = ()
    special: str = ""

    def allows(self, text: str) -> bool:
        """Returns whether a field is a list of values, ranges and steps within its bounds."""
        return all(self._is_item(item) for item in text.split(","))

    def _is_item(self, item: str) -> bool:
        if re.fullmatch(self.special, item):
            return bool(item)
        values, slash, step = item.partition("/")
        if slash and not (step.isdecimal() and int(step[:4]) > 0):
            return False
        first, dash, last = values.partition("-")
        return values == "*" or (self._is_value(first) and (not dash or self._is_value(last)))

    def _is_value(self, text: str) -> bool:
        if text in self.names:
            return True
        return text.isdecimal() and len(text) < 3 and self.lowest <= int(text) <= self.highest


_FIELDS = (
    _Field(0, 59),
    _Field(0, 23),
    _Field(1, 31, special=r"\?|l"),
    _Field(1, 12, _MONTHS),
    _Field(0, 7, _DAYS, special=r"\?|l[0-7]|(?:[0-7]|[a-z]{3})#[1-5]"),
)


def is_cron(text: str) -> bool:
    """Returns whether a text is a cron expression: five fields, or a word such as `@daily`."""
    fields = text.lower().split()
    if len(fields) == 1:
        return fields[0] in _MACROS
    return len(fields) == len(_FIELDS) and all(f.allows(t) for f, t in zip(_FIELDS, fields, strict=True))
