"""Quantities, days and times in a text, in units that compare: `90 seconds` equals `one and a half minutes`."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

from palimpsest.text.date_mentions import MONTH_NAMES
from palimpsest.text.words import fold

Quantity: TypeAlias = tuple[str, float]
"""Kind, such as duration, and amount in the kind's base unit."""

_UNITS_OF_KIND = """
duration: 1 s sec secs second seconds; 60 min mins minute minutes; 3600 h hr hrs hour hours
duration: 86400 day days night nights
duration: 604800 week weeks; 1209600 fortnight fortnights; 2629800 month months; 31557600 year years
length: .001 mm millimetre millimetres millimeter millimeters; .01 cm centimetre centimetres; 1 m metre metres meter
length: 1 meters; 1000 km kilometre kilometres kilometer kilometers; .0254 in inch inches; .3048 ft foot feet
length: 1609.344 mile miles
weight: 1 g gram grams; 1000 kg kilo kilos kilogram kilograms; 1000000 t tonne tonnes ton tons; 453.592 lb lbs
volume: 1 l litre litres liter liters; .001 ml millilitre millilitres; .1 dl decilitre; .568 pint pints
data: 1 byte bytes; 1000 kb; 1000000 mb; 1000000000 gb; 1000000000000 tb
power: 1 w watt watts; 1000 kw kilowatt kilowatts; 1000000 mw megawatt megawatts
money: 1 euro euros eur dollar dollars usd pound pounds gbp franc francs chf crown crowns; .01 cent cents
temperature: 1 degrees degree ° celsius
share: 1 percent % per-cent
"""
_UNITS = {
    unit: (kind, float(part.split()[0]))
    for line in _UNITS_OF_KIND.strip().splitlines()
    for kind, parts in [line.split(": ")]
    for part in parts.split("; ")
    for unit in part.split()[1:]
}
_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    " seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORDS = {word: float(n) for n, word in enumerate(_ONES.split())}
_WORDS |= {word: 10.0 * n for n, word in enumerate(_TENS.split(), 2)}
_WORDS["dozen"] = 12.0
_SCALES = {"dozen": 12.0, "hundred": 100.0, "thousand": 1000.0, "million": 1e6, "k": 1e3}
_NAMED_TIMES = {"noon": 720.0, "midnight": 0.0}
_HALVES = {"half": 0.5, "quarter": 0.25}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_TOKEN = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+|[%€$£°]")
_CLOCK = re.compile(r"(\d{1,2})[:.](\d\d)")
_NOT_COUNTED = frozenset(
    {
        "and",
        "or",
        "to",
        "of",
        "in",
        "on",
        "at",
        "the",
        "a",
        "an",
        "is",
        "are",
        "was",
        "were",
        "per",
        "for",
        "from",
        "by",
        "with",
        "until",
        "till",
        "more",
        "less",
    }
)


def _month_numbers() -> dict[str, float]:
    """Returns the numbers of months, from 0, by their names and by three or four characters of them, a dot included."""
    numbers: dict[str, float] = {}
    for n, name in enumerate(MONTH_NAMES):
        for form in (name, name[:3], name[:4], f"{name[:2]}.", f"{name[:3]}."):
            numbers.setdefault(form, float(n))
    return numbers


_WEEKDAY_NUMBERS = {form: float(n) for n, day in enumerate(_WEEKDAYS) for form in (day, f"{day}s")}
_MONTH_NUMBERS = _month_numbers()


@lru_cache(maxsize=65_536)
def quantities(text: str) -> frozenset[Quantity]:
    """Returns the quantities of a text.

    Kinds: duration in seconds, length in metres, weight in grams, volume in litres, money, temperature, share, data,
    power, clock in minutes, weekday, date (month and day), month, year, and `count NOUN` for other numbers.
    """
    tokens = _TOKEN.findall(fold(text).replace("-", " "))
    return frozenset(_read(tokens))


def _read(tokens: list[str]) -> Iterator[Quantity]:
    i = 0
    while i < len(tokens):
        token = tokens[i]
        if (day := _WEEKDAY_NUMBERS.get(token)) is not None:
            yield "weekday", day
        elif (month := _MONTH_NUMBERS.get(token)) is not None:
            yield from _date(tokens, i, month)
        elif (found := _number(tokens, i)) is not None:
            amount, end = found
            yield from _quantity(tokens, i, end, amount)
            i = end
            continue
        elif token in _NAMED_TIMES:
            yield "clock", _NAMED_TIMES[token]
        i += 1


def _quantity(tokens: list[str], start: int, end: int, amount: float) -> Iterator[Quantity]:
    before = tokens[start - 1] if start else ""
    after = tokens[end] if end < len(tokens) else ""
    if end == start + 1 and (minutes := _clock(tokens[start], before, after)) is not None:
        yield "clock", minutes
        return
    if before in ("€", "$", "£"):
        yield "money", amount
    elif after in _UNITS:
        kind, factor = _UNITS[after]
        yield kind, round(amount * factor, 4)
    elif amount <= 31 and (after in _MONTH_NUMBERS or before in _MONTH_NUMBERS):
        return  # the day of a date
    elif 1900 <= amount <= 2100 and len(tokens[start]) == 4:
        yield "year", amount
    else:
        noun = next((t for t in tokens[end : end + 2] if t.isalpha() and t not in _NOT_COUNTED), "")
        yield f"count {noun.removesuffix('s')}".strip(), amount


def _number(tokens: list[str], i: int) -> tuple[float, int] | None:
    """Returns the number that begins at token i, and where it ends."""
    total, j = _simple_number(tokens[i]), i + 1
    if total is None:
        return None
    if tokens[i] in _WORDS and total >= 20 and j < len(tokens) and _WORDS.get(tokens[j], 10) < 10:
        total, j = total + _WORDS[tokens[j]], j + 1
    if j < len(tokens) and tokens[j] in _SCALES:
        total, j = total * _SCALES[tokens[j]], j + 1
    if tokens[j : j + 3][:2] == ["and", "a"] and j + 2 < len(tokens) and tokens[j + 2] in _HALVES:
        total, j = total + _HALVES[tokens[j + 2]], j + 3
    return total, j


def _clock(token: str, before: str, after: str) -> float | None:
    """Returns the minutes of the day that a token means, None where it is no time."""
    stated = _CLOCK.fullmatch(token)
    if not (stated or token.isdigit()):
        return None
    hour, minute = (int(stated[1]), int(stated[2])) if stated else (int(token), 0)
    if hour > 24 or minute > 59:
        return None
    if after in ("am", "pm"):
        return hour % 12 * 60.0 + minute + 720.0 * (after == "pm")
    is_time = ":" in token or before == "at"
    return hour * 60.0 + minute if is_time and after not in _UNITS else None


def _simple_number(token: str) -> float | None:
    if token in _WORDS:
        return _WORDS[token]
    if not token[0].isdigit():
        return None
    plain = re.sub(r"[,.](?=\d{3}(?:\D|$))", "", token) if re.fullmatch(r"\d{1,3}(?:[,.]\d{3})+", token) else token
    plain = plain.replace(",", ".").split(":")[0]
    return float(plain) if plain.count(".") <= 1 else float(plain.split(".")[0])


def _date(tokens: list[str], i: int, month: float) -> Iterator[Quantity]:
    around = [t for t in (tokens[i - 1] if i else "", tokens[i + 1] if i + 1 < len(tokens) else "") if t.isdigit()]
    days = [int(t) for t in around if 1 <= int(t) <= 31]
    if days:
        yield "date", month * 31 + days[0]
    elif tokens[i] not in ("may", "march", "mar") or any(len(t) == 4 for t in around):
        yield "month", month


def compare_quantities(older: str, newer: str) -> dict[str, float]:
    """Returns how the quantities of two texts compare.

    `quantity_same` of the newer text are in the older one; `quantity_replaced` kinds are in both texts with no value in
    common; `quantity_gone` and `quantity_new` kinds are in one text only.
    """
    a, b = _by_kind(quantities(older)), _by_kind(quantities(newer))
    both = a.keys() & b.keys()
    same = [k for k in both if any(_close(x, y) for x in a[k] for y in b[k])]
    counts_a, counts_b = ({x for k, v in side.items() if k.startswith("count") for x in v} for side in (a, b))
    return {
        "quantity_same": float(len(same)),
        "quantity_replaced": float(len(both) - len(same)),
        "quantity_gone": float(len(a.keys() - b.keys())),
        "quantity_new": float(len(b.keys() - a.keys())),
        "count_same": float(len(counts_a & counts_b)),
        "count_differs": float(bool(counts_a and counts_b) and not counts_a & counts_b),
    }


def _by_kind(found: frozenset[Quantity]) -> dict[str, set[float]]:
    kinds: dict[str, set[float]] = {}
    for kind, amount in found:
        kinds.setdefault(kind, set()).add(amount)
    return kinds


def _close(x: float, y: float) -> bool:
    return abs(x - y) <= 0.02 * max(abs(x), abs(y))
