"""Periods: stretches of time as numbers in years, so that any two can be compared."""

import datetime as dt
import math

Period = tuple[float, float]
"""Beginning and end in years: 2020.5 is about the first of July; infinite where one is open."""


def to_period(first: dt.date | None, last: dt.date | None) -> Period:
    """Returns days, both included, as a period; None is an open end."""
    start = -math.inf if first is None else _years(first, 0)
    return start, math.inf if last is None else _years(last, 1)


def day_period(time: dt.datetime) -> Period:
    """Returns the day of a time as a period."""
    return to_period(time.date(), time.date())


def _years(date: dt.date, days_later: int) -> float:
    day_of_year = date.timetuple().tm_yday - 1 + days_later
    leap = date.year % 4 == 0 and (date.year % 100 != 0 or date.year % 400 == 0)
    return date.year + day_of_year / (366 if leap else 365)
