"""Types of fields that several endpoints have."""

import datetime as dt
from typing import Annotated

from pydantic import BeforeValidator, Field

from palimpsest.core.times import parse_time


def _iso_time(value: object) -> dt.datetime | None:
    """Returns a time in ISO form; a number is none, which pydantic would take as seconds since 1970.

    Raises:
        ValueError: it is no time.
    """
    try:
        return parse_time(value if isinstance(value, str | None) else "")
    except (ValueError, OverflowError):
        raise ValueError("write a time such as 2026-03-01T09:30:00Z") from None


def _iso_time_or_day(value: object) -> dt.datetime | dt.date | None:
    """Returns a day alone as a date, and else as `_iso_time` does.

    Raises:
        ValueError: it is no time.
    """
    found = _iso_time(value)
    return found.date() if found and len(str(value).strip()) <= len("2026-03-01") else found


Name = Annotated[str, Field(max_length=256)]
IsoTime = Annotated[dt.datetime, BeforeValidator(_iso_time)]
IsoTimeOrDay = Annotated[dt.datetime | dt.date, BeforeValidator(_iso_time_or_day)]
"""A time, or a day: of each speaker's own clock where memories are compared with it."""
