"""Dates that a text states with their year: years, months, days, decades and ranges of them.

`from Oct 1721 to Mar 1918` is all of that; `in 1992` the whole year; `since 2001` has no end, `until 2004` no
beginning.
"""

import datetime as dt
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from palimpsest.text.calendar_spans import MONTHS, month_or_day
from palimpsest.text.periods import Period, to_period

_MONTH = rf"(?P<month>{'|'.join(MONTHS)})[a-z]*\.?"
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
