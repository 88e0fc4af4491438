"""Types of fields that several endpoints have."""

import datetime as dt
from typing import Annotated

from pydantic import BeforeValidator, Field

from palimpsest.core.times import parse_time


def _iso_time(value: object) -> dt.datetime | None:
    """Returns a time in ISO form in UTC; a number is none, which pydantic would take as seconds since 1970.

    Raises:
        ValueError: it is no time.
    """
    try:
        return parse_time(value if isinstance(value, str | None) else "")
    except (ValueError, OverflowError):
        raise ValueError("write a time such as 2026-03-01T09:30:00Z") from None


Name = Annotated[str, Field(max_length=256)]
IsoTime = Annotated[dt.datetime, BeforeValidator(_iso_time)]
