"""Calendar arithmetic: the first and last day of months, quarters, seasons and of what lies before or after a day."""

import datetime as dt
from collections.abc import Sequence

DaySpan = tuple[dt.date, dt.date]
"""First and last day, both included."""

MONTH_NAMES = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
MONTHS = tuple(name[:3] for name in MONTH_NAMES)
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""The month that each begins with, in the northern hemisphere."""

_MONTHS_OF = {"month": 1, "quarter": 3, "year": 12}


def month_or_day(year: int, month: int, day_number: str | None) -> DaySpan:
    """Returns the first and last day of a month, or the one day of it that a number names."""
    if day_number:
        try:
            day = dt.date(year, month, int(day_number))
        except ValueError:
            pass  # 31 June: only the month is known
        else:
            return day, day
    return months_span(year, month, 1)


def months_span(year: int, month: int, count: int) -> DaySpan:
    """Returns the first and last day of `count` months from the first of a month on."""
    following = year * 12 + month - 1 + count
    return dt.date(year, month, 1), dt.date(following // 12, following % 12 + 1, 1) - dt.timedelta(days=1)


def season_span(year: int, season: str) -> DaySpan:
    """Returns the days of a season that begins in a year."""
    return months_span(year, SEASONS[season], 3)


def unit_span(day: dt.date, unit: str, offset: int) -> DaySpan:
    """Returns the calendar's day, week, month, quarter or year that contains `day`, or the one `offset` units later."""
    if unit == "day":
        one = day + dt.timedelta(days=offset)
        return one, one
    if unit == "week":
        monday = day + dt.timedelta(days=7 * offset - day.weekday())
        return monday, monday + dt.timedelta(days=6)
    size = _MONTHS_OF[unit]
    number = (day.year * 12 + day.month - 1) // size * size + offset * size
    return months_span(number // 12, number % 12 + 1, size)


def days_before(day: dt.date, count: int, unit: str) -> dt.date:
    """Returns the day so many units before: of months and years the same day of the month, or that month's last."""
    if unit in ("day", "week"):
        return day - dt.timedelta(days=count * (7 if unit == "week" else 1))
    number = day.year * 12 + day.month - 1 - count * _MONTHS_OF[unit]
    first, last = months_span(number // 12, number % 12 + 1, 1)
    return min(last, first + dt.timedelta(days=day.day - 1))


def latest_begun(spans: Sequence[DaySpan], reference: dt.date) -> DaySpan:
    """Returns the last of spans in order of time that has begun by the reference day; at least one must have."""
    return [span for span in spans if span[0] <= reference][-1]


def nearest(spans: Sequence[DaySpan], reference: dt.date) -> DaySpan:
    """Returns the span that contains the reference day or is nearest to it, the earlier of two."""
    return min(spans, key=lambda span: max(span[0] - reference, reference - span[1], dt.timedelta()))
