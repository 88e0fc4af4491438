"""Parts of a year that a question names: quarters, halves, seasons: `Q2 2026`, `first quarter`, `H1`, `in summer`."""

import datetime as dt
import re
from collections.abc import Iterator

from palimpsest.text.calendar_spans import SEASONS, latest_begun, months_span, nearest
from palimpsest.text.date_mentions import DateMention

_YEAR = r"(?P<year>1\d{3}|20\d\d)"
_OF_YEAR = rf"(?:\s*+(?:,\s*+)?(?:of\s++|in\s++)?{_YEAR}\b)"
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}
_ORDINAL_WORDS = "|".join(_ORDINALS)
_OF_YEAR_2 = _OF_YEAR.replace("<year>", "<year2>")
_BEFORE_SEASON = r"\b(?:in|during|since|until|before|after|by)\s+(?:the\s+)?"
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\bQ(?P<quarter>[1-4])(?:[-/]?{_YEAR}\b|{_OF_YEAR_2}|\b)",
        rf"\b{_YEAR}[-/ ]?Q(?P<quarter>[1-4])\b",
        rf"\b(?P<order>{_ORDINAL_WORDS})\s+(?P<unit>quarter|half)(?:{_OF_YEAR}|\s+of\s+the\s+year\b|\b(?!\s+of\b))",
        rf"\bH(?P<half>[12])(?:[-/]?{_YEAR}\b|{_OF_YEAR_2})",
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
