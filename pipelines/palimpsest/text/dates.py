"""Dates as people write them, read without guessing: a value that could mean two days is no date."""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from functools import lru_cache
from typing import Literal

from dateutil import parser
from dateutil.relativedelta import relativedelta

from palimpsest.core.times import with_offset

_YEAR = re.compile(r"\d{4}")
_YEAR_MONTH = re.compile(r"(\d{4})[-/](\d{1,2})")
_PDF = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?\s*(?:(Z)|([+-])(\d\d)'?(\d\d)?)?.*", re.ASCII)
DateOrder = Literal["day_first", "month_first"]
"""How a collection writes dates of three numbers, where a value alone is ambiguous."""

NO_DATE_WORDS = frozenset({"", "none", "null", "never", "open", "tbd", "tba", "unknown", "n/a", "na", "-", "?"})
"""Words that people write where there is no date."""

DATE_ORDER_HINT = "write YYYY-MM-DD, or set dates: day_first or dates: month_first in collection.yaml"
"""How to fix a date that may be two days, for error messages."""

_NUMERIC = re.compile(r"(?<!\d)(\d{1,2})([/.-])(\d{1,2})[/.-]\d{4}(?!\d)")
_WEEKDAY = re.compile(r"\((?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\)", re.IGNORECASE)
_BEFORE_CHRIST = re.compile(r"-\d")  # dateutil drops the sign
_HAS_YEAR = re.compile(r"(?<!\d)\d{4}(?!\d)")
# Two defaults that differ in every field: what the text does not state differs in the results.
_DEFAULTS = (datetime(2000, 1, 1), datetime(2003, 12, 28))


def parse_stated_time(value: object, order: DateOrder | None = None) -> datetime | None:
    """Returns the time that `value` states, with its own offset, or null when it states none for certain.

    Takes datetimes, dates, years, epoch seconds or milliseconds, ISO 8601, PDF dates and everyday English
    ("1:56 pm on 8 May, 2023", "13-Jun-2000", "May 2023"). No zone means UTC; a missing month or day is the first.
    A string needs a four-digit year. Numbers with dots are day first ("04.05.2026" is 4 May); with slashes or dashes,
    day and month in an unclear order ("03/04/2023") give null unless `order` says which comes first.
    """
    if isinstance(value, str):
        return _from_text(value.strip(), order)
    try:
        if isinstance(value, datetime):
            return with_offset(value)
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _from_number(value)
    except (ValueError, OverflowError):
        pass
    return None


def _from_number(value: int | float) -> datetime | None:
    if isinstance(value, int) and 1000 <= value <= 2999:
        return datetime(value, 1, 1, tzinfo=UTC)
    if 1e8 <= value < 1e11:
        return datetime.fromtimestamp(value, UTC)
    if 1e11 <= value < 1e14:
        return datetime.fromtimestamp(value / 1000, UTC)
    return None


@lru_cache(maxsize=65_536)
def _from_text(text: str, order: DateOrder | None) -> datetime | None:
    if not 4 <= len(text) <= 64 or _BEFORE_CHRIST.match(text):
        return None
    try:
        return with_offset(datetime.fromisoformat(text)) if len(text) > 7 else _year_or_month(text)
    except (ValueError, OverflowError):
        pass
    try:
        if m := _PDF.fullmatch(text):
            return _from_pdf(m)
        return _from_english(text, order)
    # dateutil lets several kinds through on odd input (its tracker has IndexError, TypeError, decimal errors).
    except (ValueError, OverflowError, TypeError, ArithmeticError, LookupError, AttributeError):
        return None


def _year_or_month(text: str) -> datetime | None:
    if _YEAR.fullmatch(text):
        return datetime(int(text), 1, 1, tzinfo=UTC)
    if m := _YEAR_MONTH.fullmatch(text):
        return datetime(int(m[1]), int(m[2]), 1, tzinfo=UTC)
    raise ValueError(text)


def _from_pdf(m: re.Match[str]) -> datetime:
    year, month, day, hour, minute, second = (int(g) if g else None for g in m.groups()[:6])
    zone = UTC
    if m[8]:
        offset = timedelta(hours=int(m[9]), minutes=int(m[10] or 0))
        zone = timezone(-offset if m[8] == "-" else offset)
    return with_offset(datetime(year or 0, month or 1, day or 1, hour or 0, minute or 0, second or 0, tzinfo=zone))


def is_ambiguous(value: object) -> bool:
    """Returns whether a text writes a date as three numbers of which either the first or the second may be the day."""
    return isinstance(value, str) and (found := _NUMERIC.search(value)) is not None and _unclear(found)


def _unclear(numeric: re.Match[str]) -> bool:
    return numeric[1] != numeric[3] and max(int(numeric[1]), int(numeric[3])) <= 12


def _from_english(text: str, order: DateOrder | None) -> datetime | None:
    if not _HAS_YEAR.search(text):
        return None
    numeric = _NUMERIC.search(text)
    day_first = False
    if numeric and _unclear(numeric):
        order = order or ("day_first" if numeric[2] == "." else None)
        if order is None:
            return None
        day_first = order == "day_first"
    text = _WEEKDAY.sub(" ", text)
    zones = {"UTC": 0, "GMT": 0, "Z": 0}
    one, two = (parser.parse(text, default=d, dayfirst=day_first, ignoretz=False, tzinfos=zones) for d in _DEFAULTS)
    if (one.year, one.month) != (two.year, two.month):
        return None
    return with_offset(one if one.day == two.day else one.replace(day=1))


def parse_stated_end(value: object, order: DateOrder | None = None) -> datetime | None:
    """Returns the first instant after a stated end, UTC: a day, month or year without a time is included whole."""
    stated = parse_stated_time(value, order)
    if stated is None:
        return None
    start = stated.astimezone(UTC)
    written = str(value).strip()
    if re.fullmatch(r"\d{4}", written):
        return start + relativedelta(years=1)
    if re.fullmatch(r"\d{4}[-/]\d{1,2}|[^\W\d]+\.?,?\s+\d{4}", written):
        return start + relativedelta(months=1)
    day_alone = start.time() == time.min and not re.search(r"\d:\d|\dT\d|^\d{9,}$|[ap]m\b", written, re.I)
    return start + relativedelta(days=1) if day_alone else start


# Full dates in file names, titles and lines of text: a day with month and year, written in a form people use.

_FIRST_YEAR, _LAST_YEAR = 1900, 2099
# English, German, French, Spanish, Italian, Dutch and Portuguese; in the order of the year.
_MONTHS = (
    "jan january januar janvier enero gennaio januari janeiro",
    "feb february februar février fevrier febrero febbraio februari fevereiro",
    "mar march märz maerz mars marzo maart março",
    "apr april avril abril aprile",
    "may mai mayo maggio mei maio",
    "jun june juni juin junio giugno junho",
    "jul july juli juillet julio luglio julho",
    "aug august août aout agosto augustus",
    "sep sept september septembre septiembre settembre setembro",
    "oct october oktober octobre octubre ottobre outubro",
    "nov november novembre noviembre novembro",
    "dec december dezember décembre diciembre dicembre dezembro",
)
_NUMBER = {name: n for n, names in enumerate(_MONTHS, 1) for name in names.split()}
_MONTH = rf"(?P<month>{'|'.join(sorted(_NUMBER, key=len, reverse=True))})"
_START, _END = r"(?<![0-9A-Za-z])", r"(?![0-9])"
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_START}(?P<year>\d{{4}})(?P<sep>[-_./])(?P<m>\d{{1,2}})(?P=sep)(?P<day>\d{{1,2}}){_END}",
        rf"{_START}(?P<year>(?:19|20)\d\d)(?P<m>\d\d)(?P<day>\d\d)(?=[Tt]\d|[^0-9A-Za-z]|$)",
        rf"{_START}(?<![0-9][-_./])(?P<a>\d{{1,2}})(?P<sep>[-_./])(?P<b>\d{{1,2}})(?P=sep)(?P<year>\d{{4}}){_END}",
        rf"{_START}(?P<day>\d{{1,2}})(?:st|nd|rd|th|er)?[-_ .]*(?:of |de )?{_MONTH}"
        rf"[-_ .,]*(?:de )?(?P<year>\d{{4}}){_END}",
        rf"{_START}{_MONTH}[-_ .]*(?P<day>\d{{1,2}})(?:st|nd|rd|th)?[-_ ,]+(?P<year>\d{{4}}){_END}",
    )
)
# A date after such a word bounds something; it is not the day of the text.
_BOUND = re.compile(r"\b(?:until|till|through|by|before|due|deadline|expires?|ends?|bis|vor)\W{1,3}(?:on\W)?$", re.I)
_CONTEXT_CHARS = 20  # before a date that may contain such a word


def written_dates(text: str, order: DateOrder | None = None) -> tuple[set[date], set[str]]:
    """Returns the days that a short text states, and the words of it that may mean two days.

    A date after `until`, `due` or the like is excluded: it is not the day of the text. Years are 1900 to 2099.

    Args:
        text: a file name, a title or a line.
        order: what comes first in dates of three numbers; dots mean day first without it.
    """
    days: set[date] = set()
    unclear: set[str] = set()
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            if _BOUND.search(text[max(0, match.start() - _CONTEXT_CHARS) : match.start()]):
                continue
            readings = set(_readings(match, order))
            days |= readings if len(readings) == 1 else set()
            unclear |= {match[0]} if len(readings) > 1 else set()
    return days, unclear


_SHORT_YEAR = re.compile(r"(?<![\d/.-])(\d{1,2})([/.-])(\d{1,2})\2(\d\d)(?!\d|\2)")
_RANGE = re.compile(r"(?<=\d)[-\u2013](?=\d{1,2}[/.])")
_BETWEEN_DAYS = re.compile(
    r"(?:[^\w\d]|\b(?:date|to|and|from|(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?)\b)*",
    re.IGNORECASE,
)


def day_of_dateline(line: str, order: DateOrder | None = None) -> date | None:
    """Returns the last day of a line of nothing but days, `07/20/2021 - 08/03/21`; null for any other line.

    Where one of them tells whether days or months come first, the others follow it.
    """
    line = _SHORT_YEAR.sub(r"\1\2\3\g<2>20\4", _RANGE.sub(" - ", line.strip(" *_#\t")))
    rest = line
    for pattern in _PATTERNS:
        rest = pattern.sub("", rest)
    if rest == line or not _BETWEEN_DAYS.fullmatch(rest):
        return None
    numbers = _NUMERIC.findall(line)
    if any(int(b) > 12 for _, _, b in numbers):
        order = "month_first"
    elif any(int(a) > 12 for a, _, _ in numbers):
        order = "day_first"
    days, unclear = written_dates(line, order)
    return max(days) if days and not unclear else None


def _readings(match: re.Match[str], order: DateOrder | None) -> Iterator[date]:
    """Yields the days that one match may mean."""
    parts = match.groupdict()
    year = int(parts["year"])
    if not _FIRST_YEAR <= year <= _LAST_YEAR:
        return
    if parts.get("a"):
        a, b = int(parts["a"]), int(parts["b"])
        order = order or ("day_first" if parts["sep"] == "." else None)
        both = [(b, a), (a, b)]  # (month, day)
        pairs = both if order is None else both[:1] if order == "day_first" else both[1:]
        if order is not None and pairs[0][0] > 12:
            pairs = both
    else:
        month = parts.get("m")
        pairs = [(int(month) if month else _NUMBER[parts["month"].lower()], int(parts["day"]))]
    for month_number, day in pairs:
        try:
            yield date(year, month_number, day)
        except ValueError:
            continue
