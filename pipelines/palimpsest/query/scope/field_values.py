"""The fields of a scope's memories that `where` filters by, the same over every backend."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from palimpsest.query.request.where import Condition, Expression, Junction, Kind, Negation, Value, parse_date
from palimpsest.query.scope.scope_arrays import Arrays

TEXTS = ("type", "unit", "kind", "session_id", "speaker", "title", "heading", "uri", "document_title")
NUMBERS = ("page", "confidence", "importance", "token_count")
TIMES = ("observed_at", "valid_from", "valid_until", "created_at", "updated_at")
CLOCK = "clock"
"""How many minutes east of UTC the clock of each memory's speaker is: a day of `observed_at` is one of that clock."""
BOOLEANS = ("is_latest", "pii", "user_visible")
MEMORY_FIELDS: dict[str, Kind] = {
    **dict.fromkeys(TEXTS, "text"),
    "tags": "text",
    **dict.fromkeys(NUMBERS, "number"),
    **dict.fromkeys(TIMES, "date"),
    **dict.fromkeys(BOOLEANS, "boolean"),
}
"""The fields that every memory has, and what each is; any other name is metadata of its document."""
METADATA = "metadata."
"""Begins the name of a field of the metadata that is named like one of a memory."""

_NO_NUMBERS = np.zeros(0)
_NO_PLACES = np.zeros(0, np.int64)


@dataclass(frozen=True)
class FieldColumn:
    """The values of one field: of memories by local row, or of documents by their number.

    Attributes:
        size: how many memories or documents.
        texts: distinct texts.
        text_codes: one of `texts` for each entry.
        text_at: the memory or document of each entry.
        numbers: numbers, and 0 or 1 for booleans.
        number_at: the memory or document of each.
        number_kind: of each: 0 a number, 1 a time in seconds since 1970, 2 a boolean.
        clock: seconds that the clock is ahead of UTC by which a day compares with each time.
    """

    size: int
    texts: list[str] = field(default_factory=list)
    text_codes: np.ndarray = field(default_factory=lambda: _NO_PLACES)
    text_at: np.ndarray = field(default_factory=lambda: _NO_PLACES)
    numbers: np.ndarray = field(default_factory=lambda: _NO_NUMBERS)
    number_at: np.ndarray = field(default_factory=lambda: _NO_PLACES)
    number_kind: np.ndarray = field(default_factory=lambda: _NO_PLACES)
    clock: np.ndarray = field(default_factory=lambda: np.zeros(1))

    def exists(self) -> np.ndarray:
        """Returns which memories or documents have a value, shape (size,) bool."""
        return self._marked([self.text_at, self.number_at])

    def kinds(self, among: np.ndarray) -> frozenset[Kind]:
        """Returns the kinds of the values of those that `among` marks; a text that states a date is of both kinds."""
        found = {_NUMBER_KINDS[k] for k in np.unique(self.number_kind[among[self.number_at]]).tolist()}
        codes = np.unique(self.text_codes[among[self.text_at]])
        if len(codes):
            found.add("text")
            found |= {"date"} if any(parse_date(self.texts[c]) for c in codes.tolist()) else set()
        return frozenset(found)

    def matches(self, operator: str, value: Value) -> np.ndarray:
        """Returns which memories or documents have a value that compares so, shape (size,) bool."""
        if value.kind == "text":
            wanted = [bool(_COMPARE[operator](text, value.value)) for text in self.texts]
            date = parse_date(str(value.value))
            return self._marked([self._texts_at(wanted), *([self._times_at(operator, *date)] if date else [])])
        if value.kind == "date":
            begin, end = float(value.value), value.until
            dates = [parse_date(text) for text in self.texts]
            wanted = [d is not None and bool(_compare_periods(operator, *d, begin, end)) for d in dates]
            return self._marked([self._texts_at(wanted), self._times_at(operator, begin, end)])
        of_kind = self.number_kind == (2 if value.kind == "boolean" else 0)
        return self._marked([self.number_at[of_kind & _COMPARE[operator](self.numbers, value.value)]])

    def satisfies(self, condition: Condition) -> np.ndarray:
        """Returns which memories or documents satisfy a condition, shape (size,) bool; none without a value does."""
        if condition.operator == "exists":
            return self.exists()
        negated = condition.operator in ("!=", "not in")
        operator = "=" if condition.operator in ("!=", "not in", "in") else condition.operator
        found: np.ndarray = np.logical_or.reduce([self.matches(operator, value) for value in condition.values])
        return self.exists() & ~found if negated else found

    def _texts_at(self, wanted: list[bool]) -> np.ndarray:
        found: np.ndarray = self.text_at[np.array(wanted, bool)[self.text_codes]] if wanted else _NO_PLACES
        return found

    def _times_at(self, operator: str, begin: float, end: float) -> np.ndarray:
        times = self.numbers + self.clock if end > begin else self.numbers  # a day, not an instant
        found = _compare_periods(operator, times, times, begin, end)
        places: np.ndarray = self.number_at[(self.number_kind == 1) & found]
        return places

    def _marked(self, places: list[np.ndarray]) -> np.ndarray:
        marked = np.zeros(self.size, bool)
        for at in places:
            marked[at] = True
        return marked


def satisfied(expression: Expression, of_condition: Callable[[Condition], np.ndarray]) -> np.ndarray:
    """Returns what satisfies an expression, from what satisfies each of its conditions, both shape (size,) bool."""
    if isinstance(expression, Negation):
        return ~satisfied(expression.part, of_condition)
    if isinstance(expression, Junction):
        combine = np.logical_and if expression.operator == "and" else np.logical_or
        found: np.ndarray = combine.reduce([satisfied(part, of_condition) for part in expression.parts])
        return found
    return of_condition(expression)


class FieldValues:
    """The fields of a scope's memories, made of the parts `fields` and `metadata` of the scope."""

    def __init__(self, fields: Arrays, metadata: Arrays, size: int):
        self.size, self._document = size, metadata.get("document", np.full(size, -1, "<i4"))
        self.is_indexed = bool(fields)
        self._memory = _memory_columns(fields, size) if fields else {}
        self._metadata = _metadata_columns(metadata) if metadata else {}
        self.nbytes = sum(a.nbytes if isinstance(a, np.ndarray) else 60 * len(a) for a in (fields | metadata).values())

    def kinds(self, allowed: np.ndarray) -> dict[str, frozenset[Kind]]:
        """Returns the fields of the metadata of memories that `allowed` marks, and the kinds of their values."""
        documents = np.zeros(int(self._document.max(initial=-1)) + 1, bool)
        documents[self._document[allowed & (self._document >= 0)]] = True
        found = {name: column.kinds(documents) for name, column in self._metadata.items()}
        return {name: kinds for name, kinds in found.items() if kinds}

    def mask(self, expression: Expression) -> np.ndarray:
        """Returns which memories satisfy an expression, shape (size,) bool."""
        return satisfied(expression, self._condition)

    def _condition(self, condition: Condition) -> np.ndarray:
        """Compares one field; what has no value satisfies only the absence of `exists`, `!=` and `not in` included."""
        name = condition.field
        of_memory = name in MEMORY_FIELDS
        column = self._memory.get(name) if of_memory else self._metadata.get(name.removeprefix(METADATA))
        if column is None:
            return np.zeros(self.size, bool)
        found = column.satisfies(condition)
        if of_memory:
            return found
        of_documents: np.ndarray = np.append(found, False)[self._document]  # -1, without metadata, is the last
        return of_documents


_NUMBER_KINDS: tuple[Kind, ...] = ("number", "date", "boolean")
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _compare_periods(operator: str, a_begin: Any, a_end: Any, begin: float, end: float) -> Any:
    """Compares periods: `=` is inside, `<` is before the begin, `<=` is not after the end."""
    if operator == "=":
        return (a_begin >= begin) & (a_end <= end)
    a, b = {"<": (a_begin, begin), "<=": (a_begin, end), ">": (a_end, end), ">=": (a_end, begin)}[operator]
    return _COMPARE[operator](a, b)


def _memory_columns(fields: Arrays, size: int) -> dict[str, FieldColumn]:
    columns = {}
    for name in TEXTS:
        at = np.flatnonzero(fields[name] >= 0)
        columns[name] = FieldColumn(size, fields[f"{name}.texts"], fields[name][at], at)
    columns["tags"] = FieldColumn(size, fields["tags.texts"], fields["tags"], fields["tags.row"])
    for kind, names in enumerate((NUMBERS, TIMES, BOOLEANS)):
        for name in names:
            numbers = np.asarray(fields[name], np.float64)
            at = np.flatnonzero(numbers >= 0 if kind == 2 else ~np.isnan(numbers))
            kinds, clock = np.full(len(at), kind, np.int64), np.zeros(1)
            if name == "observed_at" and CLOCK in fields:  # a graph that an earlier version loaded has none
                clock = 60.0 * np.asarray(fields[CLOCK])[at]
            columns[name] = FieldColumn(size, numbers=numbers[at], number_at=at, number_kind=kinds, clock=clock)
    return columns


def _metadata_columns(metadata: Arrays) -> dict[str, FieldColumn]:
    of, number, code = metadata["of"], metadata["field"], metadata["value"]
    values = [json.loads(v) for v in metadata["values"]]
    size, columns = int(of.max()) + 1, {}
    is_text = np.array([isinstance(v, str) for v in values])
    numbers = np.array([0.0 if isinstance(v, str) else float(v) for v in values])
    kinds = np.array([2 if isinstance(v, bool) else 0 for v in values])
    order = np.argsort(number, kind="stable")
    starts = np.searchsorted(number[order], np.arange(len(metadata["fields"]) + 1))
    for i, name in enumerate(metadata["fields"]):
        entries = order[starts[i] : starts[i + 1]]
        texts, others = entries[is_text[code[entries]]], entries[~is_text[code[entries]]]
        distinct, codes = np.unique(code[texts], return_inverse=True)
        columns[name] = FieldColumn(
            size, [values[c] for c in distinct.tolist()], codes, of[texts],
            numbers[code[others]], of[others], kinds[code[others]],
        )  # fmt: skip
    return columns
