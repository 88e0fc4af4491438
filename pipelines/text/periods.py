"""Periods that a text states: years, months, days and ranges of them; and how well they fit the one asked about.

`from Oct 1721 to Mar 1918` is all of that; `in 1992` the whole year; `since 2001` has no end, `until 2004` no
beginning. A passage that says `from 2003 to 2006` answers for 2004, though no word of the question is in it.
"""

import datetime as dt
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

Period = tuple[float, float]
"""Beginning and end in years: 2020.5 is about the first of July; infinite where one is open."""

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"(?P<month>{'|'.join(MONTHS)})[a-z]*\.?"
_POINT = re.compile(
    rf"(?<![\w.,/-])(?:(?:(?P<before>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?{_MONTH}"
    r"(?:\s+(?P<after>\d{1,2})(?:st|nd|rd|th)?)?\s*,?\s+(?:of\s+)?)?"
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
_BEFORE = 16  # characters before a date that may say what it bounds
_BEGUN = 0.7  # of how well a period fits is whether it begins with what is asked; the rest is whether both overlap


class Stated(NamedTuple):
    """A period and where it is stated: days included, None where it has no beginning or no end."""

    start: int
    end: int
    first: dt.date | None
    last: dt.date | None
    is_range: bool = False

    @property
    def period(self) -> Period:
        """The same in years."""
        return span(self.first, self.last)


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
        """Returns how well each of `size` memories fits a period, 0 to 1, by the period of it that fits best.

        Of it .3 is that both overlap, and .7 that they begin together: what held from 2003 to 2006 is told by the text
        that says what began in 2003. That part falls by e for each length of `asked` (a year where it is open) that
        lies between the beginnings, or the ends where `asked` has no beginning.
        """
        low, high = asked
        length = high - low if math.isfinite(high - low) else 1.0
        near, mine = (low, self.starts) if math.isfinite(low) else (high, self.ends)
        together = np.exp(-np.abs(mine - near) / max(length, 1e-3))
        both = (self.starts < high) & (self.ends > low)
        out = np.zeros(size)
        np.maximum.at(out, self.rows, (1 - _BEGUN) * both + _BEGUN * together)
        return out


def periods(text: str) -> list[Period]:
    """Returns the periods that a text states, in order of place."""
    return [found.period for found in stated(text)]


def moment(when: dt.datetime) -> float:
    """Returns a moment in years."""
    seconds = (when - when.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()
    start, end = day(when)
    return start + seconds / 86_400 * (end - start)


def day(when: dt.datetime) -> Period:
    """Returns the day of a moment as a period."""
    return span(when.date(), when.date())


def span(first: dt.date | None, last: dt.date | None) -> Period:
    """Returns days, both included, as a period."""
    start = -math.inf if first is None else _years(first, 0)
    return start, math.inf if last is None else _years(last, 1)


def _years(date: dt.date, more: int) -> float:
    number = date.timetuple().tm_yday - 1 + more
    leap = date.year % 4 == 0 and (date.year % 100 != 0 or date.year % 400 == 0)
    return date.year + number / (366 if leap else 365)


def stated(text: str, also: Sequence[Stated] = (), strict: bool = False) -> list[Stated]:
    """Returns every statement of a period with its year, in order of place.

    Args:
        text: the text.
        also: points that are known to be there; they win over what lies under them.
        strict: whether a point after `before` or `after` is itself left out.
    """
    if not also and not _YEAR.search(text):
        return []
    points = (_point(m) for m in _POINT.finditer(text))
    free = (p for p in points if all(p.end <= a.start or p.start >= a.end for a in also))
    return joined(text, sorted([*free, *also]) if also else free, strict)


def joined(text: str, points: Iterable[Stated], strict: bool = False) -> list[Stated]:
    """Makes ranges of points that `to`, a dash or `between ... and` join, and opens those after since or until.

    Args:
        text: where they are stated.
        points: in order of place, none over another.
        strict: whether a point after `before` or `after` is itself left out.
    """
    out: list[Stated] = []
    held = list(points)
    i = 0
    while i < len(held):
        point = held[i]
        before = text[max(0, point.start - _BEFORE) : point.start]
        following = held[i + 1] if i + 1 < len(held) else None
        if following and not point.is_range and _joins(before, text[point.end : following.start], point, following):
            out.append(Stated(point.start, following.end, point.first, following.last, True))
            i += 2
            continue
        out.append(point if point.is_range else bounded(point, before, strict))
        i += 1
    return out


def bounded(point: Stated, before: str, strict: bool = False) -> Stated:
    """Returns a point without its end or its beginning where what stands before it says since or until.

    Args:
        point: what is bounded.
        before: the words before it.
        strict: whether it is itself left out after `before` or `after`.
    """
    if strict and point.first and point.last:
        if _AFTER.search(before):
            return point._replace(first=point.last + dt.timedelta(days=1), last=None)
        if _EARLIER.search(before):
            return point._replace(first=None, last=point.first - dt.timedelta(days=1))
    if _SINCE.search(before):
        return point._replace(last=None)
    return point._replace(first=None) if _UNTIL.search(before) else point


def _joins(before: str, gap: str, point: Stated, following: Stated) -> bool:
    if not (_TO.match(gap) or (_AND.match(gap) and _BETWEEN.search(before))):
        return False
    return point.first is not None and following.first is not None and point.first <= following.first


def _point(m: re.Match[str]) -> Stated:
    year = int(m["year"])
    last, is_range = year, False
    if m["decade"]:
        last, is_range = year + 9, True
    elif m["iso"] or m["month"]:
        month = int(m["iso"]) if m["iso"] else MONTHS.index(m["month"][:3].lower()) + 1
        return Stated(m.start(), m.end(), *month_or_day(year, month, m["day"] or m["before"] or m["after"]))
    elif m["short"]:
        number = int(m["short"][1:])
        end = year + 1 if (year % 100, number) == (99, 0) else year // 100 * 100 + number
        if end > year:
            last, is_range = end, True
        elif 1 <= number <= 12:  # 2023-04: no range ends before it begins, so that is April
            return Stated(m.start(), m.end(), *month_or_day(year, number, None))
    return Stated(m.start(), m.end(), dt.date(year, 1, 1), dt.date(last, 12, 31), is_range)


def month_or_day(year: int, month: int, number: str | None) -> tuple[dt.date, dt.date]:
    """Returns the first and last day of a month, or the one day of it that a number names."""
    if number:
        try:
            one = dt.date(year, month, int(number))
        except ValueError:
            pass  # 31 June: the month is all that is known
        else:
            return one, one
    following = dt.date(year + month // 12, month % 12 + 1, 1)
    return dt.date(year, month, 1), following - dt.timedelta(days=1)
