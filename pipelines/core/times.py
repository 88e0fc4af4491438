"""Times as texts, and names of time zones."""

import datetime as dt
from zoneinfo import ZoneInfo


def parse_time(value: object) -> dt.datetime | None:
    """Returns a time in ISO form as a time in UTC; None where there is none.

    Raises:
        ValueError: it is no time; an OverflowError where it is none in UTC.
    """
    if value is None:
        return None
    found = dt.datetime.fromisoformat(str(value))
    return found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found.astimezone(dt.UTC)


def is_time_zone(name: str) -> bool:
    """Returns whether a text is the IANA name of a time zone."""
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # ZoneInfoNotFoundError is a KeyError on some systems
        return False
    return True
