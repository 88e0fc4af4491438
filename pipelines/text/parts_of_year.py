"""Quarters, halves and seasons that a question names: `Q2 2026`, `the first quarter of 2026`, `H1`, `in summer`."""

import datetime as dt
import re
from collections.abc import Iterator

from palimpsest.text.periods import Stated, month_or_day

_YEAR = r"(?P<year>1\d{3}|20\d\d)"
_OF_YEAR = rf"(?:\s*,?\s*(?:of\s+|in\s+)?{_YEAR}\b)"
_ORDER = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""The month that each begins with, in the northern half of the world."""
_ORDINAL = "|".join(_ORDER)
_YEAR_TOO = _OF_YEAR.replace("<year>", "<year2>")
_BEFORE_SEASON = r"\b(?:in|during|since|until|before|after|by)\s+(?:the\s+)?"
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\bQ(?P<quarter>[1-4])(?:[-/]?{_YEAR}\b|{_YEAR_TOO}|\b)",
        rf"\b{_YEAR}[-/ ]?Q(?P<quarter>[1-4])\b",
        rf"\b(?P<order>{_ORDINAL})\s+(?P<unit>quarter|half)(?:{_OF_YEAR}|\s+of\s+the\s+year\b|\b(?!\s+of\b))",
        rf"\bH(?P<half>[12])(?:[-/]?{_YEAR}\b|{_YEAR_TOO})",
        rf"\b(?P<season>{'|'.join(_SEASONS)}){_OF_YEAR}",
        rf"{_BEFORE_SEASON}(?P<season>spring|summer|autumn|winter)\b",  # a fall without a year may be any
    )
)
_NEED = re.compile(r"\bQ[1-4]|\d[-/ ]?Q[1-4]|quarter|half|\bH[12]|" + "|".join(_SEASONS), re.I)


def parts_of_year(text: str, reference: dt.date | None = None, past: bool = False) -> list[Stated]:
    """Returns the parts of years that a question names, in order of place, none over another.

    Args:
        text: the question.
        reference: the day that parts without their year are told from; they are left out without it.
        past: whether such a part has begun: the latest that has; else the nearest.
    """
    if not _NEED.search(text):
        return []
    out: list[Stated] = []
    for found in sorted(_found(text, reference, past), key=lambda s: (s.start, -s.end)):
        if not out or found.start >= out[-1].end:
            out.append(found)
    return out


def _found(text: str, reference: dt.date | None, past: bool) -> Iterator[Stated]:
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            told = match.groupdict()
            month, size = _months(told)
            year = told.get("year") or told.get("year2")
            start = match.start("season") if told.get("season") else match.start()
            if size == 0 or (not year and reference is None):
                continue
            if year:
                yield Stated(start, match.end(), *_span(int(year), month, size))
            elif reference is not None:
                yield Stated(start, match.end(), *_nearest(reference, month, size, past))


def _months(told: dict[str, str | None]) -> tuple[int, int]:
    """Returns the first month and the number of months; no months where there is no such part."""
    if season := told.get("season"):
        return _SEASONS[season.lower()], 3
    if quarter := told.get("quarter"):
        return 3 * int(quarter) - 2, 3
    if half := told.get("half"):
        return 6 * int(half) - 5, 6
    number = _ORDER[(told.get("order") or "").lower()]
    if (told.get("unit") or "").lower() == "quarter":
        return 3 * number - 2, 3
    return (6 * number - 5, 6) if number <= 2 else (1, 0)


def _span(year: int, month: int, size: int) -> tuple[dt.date, dt.date]:
    last = year * 12 + month - 1 + size - 1
    return dt.date(year, month, 1), month_or_day(last // 12, last % 12 + 1, None)[1]


def _nearest(reference: dt.date, month: int, size: int, past: bool) -> tuple[dt.date, dt.date]:
    each = [_span(reference.year + more, month, size) for more in (-2, -1, 0, 1)]
    if past:
        return [e for e in each if e[0] <= reference][-1]
    return min(each, key=lambda e: max(e[0] - reference, reference - e[1], dt.timedelta()))
