"""Amounts that follow from two others: sums, differences, products and quotients of quantities that texts state."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from palimpsest.text.quantities import quantities

_KINDS = frozenset({"number", "money", "duration", "length", "weight", "volume", "data", "power", "date"})
_ORDINALS = frozenset({"count st", "count nd", "count rd", "count th"})
_DURATIONS = (31_557_600, 2_629_800, 604_800, 86_400, 3_600, 60)  # seconds of a year, month, week, day, hour, minute
_MONTH = 2_629_800
_DATE_MONTH = 31  # `quantities` gives a date as month * 31 + day
_MIN_FLOORED = 100
_IDENTIFIER = re.compile(r"\b[^\W\d]+-?\d[\w-]*")


class Amount(NamedTuple):
    """A quantity to compute with; a count of any noun is a `number`."""

    kind: str
    value: float

    @property
    def digits(self) -> int:
        """The significant digits, of a duration in its largest whole unit: 24,000 has 2, `ten days` and a date 1."""
        if self.kind == "date":
            return 1
        value = self.value
        if self.kind == "duration":
            value /= next((unit for unit in _DURATIONS if value % unit == 0), 1)
        return len(f"{value:.10g}".replace(".", "").strip("0"))


class Computed(NamedTuple):
    """How an amount follows from two others."""

    result: Amount
    left: Amount
    right: Amount
    operation: str

    def __str__(self) -> str:
        """Returns the computation, in the base units of its kinds."""
        return f"{self.left.value:g} {self.operation} {self.right.value:g} = {self.result.value:g}"


def amounts(text: str) -> frozenset[Amount]:
    """Returns the amounts that a text states, ordinal numbers and the digits of identifiers left out."""
    found = (
        Amount("number" if kind.startswith("count") else kind, value)
        for kind, value in quantities(_IDENTIFIER.sub(" ", text))
        if kind not in _ORDINALS
    )
    return frozenset(a for a in found if a.kind in _KINDS)


def computations(results: Iterable[Amount], left: Iterable[Amount], right: Iterable[Amount]) -> list[Computed]:
    """Returns how the results follow from an amount of either side, sorted; trivial operands 0 and 1 are left out."""
    found = set()
    right, results = ([x for x in side if _is_operand(x)] for side in (right, results))
    for a in left:
        for b in right if _is_operand(a) else ():
            for result in results:
                if a != b and result not in (a, b) and (operation := _operation(result, a, b)):
                    found.add(Computed(result, *((a, b) if a.value >= b.value else (b, a)), operation))
    return sorted(found)


def _is_operand(amount: Amount) -> bool:
    return amount.value > 0 and amount.value != 1


def _operation(result: Amount, a: Amount, b: Amount) -> str | None:
    if "date" in (result.kind, a.kind, b.kind):
        return _date_operation(result, a, b)
    kinds = {a.kind, b.kind} - {"number"}
    if len(kinds) > 1 or result.kind not in kinds | {"number"}:
        return None
    high, low = max(a.value, b.value), min(a.value, b.value)
    if _is_equal(result.value, high + low):
        return "+"
    if _is_equal(result.value, high - low):
        return "-"
    if "number" not in (a.kind, b.kind):
        return None
    if _is_equal(result.value, high * low):
        return "*"
    is_floored = result.value >= _MIN_FLOORED and int(high / low) == result.value
    return "/" if is_floored or _is_equal(result.value, high / low) else None


def _date_operation(result: Amount, a: Amount, b: Amount) -> str | None:
    """Returns `+` where a date is a number of whole months after another, over the end of the year too."""
    date, months = (a, b) if a.kind == "date" else (b, a)
    if (result.kind, date.kind, months.kind) != ("date", "date", "duration") or months.value % _MONTH:
        return None
    month = (date.value // _DATE_MONTH + months.value // _MONTH) % 12
    return "+" if month * _DATE_MONTH + date.value % _DATE_MONTH == result.value else None


def _is_equal(x: float, y: float) -> bool:
    return abs(x - y) <= 1e-6 * max(abs(x), abs(y))
