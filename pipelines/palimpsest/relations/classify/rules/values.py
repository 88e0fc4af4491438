"""Values in texts: numbers with a unit, dates, times, names; and whether one value replaces or refines another."""

import re
from dataclasses import dataclass

from palimpsest.text.date_mentions import MONTH_NAMES
from palimpsest.text.words import STOPWORDS, fold

_NUMBER_WORDS = {
    w: str(n)
    for n, w in enumerate(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    )
}
_MONTH = {m[:3]: m for m in MONTH_NAMES}
_MONTH_WORD = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)[a-z]*"
_DAY = re.compile(
    rf"\b(?:\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH_WORD}|{_MONTH_WORD}\s+\d{{1,2}}(?:st|nd|rd|th)?\b|"
    rf"\d{{4}}-\d\d-\d\d)"
)
_WEEKDAY = re.compile(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b")
_IN_MONTH = re.compile(rf"^(?:in |early |late |mid-?|end of )?{_MONTH_WORD}(?:\s+\d{{4}})?$")
_COARSE = re.compile(
    r"\b(?:q[1-4]|(?:first|second|third|fourth) quarter|spring|summer|autumn|fall|winter|next (?:week|month|year))\b"
)
_CLOCK = re.compile(r"\b(\d{1,2})(?::(\d\d))?\s*(am|pm|a\.m|p\.m)\b|\b(\d{1,2}):(\d\d)\b|\b(noon|midnight)\b")
_NUMBER = re.compile(r"[-+]?\d[\d,.]*\d|\d")
APPROXIMATE = re.compile(
    r"\b(?:about|around|roughly|approximately|approx|circa|under|over|below|above|at least|at most|up to|"
    r"more than|less than|"
    r"several|few|some|between|nearly|almost|dozens?|hundreds|soon|tbd|tba|unknown|undecided)\b|~",
    re.IGNORECASE,
)
_COUNTRY_WORDS = """
africa america argentina asia australia austria belgium brazil britain bulgaria canada chile china colombia croatia
cuba denmark egypt england estonia europe finland france germany greece hungary iceland india indonesia iran iraq
ireland israel italy japan kenya latvia lithuania malaysia mexico morocco netherlands nigeria norway pakistan peru
philippines poland portugal romania russia scotland serbia singapore slovakia slovenia spain sweden switzerland taiwan
thailand tunisia turkey uk ukraine usa vietnam wales california texas florida ohio bavaria
"""
_COUNTRIES = frozenset(_COUNTRY_WORDS.split())


@dataclass(frozen=True)
class Value:
    """A value: its text as written, its kind (number, day, weekday, month, coarse, clock, name, phrase) and words."""

    text: str
    kind: str
    words: tuple[str, ...]
    key: str
    unit: str = ""
    approximate: bool = False


def read_value(text: str, approximate: bool = False) -> Value:
    """Returns the value that `text` states; equal values have equal `key`s (`nine` and `9`, `3 pm` and `15:00`)."""
    folded = fold(text).removeprefix("the ").removeprefix("a ").removeprefix("an ").strip(" .,!'\"")
    folded = re.sub(r"(?<=\d),(?=\d{3}\b)", "", folded)
    words = tuple(_NUMBER_WORDS.get(w, w) for w in re.findall(r"[^\W_](?:[\w\-.:/]*[^\W_])?%?", folded))
    plain = " ".join(words)
    kind, key, unit = "phrase", plain, ""
    if m := _CLOCK.search(plain):
        kind, key = "clock", _clock(m) + " " + " ".join(w for w in words if _WEEKDAY.fullmatch(w))
    elif _DAY.search(plain):
        kind, key = "day", _day_key(plain)
    elif _COARSE.search(plain):
        kind = "coarse"
    elif _WEEKDAY.search(plain):
        kind = "weekday"
    elif _IN_MONTH.search(plain):
        kind = "month"
    elif m := _NUMBER.search(plain):
        number = m.group().replace(",", "")
        unit = " ".join(
            _unit(w)
            for w in re.findall(r"[^\W\d_]+|%|[€$£]", fold(text))
            if w not in STOPWORDS and w not in _NUMBER_WORDS
        )
        kind, key = "number", f"{number.rstrip('.')} {unit}"
    elif text and _named(text):
        kind = "name"
    return Value(text, kind, words, key.strip(), unit, approximate)


def _unit(word: str) -> str:
    short = {
        "%": "percent",
        "€": "euro",
        "$": "dollar",
        "£": "pound",
        "mins": "minute",
        "min": "minute",
        "hrs": "hour",
        "hr": "hour",
        "secs": "second",
        "sec": "second",
    }
    return short.get(word, word.removesuffix("s") if len(word) > 3 else word)


def _clock(m: re.Match[str]) -> str:
    if m.group(6):
        return "12:00" if m.group(6) == "noon" else "00:00"
    if m.group(4):
        return f"{int(m.group(4)):02d}:{m.group(5)}"
    hour = int(m.group(1)) % 12 + (12 if m.group(3).startswith("p") else 0)
    return f"{hour:02d}:{m.group(2) or '00'}"


def _day_key(plain: str) -> str:
    if m := re.search(r"\b(\d{4})-(\d\d)-(\d\d)\b", plain):
        month = MONTH_NAMES[int(m.group(2)) - 1] if 1 <= int(m.group(2)) <= 12 else m.group(2)
        return f"{int(m.group(3))} {month} {m.group(1)}"
    month = next((_MONTH[w[:3]] for w in plain.split() if re.fullmatch(_MONTH_WORD, w) and w[:3] in _MONTH), "")
    numbers = re.findall(r"\d+", plain)
    year = next((n for n in numbers if len(n) == 4), "")
    day = next((str(int(n)) for n in numbers if len(n) < 3), "")
    return f"{day} {month} {year}".strip()


def _named(text: str) -> bool:
    """Says whether the text is a name: it has a capital, and every other word has one or links."""
    words = re.findall(r"[^\W_][\w\-.']*", text)
    big = [w for w in words if w[0].isupper() or w.isupper()]
    small = [
        w
        for w in words
        if not (w[0].isupper() or fold(w) in ("of", "the", "and", "de", "von", "van", "for", "la", "at", "in", "on"))
    ]
    return bool(big) and len(small) == 0


def same_value(a: Value, b: Value) -> bool:
    """Says whether two values are one, as far as they are stated."""
    if a.key == b.key:
        return True
    if a.kind == b.kind == "day":  # a day without a year is that day of any year
        return a.key.split()[:2] == b.key.split()[:2] and (len(a.key.split()) < 3 or len(b.key.split()) < 3)
    return False


def replaces(new: Value, old: Value, cue: bool) -> bool:
    """Says whether `new` can only hold in place of `old`: another value of the same kind, neither one made more exact.

    With `cue`, the text itself announces a change, and kinds may differ.
    """
    if not new.words or not old.words or same_value(new, old) or (new.kind == "phrase" and new.approximate):
        return False
    a, b = set(new.words), set(old.words)
    if a <= b or b <= a:
        return False
    if cue:
        return len(new.words) <= 8 and len(old.words) <= 8
    if new.approximate or old.approximate or new.kind != old.kind:
        return False
    if new.kind == "number":
        return new.unit == old.unit
    if new.kind == "name":
        return ((new.key in _COUNTRIES) == (old.key in _COUNTRIES)) and len(new.words) <= 6 and len(old.words) <= 6
    return new.kind in ("day", "weekday", "month", "clock", "coarse")


def refines(new: Value, old: Value) -> bool:
    """Says whether `new` is `old` made more exact: all its words and more, or definite where that was vague."""
    if not new.words or not old.words or same_value(new, old):
        return False
    return (
        set(old.words) < set(new.words) or (old.approximate and not new.approximate) or old.kind in ("coarse", "phrase")
    )
