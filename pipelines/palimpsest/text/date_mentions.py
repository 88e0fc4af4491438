"""Dates and periods that a text states: with their year, or relative to a reference day.

`from Oct 1721 to Mar 1918` is all of that; `in 1992` the whole year; `since 2001` has no end, `until 2004` no
beginning.
"""

import datetime as dt
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

# Calendar arithmetic: the first and last day of months, quarters, seasons and of what lies before or after a day.

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


# Periods: stretches of time as numbers in years, so that any two can be compared.

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


_MONTH = rf"(?P<month>{'|'.join(MONTHS)})[a-z]*\.?"

# Dates that a text states with their year: years, months, days, decades and ranges of them.

_DATE = re.compile(
    rf"(?<![\w.,/-])(?:(?:(?P<before>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?{_MONTH}"
    r"(?:\s++(?P<after>\d{1,2})(?:st|nd|rd|th)?)?(?:\s*+,)?\s++(?:of\s++)?)?"
    r"(?P<year>1\d{3}|20\d\d)(?:(?P<decade>s)\b|-(?P<iso>0[1-9]|1[0-2])-(?P<day>\d\d)\b"
    r"|(?P<short>[-\u2013\u2014/]\d\d)(?![\d-])|(?![\d\w]))",
    re.I,
)
_YEAR = re.compile(r"1\d{3}|20\d\d")
_TO = re.compile(r"\s*(?:to|until|till|through|[-\u2013\u2014])\s*(?:the\s+)?$", re.I)
_AND = re.compile(r"\s*and\s*$", re.I)
_BETWEEN = re.compile(r"\bbetween\s+(?:the\s+)?$", re.I)
_SINCE = re.compile(r"\b(?:since|from|after)\s+(?:the\s+)?$", re.I)
_UNTIL = re.compile(r"\b(?:until|till|before|up to|to|by)\s+(?:the\s+)?$", re.I)
_AFTER = re.compile(r"\bafter\s+(?:the\s+)?$", re.I)
_EARLIER = re.compile(r"\bbefore\s+(?:the\s+)?$", re.I)
_MAX_BOUND_CHARS = 16  # before a date that may say what it bounds


class DateMention(NamedTuple):
    """A span of a text that states days, first and last included; None where they have no beginning or no end."""

    start: int
    end: int
    first: dt.date | None
    last: dt.date | None
    is_range: bool = False

    @property
    def period(self) -> Period:
        """The days in years."""
        return to_period(self.first, self.last)


def find_date_mentions(text: str, known: Sequence[DateMention] = (), exclude_bound: bool = False) -> list[DateMention]:
    """Returns every date or range that is stated with its year, in order of place.

    Args:
        text: the text.
        known: mentions found otherwise; they replace what they overlap.
        exclude_bound: whether a date after `before` or `after` is itself excluded.
    """
    if not known and not _YEAR.search(text):
        return []
    dates = (_read_date(m) for m in _DATE.finditer(text))
    free = (d for d in dates if all(d.end <= k.start or d.start >= k.end for k in known))
    return join_ranges(text, sorted([*free, *known]) if known else free, exclude_bound)


def join_ranges(text: str, dates: Iterable[DateMention], exclude_bound: bool = False) -> list[DateMention]:
    """Joins dates that `to`, a dash or `between ... and` connect, and opens those after since or until.

    Args:
        text: where they are stated.
        dates: in order of place, without overlaps.
        exclude_bound: whether a date after `before` or `after` is itself excluded.
    """
    out: list[DateMention] = []
    remaining = list(dates)
    i = 0
    while i < len(remaining):
        date = remaining[i]
        before = text[max(0, date.start - _MAX_BOUND_CHARS) : date.start]
        following = remaining[i + 1] if i + 1 < len(remaining) else None
        if following and not date.is_range and _is_range(before, text[date.end : following.start], date, following):
            out.append(DateMention(date.start, following.end, date.first, following.last, True))
            i += 2
            continue
        out.append(date if date.is_range else _apply_bound(date, before, exclude_bound))
        i += 1
    return out


def without_overlaps(found: Iterable[DateMention], taken: list[DateMention]) -> list[DateMention]:
    """Returns the mentions that overlap none of `taken`, which are in order of place without overlaps."""
    starts = [t.start for t in taken]
    return [f for f in found if not (n := bisect_left(starts, f.end)) or taken[n - 1].end <= f.start]


def _apply_bound(date: DateMention, before: str, exclude_bound: bool) -> DateMention:
    """Returns a date without its end or its beginning where the words before it are since, until or the like."""
    if exclude_bound and date.first and date.last:
        if _AFTER.search(before):
            return date._replace(first=date.last + dt.timedelta(days=1), last=None)
        if _EARLIER.search(before):
            return date._replace(first=None, last=date.first - dt.timedelta(days=1))
    if _SINCE.search(before):
        return date._replace(last=None)
    return date._replace(first=None) if _UNTIL.search(before) else date


def _is_range(before: str, gap: str, date: DateMention, following: DateMention) -> bool:
    if not (_TO.match(gap) or (_AND.match(gap) and _BETWEEN.search(before))):
        return False
    return date.first is not None and following.first is not None and date.first <= following.first


def _read_date(m: re.Match[str]) -> DateMention:
    year = int(m["year"])
    last, is_range = year, False
    if m["decade"]:
        last, is_range = year + 9, True
    elif m["iso"] or m["month"]:
        month = int(m["iso"]) if m["iso"] else MONTHS.index(m["month"][:3].lower()) + 1
        return DateMention(m.start(), m.end(), *month_or_day(year, month, m["day"] or m["before"] or m["after"]))
    elif m["short"]:
        number = int(m["short"][1:])
        end = year + 1 if (year % 100, number) == (99, 0) else year // 100 * 100 + number
        if end > year:
            last, is_range = end, True
        elif 1 <= number <= 12:  # 2023-04: no range ends before it begins, so that is April
            return DateMention(m.start(), m.end(), *month_or_day(year, number, None))
    return DateMention(m.start(), m.end(), dt.date(year, 1, 1), dt.date(last, 12, 31), is_range)


_NAMED_YEAR = r"(?P<year>1\d{3}|20\d\d)"

# Parts of a year that a question names: quarters, halves, seasons: `Q2 2026`, `first quarter`, `H1`, `in summer`.

_OF_YEAR = rf"(?:\s*+(?:,\s*+)?(?:of\s++|in\s++)?{_NAMED_YEAR}\b)"
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}
_ORDINAL_WORDS = "|".join(_ORDINALS)
_OF_YEAR_2 = _OF_YEAR.replace("<year>", "<year2>")
_BEFORE_SEASON = r"\b(?:in|during|since|until|before|after|by)\s+(?:the\s+)?"
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\bQ(?P<quarter>[1-4])(?:[-/]?{_NAMED_YEAR}\b|{_OF_YEAR_2}|\b)",
        rf"\b{_NAMED_YEAR}[-/ ]?Q(?P<quarter>[1-4])\b",
        rf"\b(?P<order>{_ORDINAL_WORDS})\s+(?P<unit>quarter|half)(?:{_OF_YEAR}|\s+of\s+the\s+year\b|\b(?!\s+of\b))",
        rf"\bH(?P<half>[12])(?:[-/]?{_NAMED_YEAR}\b|{_OF_YEAR_2})",
        rf"\b(?P<season>{'|'.join(SEASONS)}){_OF_YEAR}",
        rf"{_BEFORE_SEASON}(?P<season>spring|summer|autumn|winter)\b",  # a fall without a year may be any
    )
)
_ANY_PART = re.compile(r"\bQ[1-4]|\d[-/ ]?Q[1-4]|quarter|half|\bH[12]|" + "|".join(SEASONS), re.I)


def find_parts_of_year(text: str, reference: dt.date | None = None, past: bool = False) -> list[DateMention]:
    """Returns the parts of years that a question names, in order of place, without overlaps.

    Args:
        text: the question.
        reference: the day that gives parts without a year theirs; without it they are excluded.
        past: whether such a part is the latest that has begun; else it is the nearest.
    """
    if not _ANY_PART.search(text):
        return []
    out: list[DateMention] = []
    for found in sorted(_match_parts(text, reference, past), key=lambda d: (d.start, -d.end)):
        if not out or found.start >= out[-1].end:
            out.append(found)
    return out


def _match_parts(text: str, reference: dt.date | None, past: bool) -> Iterator[DateMention]:
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            groups = match.groupdict()
            month, count = _part_months(groups)
            year = groups.get("year") or groups.get("year2")
            start = match.start("season") if groups.get("season") else match.start()
            if count == 0 or (not year and reference is None):
                continue
            if year:
                yield DateMention(start, match.end(), *months_span(int(year), month, count))
            elif reference is not None:
                spans = [months_span(reference.year + offset, month, count) for offset in (-2, -1, 0, 1)]
                span = latest_begun(spans, reference) if past else nearest(spans, reference)
                yield DateMention(start, match.end(), *span)


def _part_months(groups: dict[str, str | None]) -> tuple[int, int]:
    """Returns the first month and the number of months; no months where the year has no such part."""
    if season := groups.get("season"):
        return SEASONS[season.lower()], 3
    if quarter := groups.get("quarter"):
        return 3 * int(quarter) - 2, 3
    if half := groups.get("half"):
        return 6 * int(half) - 5, 6
    number = _ORDINALS[(groups.get("order") or "").lower()]
    if (groups.get("unit") or "").lower() == "quarter":
        return 3 * number - 2, 3
    return (6 * number - 5, 6) if number <= 2 else (1, 0)


# Dates that a text states relative to a reference day: `yesterday`, `two weeks ago`, `last March`, `mid May`, `3 May`.
#
# No model reads them: what is not one of the forms below is not a date. In a memory the reference day is the one on
# which it was stated, in a question the day of the question.

_MIN_YEAR, _MAX_YEAR = 1002, 9996  # of a reference day: 999 years before it and two after it must have days too

_COUNTS = {
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "few": 3,
    "couple of": 2,
    "several": 3,
}
_NUMBER = rf"(?P<n>\d{{1,3}}|{'|'.join(_COUNTS)})"
_UNITS = r"(?P<unit>day|week|month|quarter|year)"
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "quarter": 91, "year": 365}
_DAY_OFFSETS = {
    "today": 0,
    "tonight": 0,
    "this morning": 0,
    "this afternoon": 0,
    "this evening": 0,
    "yesterday": -1,
    "last night": -1,
    "the day before yesterday": -2,
    "tomorrow": 1,
    "the day after tomorrow": 2,
}
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
"""The weekdays, Monday first."""

_PAST_TENSE = re.compile(r"\b(?:did|was|were|had|have|has)\b", re.I)

_DAY = re.compile(rf"\b(?P<name>{'|'.join(sorted(_DAY_OFFSETS, key=len, reverse=True))})\b", re.I)
_AGO = re.compile(rf"\b(?:(?:a|about)\s+)?{_NUMBER}\s+{_UNITS}s?\s+ago\b", re.I)
_TRAILING = re.compile(
    rf"\b(?:(?:the|these)\s+(?:last|past)\s+(?:{_NUMBER}\s+)?|(?:last|past)\s+(?P<m>\d{{1,3}}|{'|'.join(_COUNTS)})\s+)"
    rf"{_UNITS}s?\b",
    re.I,
)
_CALENDAR = re.compile(rf"\b(?P<which>last|past|previous|this|current|next)\s+{_UNITS}\b", re.I)
_WEEKDAY = re.compile(rf"\b(?P<which>last|this past|past|this|on)\s+(?P<day>{'|'.join(WEEKDAYS)})\b", re.I)
# A month without a year counts only with a capital and after a word or number of a date: may and march are words.
_RELATIVE_MONTH = re.compile(
    r"(?:\b(?P<which>[Ll]ast|[Tt]his|[Ii]n|[Ss]ince|[Uu]ntil|[Bb]efore|[Aa]fter|[Bb]y|[Dd]uring|[Oo]f|[Ff]rom|[Tt]o|[Aa]nd"
    r"|[Bb]etween|[Ee]arly|[Mm]id|[Ll]ate)\s+|(?P<before>\d{1,2})(?:st|nd|rd|th)?\s+(?:of\s+)?)"
    rf"(?P<month>{'|'.join(m.capitalize() for m in MONTHS)})(?P<rest>[a-z]*)\b\.?"
    r"(?:\s+(?P<after>\d{1,2})(?:st|nd|rd|th)?\b)?(?!\s*+(?:,\s*+)?(?:of\s++)?\d{4})"
)
_MONTH_DAY = re.compile(
    rf"\b(?P<month>{'|'.join(m.capitalize() for m in MONTHS)})(?P<rest>[a-z]*)\.?\s+"
    r"(?P<after>\d{1,2})(?:st|nd|rd|th)?\b(?!\s*+(?:,\s*+)?(?:of\s++)?\d{4})"
)
_SEASON = re.compile(
    rf"\b(?:(?P<which>last|this|in the|in)\s+)?(?P<season>{'|'.join(SEASONS)})"
    r"(?:\s+(?:of\s+)?(?P<year>1\d{3}|20\d\d))?\b",
    re.I,
)


def is_reference_day(day: dt.date) -> bool:
    """Returns whether dates can be relative to a day: 9999-12-31, which means never, has no tomorrow."""
    return _MIN_YEAR <= day.year <= _MAX_YEAR


def is_units_ago(phrase: str) -> bool:
    """Returns whether a phrase is of the form `two weeks ago`, which means about that day."""
    return _AGO.fullmatch(phrase) is not None


def find_relative_dates(text: str, reference: dt.date, in_question: bool = False) -> list[DateMention]:
    """Returns the relative dates of a text, in order of place; of several forms that match a place, the first.

    In a question quarters, halves and seasons without a year are found too, and a date after `before` or `after` is
    itself excluded.
    """
    found = find_parts_of_year(text, reference, bool(_PAST_TENSE.search(text))) if in_question else []
    lower = text.lower()
    for find, needed in _FORMS:
        if not any(map((text if find in (_months, _month_days) else lower).__contains__, needed)):
            continue
        found = sorted([*found, *without_overlaps(find(text, reference), found)], key=lambda d: d.start)
    return join_ranges(text, found, exclude_bound=in_question)


def _named_days(text: str, ref: dt.date) -> Iterator[DateMention]:
    for m in _DAY.finditer(text):
        if m.start() and text[m.start()].isupper():
            continue  # the name of a song
        day = ref + dt.timedelta(days=_DAY_OFFSETS[m["name"].lower()])
        yield DateMention(*m.span(), day, day)


def _units_ago(text: str, ref: dt.date) -> Iterator[DateMention]:
    for m in _AGO.finditer(text):
        unit = m["unit"].lower()
        middle, half = days_before(ref, read_number(m["n"]), unit), dt.timedelta(days=_UNIT_DAYS[unit] // 2)
        yield DateMention(*m.span(), middle - half, middle + half)


def _trailing_units(text: str, ref: dt.date) -> Iterator[DateMention]:
    for m in _TRAILING.finditer(text):
        count = read_number(m["n"] or m["m"] or "1")
        yield DateMention(*m.span(), days_before(ref, count, m["unit"].lower()), ref)


def _calendar_units(text: str, ref: dt.date) -> Iterator[DateMention]:
    for m in _CALENDAR.finditer(text):
        offset = {"this": 0, "current": 0, "next": 1}.get(m["which"].lower(), -1)
        yield DateMention(*m.span(), *unit_span(ref, m["unit"].lower(), offset))


def _weekdays(text: str, ref: dt.date) -> Iterator[DateMention]:
    past = bool(_PAST_TENSE.search(text))
    for m in _WEEKDAY.finditer(text):
        which, weekday = m["which"].lower(), WEEKDAYS.index(m["day"].lower())
        back = (ref.weekday() - weekday) % 7
        if which == "on" and not past:
            continue  # what happens on Fridays has no date
        if which == "this":
            day = ref - dt.timedelta(days=ref.weekday() - weekday)
        else:
            day = ref - dt.timedelta(days=back or (0 if which == "on" else 7))
        yield DateMention(*m.span(), day, day)


def _months(text: str, ref: dt.date, pattern: re.Pattern[str] = _RELATIVE_MONTH) -> Iterator[DateMention]:
    past = bool(_PAST_TENSE.search(text))
    for m in pattern.finditer(text):
        name = (m["month"] + m["rest"]).lower()
        month = MONTHS.index(m["month"].lower()) + 1
        if not (MONTH_NAMES[month - 1] == name or name in (m["month"].lower(), "sept")):
            continue
        groups = m.groupdict()
        which = (groups.get("which") or "").lower()
        day_number = groups.get("before") or groups["after"]
        start = m.start("month") if which not in ("last", "this") and not groups.get("before") else m.start()
        yield DateMention(start, m.end(), *_resolve_year(ref, month, day_number, which, past))


def _month_days(text: str, ref: dt.date) -> Iterator[DateMention]:
    return _months(text, ref, _MONTH_DAY)


def _resolve_year(ref: dt.date, month: int, day_number: str | None, which: str, past: bool) -> DaySpan:
    """Returns the latest such month or day that has begun, in the past tense or after `last`; else the nearest."""
    spans = [month_or_day(ref.year + offset, month, day_number) for offset in (-2, -1, 0, 1)]
    if which == "last":
        return [s for s in spans if s[1] < ref and (s[0].year, month) != (ref.year, ref.month)][-1]
    return latest_begun(spans, ref) if past or which in ("since", "of") else nearest(spans, ref)


def _seasons(text: str, ref: dt.date) -> Iterator[DateMention]:
    for m in _SEASON.finditer(text):
        which, name = (m["which"] or "").lower(), m["season"].lower()
        if m["year"]:
            yield DateMention(*m.span(), *season_span(int(m["year"]), name))
        elif which == "last":
            past = [s for y in (-2, -1, 0) if (s := season_span(ref.year + y, name))[1] < ref]
            yield DateMention(*m.span(), *past[-1])
        elif which == "this":
            spans = [season_span(ref.year + y, name) for y in (-1, 0)]
            yield DateMention(*m.span(), *next((s for s in spans if s[0] <= ref <= s[1]), spans[1]))


def read_number(word: str) -> int:
    """Returns the number that a word or digits state."""
    return _COUNTS.get(word.lower()) or int(word)


_CAPITALIZED_MONTHS = tuple(m.capitalize() for m in MONTHS)
# Each form with the words of which a text must contain one: most texts contain none, and the check is cheap.
_FORMS: tuple[tuple[Callable[[str, dt.date], Iterator[DateMention]], tuple[str, ...]], ...] = (
    (_named_days, ("today", "yesterday", "tomorrow", "night", "morning", "noon", "evening")),
    (_units_ago, ("ago",)),
    (_trailing_units, ("last", "past")),
    (_calendar_units, ("last", "past", "this", "next", "previous", "current")),
    (_weekdays, WEEKDAYS),
    (_seasons, tuple(SEASONS)),
    (_months, _CAPITALIZED_MONTHS),
    (_month_days, _CAPITALIZED_MONTHS),
)


# Periods that memories state, and how well they fit the one that a question asks about.
#
# A passage that says `from 2003 to 2006` answers for 2004, though no word of the question is in it.

_MAX_CHARS = 20_000  # of a memory that are searched for relative dates
_BEGINNING_WEIGHT = 0.7  # of whether a period begins with the one in question; the rest is whether both overlap


def stated_periods(text: str, stated_on: dt.date | None) -> list[Period]:
    """Returns the periods that a text states; `yesterday` and `9 June` in it count from the day it was stated."""
    dated = find_date_mentions(text)
    found = [d.period for d in dated]
    if stated_on is None or not is_reference_day(stated_on):
        return found
    return found + [d.period for d in without_overlaps(find_relative_dates(text[:_MAX_CHARS], stated_on), dated)]


@dataclass(frozen=True)
class MemoryPeriods:
    """The periods of a scope's memories: local row, start and end of each, in years; a memory may have several."""

    rows: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.rows.nbytes + self.starts.nbytes + self.ends.nbytes

    def fit_scores(self, period: Period, size: int) -> np.ndarray:
        """Returns how well each of `size` memories fits a period, 0 to 1, by the period of it that fits best.

        Of it .3 is that both overlap, and .7 that they begin together: what lasted from 2003 to 2006 is stated by the
        text that says what began in 2003. That part falls by e for each length of `period` (a year where it is open)
        between the beginnings, or between the ends where `period` has no beginning.
        """
        low, high = period
        length = high - low if math.isfinite(high - low) else 1.0
        wanted, stated = (low, self.starts) if math.isfinite(low) else (high, self.ends)
        fit = stated - wanted
        np.abs(fit, out=fit)
        fit /= -max(length, 1e-3)
        np.exp(fit, out=fit)
        fit *= _BEGINNING_WEIGHT
        fit[(self.starts < high) & (self.ends > low)] += 1 - _BEGINNING_WEIGHT
        out = np.zeros(size)
        np.maximum.at(out, self.rows, fit)
        return out
