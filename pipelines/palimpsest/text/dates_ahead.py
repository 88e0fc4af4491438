"""Dates of a statement as somebody means them who plans: one that lacks a year or a week is the next such day.

The forms of `date_mentions` and `relative_dates`, and those that only what is ahead has: weekdays, weekends, days of a
month without its name, `the next two weeks`.
"""

import datetime as dt
import re
from collections.abc import Callable, Iterator

from palimpsest.text.calendar_spans import MONTH_NAMES, MONTHS, DaySpan, days_before, month_or_day, unit_span
from palimpsest.text.date_mentions import DateMention, find_date_mentions, join_ranges, without_overlaps
from palimpsest.text.dates import parse_stated_time
from palimpsest.text.relative_dates import WEEKDAYS, find_relative_dates, read_number

NUMBER_WORDS = r"one|two|three|four|five|six|seven|eight|nine|ten|\d{1,3}"
"""Counts of days, weeks and months, as part of a pattern."""

_MONTH = rf"(?P<month>{'|'.join(sorted((*MONTHS, *MONTH_NAMES), key=len, reverse=True))})\b\.?"
_TO = r"\s*(?:-|\u2013|\u2014|\b(?:to|until|and)\b)\s*"
_YEAR = r"(?:,?\s+(?P<year>20\d\d))?\b"
_RANGES = (
    re.compile(rf"\b(?P<first>\d{{1,2}}){_TO}(?P<last>\d{{1,2}})\s+{_MONTH}{_YEAR}", re.I),
    re.compile(rf"\b{_MONTH}\s+(?P<first>\d{{1,2}}){_TO}(?P<last>\d{{1,2}})(?![\d:]){_YEAR}", re.I),
)
_CALENDAR_WORD = re.compile(r"last|past|previous|yesterday|this|current|next|today|tonight|tomorrow|the day", re.I)
_FIRST_OF = re.compile(r"\b(?:beginning|start)\s+of\s+(?:the\s+)?$", re.I)


def find_dates_ahead(text: str, reference: dt.date) -> list[DateMention]:
    """Returns the dates of a text in order of place, counted forward from the day on which it was stated.

    Args:
        text: the text.
        reference: the day of the statement.
    """
    found: list[DateMention] = []
    for dates in (
        _ranges(text, reference),
        find_date_mentions(text),
        _own(text, reference),
        _relative(text, reference),
    ):
        found = sorted([*found, *without_overlaps(dates, found)], key=lambda d: d.start)
    return [_first_alone(text, date) for date in join_ranges(text, found)]


def _ranges(text: str, ref: dt.date) -> Iterator[DateMention]:
    """Yields `from 3 to 9 May` and `May 3-9`."""
    for m in (m for pattern in _RANGES for m in pattern.finditer(text) if int(m["first"]) < int(m["last"])):
        month = MONTHS.index(m["month"][:3].lower()) + 1
        for year in [int(m["year"])] if m["year"] else [ref.year, ref.year + 1]:
            (first, _), (_, last) = (month_or_day(year, month, m[day]) for day in ("first", "last"))
            if last >= ref:
                yield DateMention(*m.span(), first, last, is_range=True)
                break


def _relative(text: str, ref: dt.date) -> Iterator[DateMention]:
    for date in find_relative_dates(text, ref):
        if date.last is None or date.last >= ref or _CALENDAR_WORD.match(text, date.start):
            yield date
        else:  # a month or a day of one, of which the parser takes the nearest
            first, last = (d and month_or_day(d.year + 1, d.month, str(d.day))[1] for d in (date.first, date.last))
            yield date._replace(first=first, last=last)


def _own(text: str, ref: dt.date) -> list[DateMention]:
    found: list[DateMention] = []
    for pattern, read in _FORMS:
        named = [DateMention(*m.span(), *span) for m in pattern.finditer(text) if (span := read(m, ref))]
        found = sorted([*found, *without_overlaps(named, found)], key=lambda d: d.start)
    return found


def _weekday(m: re.Match[str], ref: dt.date) -> DaySpan:
    """Returns the next such day; after `next` that of the next calendar week, so that none is too early."""
    number, which = WEEKDAYS.index(m["day"].lower()), (m["which"] or "").lower()
    ahead = (number - ref.weekday()) % 7 or (0 if which == "this" else 7)
    day = ref + dt.timedelta(days=7 - ref.weekday() + number if which == "next" else ahead)
    return day, day


def _weekend(m: re.Match[str], ref: dt.date) -> DaySpan:
    sunday = unit_span(ref, "week", int(m["which"].lower() == "next"))[1]
    return sunday - dt.timedelta(days=1), sunday


def _rest(m: re.Match[str], ref: dt.date) -> DaySpan:
    return ref, unit_span(ref, m["unit"].lower(), 0)[1]


def _following(m: re.Match[str], ref: dt.date) -> DaySpan:
    return ref, days_before(ref, -read_number(m["n"] or "one"), (m["unit"] or m["units"]).lower())


def _day_of_month(m: re.Match[str], ref: dt.date) -> DaySpan | None:
    number = int(m["n"])
    month = days_before(ref.replace(day=1), 0 if number >= ref.day else -1, "month")
    day = month.replace(day=number) if 1 <= number <= 28 else None  # a later day is not in every month
    return (day, day) if day else None


def _numeric(m: re.Match[str], _: dt.date) -> DaySpan | None:
    time = parse_stated_time(m[0])
    return (time.date(), time.date()) if time else None


def _first_alone(text: str, date: DateMention) -> DateMention:
    """Returns the first day alone of a month or year after `the beginning of`."""
    if date.last is None or not _FIRST_OF.search(text[max(0, date.start - 24) : date.start]):
        return date
    first = date.first or date.last.replace(day=1)
    return date._replace(first=first, last=first)


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], dt.date], DaySpan | None]], ...] = (
    (re.compile(r"\b\d{1,2}([/.])\d{1,2}\1\d{4}\b"), _numeric),
    (re.compile(rf"\b(?:(?P<which>this coming|this|next|coming)\s+)?(?P<day>{'|'.join(WEEKDAYS)})\b", re.I), _weekday),
    (re.compile(r"\b(?P<which>this|next|the)\s+weekend\b", re.I), _weekend),
    (re.compile(r"\bthe (?:rest|remainder|end) of (?:the |this )?(?P<unit>week|month|quarter|year)\b", re.I), _rest),
    (
        re.compile(
            rf"\bthe (?:next|coming)\s+(?:(?P<n>{NUMBER_WORDS})\s+(?P<units>day|week|month|year)s?"
            r"|(?P<unit>day|week|month|year))\b",
            re.I,
        ),
        _following,
    ),
    (re.compile(r"\bthe\s+(?P<n>\d{1,2})(?:st|nd|rd|th)\b(?=\s*(?:[.,;:!)]|$|and\b))", re.I), _day_of_month),
)
