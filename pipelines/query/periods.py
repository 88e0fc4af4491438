"""Periods that a text states: years, months, days and ranges of them, as intervals of years.

`from Oct 1721 to Mar 1918` is [1721.75, 1918.25); `in 1992` the whole year; `since 2001` has no end, `until 2004` no
beginning. What a question asks for by time is found by whether its period and a memory's overlap: a passage that says
`from 2003 to 2006` answers for 2004, though no word of the question is in it.
"""

import datetime as dt
import math
import re
from dataclasses import dataclass

import numpy as np

Period = tuple[float, float]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?"
_POINT = re.compile(
    rf"(?<![\w.,/-])(?:(?:\d{{1,2}}(?:st|nd|rd|th)?\s+)?(?:of\s+)?{_MONTH}(?:\s+\d{{1,2}}(?:st|nd|rd|th)?)?\s*,?\s+(?:of\s+)?)?"
    r"(?P<year>1\d{3}|20\d\d)(?:(?P<decade>s)\b|-(?P<iso>0[1-9]|1[0-2])-\d\d\b|(?P<short>[-\u2013\u2014/]\d\d)(?![\d-])|(?![\d\w]))",
    re.I,
)
_YEAR = re.compile(r"1\d{3}|20\d\d")
_TO = re.compile(r"\s*(?:to|until|till|through|[-\u2013\u2014])\s*(?:the\s+)?$", re.I)
_AND = re.compile(r"\s*and\s*$", re.I)
_BETWEEN = re.compile(r"\bbetween\s+(?:the\s+)?$", re.I)
_SINCE = re.compile(r"\b(?:since|from|after)\s+(?:the\s+)?$", re.I)
_UNTIL = re.compile(r"\b(?:until|till|before|up to|to|by)\s+(?:the\s+)?$", re.I)
_BEFORE = 16  # characters before a date that may say what it bounds

_COUNT = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "several": 3, "few": 3}
_UNIT = {"day": 1.0, "week": 7.0, "month": 30.4, "year": 365.25}
_AGO = re.compile(rf"\b(?P<n>\d{{1,3}}|{'|'.join(_COUNT)})\s+(?:few\s+)?(?P<unit>day|week|month|year)s?\s+ago\b", re.I)
_CALENDAR = re.compile(r"\b(?P<which>last|this|past|previous|current)\s+(?P<unit>day|week|month|year)\b", re.I)
_DAY = re.compile(r"\b(?P<day>today|yesterday|the day before yesterday|tonight)\b", re.I)
_DAYS_AGO = {"today": 0, "tonight": 0, "yesterday": 1, "the day before yesterday": 2}


@dataclass(frozen=True)
class Periods:
    """The periods of a scope's memories: local row, start and end of each, in years; a memory may have several."""

    rows: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.rows.nbytes + self.starts.nbytes + self.ends.nbytes

    def overlapping(self, asked: Period, size: int) -> np.ndarray:
        """Returns 1.0 for each of `size` memories that has a period in common with `asked`, else 0.0."""
        out = np.zeros(size)
        out[self.rows[(self.starts < asked[1]) & (self.ends > asked[0])]] = 1.0
        return out


def periods(text: str) -> list[Period]:
    """Returns the periods that a text states, in order of place."""
    return [period for _, period in _found(text)] if _YEAR.search(text) else []


def asked_period(question: str, now: dt.datetime | None = None) -> Period | None:
    """Returns the period that a question asks about: its first range, else its first date; None where it has none.

    Args:
        question: the question.
        now: when it is asked; `last year` and `two weeks ago` are told from it, and say nothing without it.
    """
    found = _found(question)
    ranges = [period for is_range, period in found if is_range]
    if ranges or found:
        return ranges[0] if ranges else found[0][1]
    return _relative(question, now) if now is not None else None


def moment(when: dt.datetime) -> float:
    """Returns a moment in years: the start of 1 July 2020 is about 2020.5."""
    return _day(when.year, when.timetuple().tm_yday - 1)


def day(when: dt.datetime) -> Period:
    """Returns the day of a moment as a period."""
    number = when.timetuple().tm_yday
    return _day(when.year, number - 1), _day(when.year, number)


def _day(year: int, days: float) -> float:
    return year + days / 366


def _found(text: str) -> list[tuple[bool, Period]]:
    """Returns (is a range, period) of each statement."""
    out: list[tuple[bool, Period]] = []
    points = [(m.start(), m.end(), *_point(m)) for m in _POINT.finditer(text)]
    i = 0
    while i < len(points):
        start, end, is_range, (low, high) = points[i]
        before = text[max(0, start - _BEFORE) : start]
        if i + 1 < len(points) and not is_range:
            gap, (later, latest) = text[end : points[i + 1][0]], points[i + 1][3]
            joined = _TO.match(gap) or (_AND.match(gap) and _BETWEEN.search(before))
            if joined and low <= later:
                out.append((True, (low, latest)))
                i += 2
                continue
        if not is_range and _SINCE.search(before):
            out.append((False, (low, math.inf)))
        elif not is_range and _UNTIL.search(before):
            out.append((False, (-math.inf, high)))
        else:
            out.append((is_range, (low, high)))
        i += 1
    return out


def _point(m: re.Match[str]) -> tuple[bool, Period]:
    year = int(m["year"])
    if m["decade"]:
        return True, (year, year + 10)
    if m["iso"] or m["month"]:
        month = int(m["iso"]) - 1 if m["iso"] else _MONTHS.index(m["month"][:3].lower())
        return False, (year + month / 12, year + (month + 1) / 12)
    if m["short"] and (last := year // 100 * 100 + int(m["short"][1:])) > year:
        return True, (year, last + 1)
    return False, (year, year + 1)


def _relative(question: str, now: dt.datetime) -> Period | None:
    if m := _DAY.search(question):
        return day(now - dt.timedelta(days=_DAYS_AGO[m["day"].lower()]))
    if m := _AGO.search(question):
        count = _COUNT.get(m["n"].lower()) or int(m["n"])
        unit = m["unit"].lower()
        middle = moment(now) - count * _UNIT[unit] / 366
        return middle - 0.5 * _UNIT[unit] / 366, middle + 0.5 * _UNIT[unit] / 366
    if m := _CALENDAR.search(question):
        return _calendar(m["unit"].lower(), now, m["which"].lower() in ("this", "current"))
    return None


def _calendar(unit: str, now: dt.datetime, current: bool) -> Period:
    """The calendar's day, week, month or year that `now` lies in, or the one before."""
    back = 0 if current else 1
    if unit == "year":
        return now.year - back, now.year - back + 1
    if unit == "month":
        number = now.year * 12 + now.month - 1 - back
        return number / 12, (number + 1) / 12
    if unit == "week":
        monday = now - dt.timedelta(days=now.weekday() + 7 * back)
        return day(monday)[0], day(monday + dt.timedelta(days=6))[1]
    return day(now - dt.timedelta(days=back))
