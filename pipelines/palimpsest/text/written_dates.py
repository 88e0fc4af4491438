"""Full dates in file names, titles and lines of text: a day with month and year, written in a form people use."""

import re
from collections.abc import Iterator
from datetime import date

from palimpsest.text.dates import DateOrder

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
