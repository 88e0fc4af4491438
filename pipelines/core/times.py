"""Times as texts."""

import datetime as dt


def parse_time(value: object) -> dt.datetime | None:
    """Returns a time in ISO form as a time in UTC; None where there is none.

    Raises:
        ValueError: it is no time; an OverflowError where it is none in UTC.
    """
    if value is None:
        return None
    found = dt.datetime.fromisoformat(str(value))
    return found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found.astimezone(dt.UTC)
