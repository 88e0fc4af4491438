"""A `where` expression: conditions on fields of memories, joined by and, or, not; `parse_where` reads it from text."""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

Kind = Literal["text", "number", "date", "boolean"]


class Value(NamedTuple):
    """A literal: a text, a number, 0 or 1, or the first and last second since 1970 of a date (`until`)."""

    kind: Kind
    value: str | float
    written: str
    until: float = 0.0

    @property
    def is_date(self) -> bool:
        """Whether it is a date, or a text that states one."""
        return self.kind == "date" or (self.kind == "text" and parse_date(str(self.value)) is not None)


@dataclass(frozen=True)
class Condition:
    """A comparison of one field; `exists` has no values, `in` and `not in` have several."""

    field: str
    operator: str
    values: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Negation:
    """What does not satisfy `part`."""

    part: "Expression"


@dataclass(frozen=True)
class Junction:
    """What satisfies all of `parts` (`and`) or any of them (`or`)."""

    operator: Literal["and", "or"]
    parts: tuple["Expression", ...]


Expression = Condition | Negation | Junction


@dataclass(frozen=True)
class Where:
    """A parsed expression, with its text."""

    text: str
    expression: Expression

    def conditions(self) -> Iterator[Condition]:
        """Yields the conditions in their order."""
        left = [self.expression]
        while left:
            part = left.pop()
            if isinstance(part, Condition):
                yield part
            else:
                left += [part.part] if isinstance(part, Negation) else reversed(part.parts)


@lru_cache(10_000)
def parse_date(text: str) -> tuple[float, float] | None:
    """Returns the first and last second since 1970 of an ISO 8601 date or date-time; None where the text is neither."""
    try:
        begin = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    begin = begin.replace(tzinfo=dt.UTC) if begin.tzinfo is None else begin
    start = begin.timestamp()
    return start, start + 86_400 - 1e-6 if len(text.strip()) <= len("2026-05-31") else start
