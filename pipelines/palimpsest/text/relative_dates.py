"""Dates that a text states relative to a reference day: `yesterday`, `two weeks ago`, `last March`, `mid May`, `3 May`.

No model reads them: what is not one of the forms below is not a date. In a memory the reference day is the one on which
it was stated, in a question the day of the question.
"""

import datetime as dt
import re
from collections.abc import Callable, Iterator

from palimpsest.text.calendar_spans import (
    MONTH_NAMES,
    MONTHS,
    SEASONS,
    DaySpan,
    days_before,
    latest_begun,
    month_or_day,
    nearest,
    season_span,
    unit_span,
)
from palimpsest.text.date_mentions import DateMention, join_ranges, without_overlaps
from palimpsest.text.parts_of_year import find_parts_of_year

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
_MONTH = re.compile(
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


def _months(text: str, ref: dt.date, pattern: re.Pattern[str] = _MONTH) -> Iterator[DateMention]:
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
