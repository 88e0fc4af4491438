"""What a question says of time: the period it asks about, and the moment whose knowledge it asks for.

`In 2004`, `last week` and `since March` are periods: of what the texts speak, or when they were said. `As of 3 March`
and `what did we believe in May` ask for what was known then: they choose among versions. No model reads them: what is
not one of the forms below says nothing. Relative dates are told from the day of the question, and say nothing where
that is not known; dates without a year may be told from any day near it.
"""

import datetime as dt
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from palimpsest.text.parts_of_year import parts_of_year
from palimpsest.text.periods import MONTHS, Period, Stated, joined, month_or_day, stated

_READ = 1000  # characters of a question that are read for it
_LONGEST = 20_000  # characters of a memory that are read for it
_SOME_DAY = dt.date(2000, 7, 1)
_EARLIEST, _LATEST = 1002, 9996  # years of a reference day: 999 before it and two after it must have days too

_COUNT = {
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
_N = rf"(?P<n>\d{{1,3}}|{'|'.join(_COUNT)})"
_UNITS = r"(?P<unit>day|week|month|quarter|year)"
_DAYS = {"day": 1, "week": 7, "month": 30, "quarter": 91, "year": 365}
_NAMED = {
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
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""The month that each begins with, in the northern half of the world."""
_PAST = re.compile(r"\b(?:did|was|were|had|have|has)\b", re.I)

_DAY = re.compile(rf"\b(?P<name>{'|'.join(sorted(_NAMED, key=len, reverse=True))})\b", re.I)
_AGO = re.compile(rf"\b(?:(?:a|about)\s+)?{_N}\s+{_UNITS}s?\s+ago\b", re.I)
_TRAILING = re.compile(
    rf"\b(?:(?:the|these)\s+(?:last|past)\s+(?:{_N}\s+)?|(?:last|past)\s+(?P<m>\d{{1,3}}|{'|'.join(_COUNT)})\s+)"
    rf"{_UNITS}s?\b",
    re.I,
)
_CALENDAR = re.compile(rf"\b(?P<which>last|past|previous|this|current|next)\s+{_UNITS}\b", re.I)
_WEEKDAY = re.compile(rf"\b(?P<which>last|this past|past|this|on)\s+(?P<day>{'|'.join(_WEEKDAYS)})\b", re.I)
# A month without a year is one only with a capital, after a word or a number that dates have: may and march are words.
_MONTH = re.compile(
    r"(?:\b(?P<which>[Ll]ast|[Tt]his|[Ii]n|[Ss]ince|[Uu]ntil|[Bb]efore|[Aa]fter|[Bb]y|[Dd]uring|[Oo]f|[Ff]rom|[Tt]o|[Aa]nd"
    r"|[Bb]etween|[Ee]arly|[Mm]id|[Ll]ate)\s+|(?P<before>\d{1,2})(?:st|nd|rd|th)?\s+(?:of\s+)?)"
    rf"(?P<month>{'|'.join(m.capitalize() for m in MONTHS)})(?P<rest>[a-z]*)\b\.?"
    r"(?:\s+(?P<after>\d{1,2})(?:st|nd|rd|th)?\b)?(?!\s*,?\s*(?:of\s+)?\d{4})"
)
_MONTH_DAY = re.compile(
    rf"\b(?P<month>{'|'.join(m.capitalize() for m in MONTHS)})(?P<rest>[a-z]*)\.?\s+"
    r"(?P<after>\d{1,2})(?:st|nd|rd|th)?\b(?!\s*,?\s*(?:of\s+)?\d{4})"
)
_YEARLESS = re.compile(rf"\d|{'|'.join(m.capitalize() for m in MONTHS)}")
_FULL = (
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
_SEASON = re.compile(
    rf"\b(?:(?P<which>last|this|in the|in)\s+)?(?P<season>{'|'.join(_SEASONS)})"
    r"(?:\s+(?:of\s+)?(?P<year>1\d{3}|20\d\d))?\b",
    re.I,
)

_KNEW = r"(?:believed|thought|knew|assumed|understood|supposed)"
_KNOW = r"(?:believe|think|know|assume|understand|suppose)"
_BELIEF = re.compile(
    rf"\b(?:what|who|whom|which|where)\b[^.?!]{{0,60}}?\b(?:(?:did|had)\s+(?:we|i)\s+(?:\w+\s+)?(?:{_KNOW}|{_KNEW}|known)"
    rf"|(?:we|i)\s+{_KNEW}|was\s+(?:believed|thought|known|assumed))\b",
    re.I,
)
_AS_OF = re.compile(r"\bas\s+(?:of|at)\s+(?:the\s+)?(?:(?:end|beginning|start)\s+of\s+(?:the\s+)?)?$", re.I)
_BEGINNING = re.compile(r"\b(?:beginning|start)\s+of\s+(?:the\s+)?$", re.I)
_ABOUT = re.compile(r"\babout\s+(?:the\s+)?$", re.I)
_NEAR = 40  # characters before a date that may say so
_CLAUSE = re.compile(r"\b(?:that|if|whether|because|when|after|before|since)\b", re.I)


@dataclass(frozen=True)
class AskedTime:
    """What a question says of time.

    Attributes:
        period: what it asks about, in years.
        phrase: the words that say so, where they were told from the reference day; else empty.
        first: first day of such a period, None where it has no beginning.
        last: its last day, None where it has no end.
        as_of: last day of what it asks the knowledge of.
        as_of_phrase: the words that say so.
        same: whether these are the words that say the period.
        untold: words that say nothing, for the day of the question is not known.
    """

    period: Period | None = None
    phrase: str = ""
    first: dt.date | None = None
    last: dt.date | None = None
    as_of: dt.date | None = None
    as_of_phrase: str = ""
    same: bool = False
    untold: str = ""


def asked_time(question: str, reference: dt.date | None = None, exact: bool = True) -> AskedTime:
    """Returns what a question says of time: its last range, else its last date; and what it asks the knowledge of.

    Args:
        question: the question.
        reference: the day that `last year`, `two weeks ago` and `3 March` are told from; they say nothing without it.
        exact: whether that is the day of the question; else only dates without a year are told from it.
    """
    text = question[:_READ]
    fixed = stated(text, parts_of_year(text), strict=True)
    known_day = reference is not None and _tells(reference)
    told_from = reference if reference is not None and known_day else _SOME_DAY
    every = _without(_relative(text, told_from, asked=True), fixed)
    found = every if known_day and exact else [f for f in every if known_day and _YEARLESS.match(_phrase(text, f))]
    untold = next((_phrase(text, f) for f in every if f not in found), "")
    known = _known_at(text, fixed, found)
    told = AskedTime(untold=untold)
    if fixed:
        at = ([f for f in fixed if f.is_range] or fixed)[-1]
        told = replace(told, period=at.period)
    elif found:
        at = found[-1]
        told = replace(told, period=at.period, phrase=_phrase(text, at), first=at.first, last=at.last)
    if known is None or known.last is None:
        return told
    phrase = _phrase(text, known)
    as_of = known.last
    if known.first is not None and _BEGINNING.search(text[max(0, known.start - _NEAR) : known.start]):
        as_of = known.first
    elif known.first is not None and _AGO.fullmatch(phrase):
        # About that day is what it means, and that day is asked for.
        as_of = known.first + (known.last - known.first) // 2
    return replace(told, as_of=as_of, as_of_phrase=phrase, same=known.start == at.start)


def asked_period(question: str, reference: dt.date | None = None) -> Period | None:
    """Returns the period that a question asks about; None where it has none. Arguments as for `asked_time`."""
    return asked_time(question, reference).period


def said_periods(text: str, said: dt.date | None) -> list[Period]:
    """Returns the periods that a text states; `yesterday` and `9 June` in it are told from the day it was said."""
    fixed = stated(text)
    told = [f.period for f in fixed]
    if said is None or not _tells(said):
        return told
    return told + [f.period for f in _without(_relative(text[:_LONGEST], said), fixed)]


def needs_reference(question: str) -> bool:
    """Tells whether a question says something of time that only a reference day tells."""
    text = question[:_READ]
    return bool(_without(_relative(text, _SOME_DAY, asked=True), stated(text, parts_of_year(text))))


def _tells(day: dt.date) -> bool:
    """Tells whether days can be counted from one: 9999-12-31, which stands for never, has no tomorrow."""
    return _EARLIEST <= day.year <= _LATEST


def _phrase(text: str, at: Stated) -> str:
    return text[at.start : at.end].strip()


def _known_at(text: str, fixed: list[Stated], found: list[Stated]) -> Stated | None:
    """Returns the date whose knowledge is asked for: one after `as of`, or of what we believed then."""
    dates = sorted([*fixed, *found], key=lambda d: d.start)
    for date in dates:
        if _AS_OF.search(text[: date.start]):
            return date
    belief = _BELIEF.search(text)
    if belief is None:
        return None
    before = [d for d in dates if d.end <= belief.start()]
    after = [
        d
        for d in dates
        if d.start >= belief.end()
        and not _CLAUSE.search(text[belief.end() : d.start])
        and not _ABOUT.search(text[max(0, d.start - _NEAR) : d.start])
    ]
    return next(iter([*after, *before]), None)


def _without(found: Iterable[Stated], fixed: list[Stated]) -> list[Stated]:
    """Leaves out what lies over one of `fixed`, which are in order of place, none over another."""
    starts = [x.start for x in fixed]
    return [f for f in found if not (n := bisect_left(starts, f.end)) or fixed[n - 1].end <= f.start]


def _relative(text: str, reference: dt.date, asked: bool = False) -> list[Stated]:
    """Returns what is told from the reference day, in order of place, the first form that fits where several do.

    In a question (`asked`) quarters, halves and seasons without a year are read too, and what stands after `before` or
    `after` is left out.
    """
    taken = parts_of_year(text, reference, bool(_PAST.search(text))) if asked else []
    small = text.lower()
    for form, needs in _FORMS:
        if not any(need in (text if form in (_months, _month_days) else small) for need in needs):
            continue
        taken = sorted([*taken, *_without(form(text, reference), taken)], key=lambda t: t.start)
    return joined(text, taken, strict=asked)


def _days(text: str, ref: dt.date) -> Iterator[Stated]:
    for m in _DAY.finditer(text):
        if m.start() and text[m.start()].isupper():
            continue  # the name of a song
        one = ref + dt.timedelta(days=_NAMED[m["name"].lower()])
        yield Stated(*m.span(), one, one)


def _ago(text: str, ref: dt.date) -> Iterator[Stated]:
    for m in _AGO.finditer(text):
        unit = m["unit"].lower()
        middle, half = _back(ref, _number(m["n"]), unit), dt.timedelta(days=_DAYS[unit] // 2)
        yield Stated(*m.span(), middle - half, middle + half)


def _trailing(text: str, ref: dt.date) -> Iterator[Stated]:
    for m in _TRAILING.finditer(text):
        yield Stated(*m.span(), _back(ref, _number(m["n"] or m["m"] or "1"), m["unit"].lower()), ref)


def _calendar(text: str, ref: dt.date) -> Iterator[Stated]:
    for m in _CALENDAR.finditer(text):
        which = {"this": 0, "current": 0, "next": 1}.get(m["which"].lower(), -1)
        yield Stated(*m.span(), *_unit(ref, m["unit"].lower(), which))


def _weekdays(text: str, ref: dt.date) -> Iterator[Stated]:
    past = bool(_PAST.search(text))
    for m in _WEEKDAY.finditer(text):
        which, wanted = m["which"].lower(), _WEEKDAYS.index(m["day"].lower())
        back = (ref.weekday() - wanted) % 7
        if which == "on" and not past:
            continue  # what happens on Fridays has no date
        if which == "this":
            one = ref - dt.timedelta(days=ref.weekday() - wanted)
        else:
            one = ref - dt.timedelta(days=back or (0 if which == "on" else 7))
        yield Stated(*m.span(), one, one)


def _months(text: str, ref: dt.date, pattern: re.Pattern[str] = _MONTH) -> Iterator[Stated]:
    past = bool(_PAST.search(text))
    for m in pattern.finditer(text):
        name = (m["month"] + m["rest"]).lower()
        month = MONTHS.index(m["month"].lower()) + 1
        if not (_FULL[month - 1] == name or name in (m["month"].lower(), "sept")):
            continue
        told = m.groupdict()
        which = (told.get("which") or "").lower()
        number = told.get("before") or told["after"]
        start = m.start("month") if which not in ("last", "this") and not told.get("before") else m.start()
        yield Stated(start, m.end(), *_nearest(ref, month, number, which, past))


def _month_days(text: str, ref: dt.date) -> Iterator[Stated]:
    return _months(text, ref, _MONTH_DAY)


def _nearest(ref: dt.date, month: int, number: str | None, which: str, past: bool) -> tuple[dt.date, dt.date]:
    """Returns the latest that has begun, in the past tense or after `last`; else the nearest."""
    each = [month_or_day(ref.year + more, month, number) for more in (-2, -1, 0, 1)]
    if which == "last":
        return [e for e in each if e[1] < ref and (e[0].year, month) != (ref.year, ref.month)][-1]
    if past or which in ("since", "of"):
        return [e for e in each if e[0] <= ref][-1]
    return min(each, key=lambda e: max(e[0] - ref, ref - e[1], dt.timedelta()))


def _seasons(text: str, ref: dt.date) -> Iterator[Stated]:
    for m in _SEASON.finditer(text):
        which, name = (m["which"] or "").lower(), m["season"].lower()
        if m["year"]:
            yield Stated(*m.span(), *_season(int(m["year"]), name))
        elif which == "last":
            yield Stated(*m.span(), *[s for y in (-2, -1, 0) if (s := _season(ref.year + y, name))[1] < ref][-1])
        elif which == "this":
            each = [_season(ref.year + y, name) for y in (-1, 0)]
            yield Stated(*m.span(), *next((s for s in each if s[0] <= ref <= s[1]), each[1]))


def _season(year: int, name: str) -> tuple[dt.date, dt.date]:
    first = dt.date(year, _SEASONS[name], 1)
    last = month_or_day(year + (first.month + 2) // 13, (first.month + 1) % 12 + 1, None)[1]
    return first, last


def _unit(ref: dt.date, unit: str, more: int) -> tuple[dt.date, dt.date]:
    """The calendar's day, week, month, quarter or year that `ref` lies in, or the one so many after."""
    if unit == "day":
        return (one := ref + dt.timedelta(days=more)), one
    if unit == "week":
        monday = ref + dt.timedelta(days=7 * more - ref.weekday())
        return monday, monday + dt.timedelta(days=6)
    if unit == "year":
        return dt.date(ref.year + more, 1, 1), dt.date(ref.year + more, 12, 31)
    size = 3 if unit == "quarter" else 1
    number = (ref.year * 12 + ref.month - 1) // size * size + more * size
    last = number + size - 1
    return dt.date(number // 12, number % 12 + 1, 1), month_or_day(last // 12, last % 12 + 1, None)[1]


def _back(ref: dt.date, count: int, unit: str) -> dt.date:
    """The day so many units before: the same day of an earlier month, or that month's last."""
    if unit in ("day", "week"):
        return ref - dt.timedelta(days=count * _DAYS[unit])
    number = ref.year * 12 + ref.month - 1 - count * {"month": 1, "quarter": 3, "year": 12}[unit]
    last = month_or_day(number // 12, number % 12 + 1, None)[1]
    return min(last, dt.date(last.year, last.month, 1) + dt.timedelta(days=ref.day - 1))


def _number(word: str) -> int:
    return _COUNT.get(word.lower()) or int(word)


_CAPITALS = tuple(m.capitalize() for m in MONTHS)
_WHICH = ("last", "past", "this", "next", "previous", "current")
# Each form, and what a text must hold, in small letters, to have it: most have none, and a look is cheap. Months need
# their capital.
_FORMS: tuple[tuple[Callable[[str, dt.date], Iterator[Stated]], tuple[str, ...]], ...] = (
    (_days, ("today", "yesterday", "tomorrow", "night", "morning", "noon", "evening")),
    (_ago, ("ago",)),
    (_trailing, ("last", "past")),
    (_calendar, _WHICH),
    (_weekdays, _WEEKDAYS),
    (_seasons, tuple(_SEASONS)),
    (_months, _CAPITALS),
    (_month_days, _CAPITALS),
)
