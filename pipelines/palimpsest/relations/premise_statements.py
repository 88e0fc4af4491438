"""The memories of one scope as statements: their terms, which are near another, and amounts that follow from two."""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from palimpsest.text.date_mentions import MONTH_NAMES
from palimpsest.text.quantities import quantities
from palimpsest.text.words import content_words, fold, stem_words

# Amounts that follow from two others: sums, differences, products and quotients of quantities that texts state.

_KINDS = frozenset({"number", "money", "duration", "length", "weight", "volume", "data", "power", "date"})
_ORDINALS = frozenset({"count st", "count nd", "count rd", "count th"})
_DURATIONS = (31_557_600, 2_629_800, 604_800, 86_400, 3_600, 60)  # seconds of a year, month, week, day, hour, minute
_MONTH_OF_AMOUNT = 2_629_800
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
    if (result.kind, date.kind, months.kind) != ("date", "date", "duration") or months.value % _MONTH_OF_AMOUNT:
        return None
    month = (date.value // _DATE_MONTH + months.value // _MONTH_OF_AMOUNT) % 12
    return "+" if month * _DATE_MONTH + date.value % _DATE_MONTH == result.value else None


def _is_equal(x: float, y: float) -> bool:
    return abs(x - y) <= 1e-6 * max(abs(x), abs(y))


NEAR = 6
"""How many places before a conclusion, in its document, a memory may be to be near it."""
MAX_RELATED = 40
MAX_CHARS = 600
"""A longer memory states too much to be the premise of one sentence."""
MIN_WEIGHT = 0.4
"""Of a term, from 0 (in every memory of the scope) to about 1 (in one), to link two memories."""
MIN_SIZE = 100
"""A smaller scope counts as one of this size: in a few memories a term that two share is not a common one."""
_NUMBER_WORDS = frozenset(
    [
        *("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen"),
        *("fourteen", "fifteen", "sixteen", "twenty", "thirty", "forty", "fifty", "hundred", "thousand"),
        *("first", "second", "third", "half", "quarter"),
    ]
)
_MONTH = re.compile("|".join(name[:3] for name in MONTH_NAMES), re.IGNORECASE)
_SHORT_NUMBER = re.compile(r"\d{1,3}(?:st|nd|rd|th)?")


class Statement(NamedTuple):
    """A memory; `line` and `place` (document version, ordinal) say where in its document it is."""

    memory_id: str
    text: str
    at: int | None
    line: int | None
    place: tuple[int, int]
    is_live: bool


class ScopeStatements:
    """The statements of one scope, oldest first."""

    def __init__(
        self,
        statements: Sequence[Statement],
        known: Mapping[str, Collection[str]],
        replaced_by: Mapping[str, Collection[str]],
    ):
        """Makes the statements of a scope.

        Args:
            statements: oldest first.
            known: by memory id, the memories that it is known to follow from.
            replaced_by: by memory id, the memories that replaced it.
        """
        self.rows = statements
        self._known = known
        self._replaced_by = replaced_by
        self._amounts: dict[int, frozenset[Amount]] = {}
        self._folded: dict[int, str] = {}

    def near(self, i: int) -> dict[int, int]:
        """Returns the distance of statements of the document shortly before row i; 1 for a known premise."""
        row = self.rows[i]
        found = {self._row_of[m]: 1 for m in self._known.get(row.memory_id, ()) if m in self._row_of}
        for j in self._rows_of_line.get(row.line, ()):
            distance = row.place[1] - self.rows[j].place[1]
            if 1 <= distance <= NEAR and self._may_be_premise(j, i):
                found[j] = min(distance, found.get(j, distance))
        return found

    def related(self, i: int, terms: frozenset[str]) -> list[int]:
        """Returns the older statements that share the most weight of some terms with them, best first."""
        shared: dict[int, float] = {}
        for term in sorted(terms):
            weight = self._weights.get(term, 1.0)
            for j in self._postings.get(term, ()) if weight >= MIN_WEIGHT else ():
                shared[j] = shared.get(j, 0.0) + weight
        found = [(-round(w, 6), -j) for j, w in shared.items() if self._may_be_premise(j, i)]
        return [-j for _, j in sorted(found)[:MAX_RELATED]]

    def weight(self, terms: Iterable[str]) -> float:
        """Returns the sum of the weights of terms: rarer ones weigh more."""
        return math.fsum(self._weights.get(term, 1.0) for term in terms)

    def terms(self, i: int) -> frozenset[str]:
        """Returns the terms of row i."""
        return self._terms[i]

    def amounts(self, i: int) -> frozenset[Amount]:
        """Returns the amounts of row i."""
        found = self._amounts.get(i)
        if found is None:
            found = self._amounts[i] = amounts(self.rows[i].text)
        return found

    def _may_be_premise(self, j: int, i: int) -> bool:
        """Returns whether row j is a statement, older than row i, not replaced by then, and not the same."""
        text = self.rows[j].text
        if len(text) > MAX_CHARS or text.rstrip().endswith("?") or not self._is_older(j, i):
            return False
        is_replaced = any(self._row_of.get(m, i) < i for m in self._replaced_by.get(self.rows[j].memory_id, ()))
        return not is_replaced and self._folded_text(j) != self._folded_text(i)

    def _folded_text(self, i: int) -> str:
        found = self._folded.get(i)
        if found is None:
            found = self._folded[i] = fold(self.rows[i].text)
        return found

    def _is_older(self, j: int, i: int) -> bool:
        """The order of `memories.recency.is_newer`."""
        a, b = self.rows[j], self.rows[i]
        if a.at != b.at:
            return a.at is not None and b.at is not None and a.at < b.at
        return a.line is not None and a.line == b.line and a.place < b.place

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {row.memory_id: i for i, row in enumerate(self.rows)}

    @cached_property
    def _rows_of_line(self) -> dict[int | None, list[int]]:
        rows: dict[int | None, list[int]] = {}
        for i, row in enumerate(self.rows):
            rows.setdefault(row.line, []).append(i)
        return rows

    @cached_property
    def _terms(self) -> list[frozenset[str]]:
        return [statement_terms(row.text) if len(row.text) <= MAX_CHARS else frozenset() for row in self.rows]

    @cached_property
    def _weights(self) -> dict[str, float]:
        size = math.log1p(max(len(self.rows), MIN_SIZE))
        return {term: 1 - math.log1p(len(rows)) / size for term, rows in self._postings.items()}

    @cached_property
    def _postings(self) -> dict[str, list[int]]:
        postings: dict[str, list[int]] = {}
        for i, terms in enumerate(self._terms):
            for term in terms:
                postings.setdefault(term, []).append(i)
        return postings


def statement_terms(text: str) -> frozenset[str]:
    """Returns the stems of the content words of a text, and its dates; numbers alone are no terms."""
    words = (w for w in content_words(text) if w not in _NUMBER_WORDS and not _SHORT_NUMBER.fullmatch(w))
    has_date = bool(_MONTH.search(text))
    dates = (f"date:{value:g}" for kind, value in quantities(text) if kind == "date") if has_date else ()
    return stem_words(frozenset(words)) | frozenset(dates)
