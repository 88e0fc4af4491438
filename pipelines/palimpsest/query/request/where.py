"""A `where` expression: conditions on fields of memories, joined by and, or, not; `parse_where` reads it from text."""

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, NoReturn

from palimpsest.core.errors import ArgumentError

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


# Reads `where`: conditions on fields of memories, joined by and, or, not, by recursive descent.
#
#     category = "academic" and (stressor = true or year in (2024, 2025)) and not exists(draft)
#
# Operators are = != < <= > >= in, `not in` and exists. Values are "text", numbers, true, false, and dates such as
# 2026-05-31 or 2026-05-31T12:00:00Z. A name with other characters is written in backquotes.

MAX_CHARS, MAX_DEPTH, MAX_CONDITIONS = 2000, 20, 50
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_KEYWORDS = ("and", "or", "not", "in", "exists", "true", "false")
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<name>`[^`]+`|[^\W\d][\w.-]*)"""
    r"""|(?P<date>\d{4}-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-]\d\d:\d\d)?)?)(?!\w)"""
    r"""|(?P<number>[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?)(?![\w.])|(?P<sign>!=|<=|>=|[=<>(),]))""",
    re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse_where(text: str, argument: str = "where") -> Where:
    """Returns the expression that a text states.

    Args:
        text: the expression.
        argument: what an error names.

    Raises:
        ArgumentError: it is too long or too deep, or not in the language; the message has the character.
    """
    if len(text) > MAX_CHARS:
        raise ArgumentError(argument, f"has {len(text):,} characters; write at most {MAX_CHARS:,}")
    try:
        return Where(text.strip(), _Parser(text).parse())
    except ArgumentError as error:
        raise ArgumentError(argument, error.problem, error.value) from None


class _Parser:
    """Reads one expression by recursive descent."""

    def __init__(self, text: str):
        self._tokens, self._next, self._conditions = list(_tokens(text)), 0, 0

    def parse(self) -> Expression:
        """Returns the expression of the whole text."""
        found = self._joined(0)
        self._expect("end", "and, or, or the end")
        return found

    def _joined(self, depth: int) -> Expression:
        if depth > MAX_DEPTH:
            raise ArgumentError("where", f"has more than {MAX_DEPTH} levels of parentheses and not; write fewer")
        alternatives = [self._all_of(depth)]
        while self._take("or"):
            alternatives.append(self._all_of(depth))
        return alternatives[0] if len(alternatives) == 1 else Junction("or", tuple(alternatives))

    def _all_of(self, depth: int) -> Expression:
        parts = [self._factor(depth)]
        while self._take("and"):
            parts.append(self._factor(depth))
        return parts[0] if len(parts) == 1 else Junction("and", tuple(parts))

    def _factor(self, depth: int) -> Expression:
        if self._take("not"):
            if depth >= MAX_DEPTH:
                raise ArgumentError("where", f"has more than {MAX_DEPTH} levels of parentheses and not; write fewer")
            return Negation(self._factor(depth + 1))
        if self._take("("):
            found = self._joined(depth + 1)
            self._expect(")", "and, or, or )")
            return found
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise ArgumentError("where", f"has more than {MAX_CONDITIONS} conditions; write fewer")
        return self._condition()

    def _condition(self) -> Condition:
        if self._take("exists"):
            self._expect("(", "( and a field, such as exists(category)")
            field = self._expect("name", "a field").text
            self._expect(")", ")")
            return Condition(field, "exists")
        field = self._expect("name", 'a condition such as category = "academic"').text
        negated = self._take("not")
        if self._take("in"):
            self._expect("(", '( and values, such as in ("a", "b")')
            values = [self._value()]
            while self._take(","):
                values.append(self._value())
            self._expect(")", ", or )")
            return Condition(field, "not in" if negated else "in", tuple(values))
        token = self._peek()
        if negated or token.kind not in _COMPARISONS:
            self._fail("in" if negated else f"one of {' '.join(_COMPARISONS)}, in, not in")
        self._next += 1
        value = self._value()
        if value.kind == "boolean" and token.kind not in ("=", "!="):
            raise ArgumentError(
                "where", f"{field} {token.kind} {value.written}: true and false are compared by = or !="
            )
        return Condition(field, token.kind, (value,))

    def _value(self) -> Value:
        token = self._peek()
        if token.kind not in ("text", "number", "date", "true", "false"):
            self._fail('a value: "text", a number, true, false, or a date such as 2026-05-31')
        self._next += 1
        if token.kind == "text":
            return Value("text", re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL), token.text)
        if token.kind == "number":
            return Value("number", float(token.text), token.text)
        if token.kind in ("true", "false"):
            return Value("boolean", float(token.kind == "true"), token.kind)
        if (period := parse_date(token.text)) is None:
            raise ArgumentError("where", f"{token.text} is not a date; write 2026-05-31 or 2026-05-31T12:00:00Z")
        return Value("date", period[0], token.text, period[1])

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self, kind: str) -> bool:
        found = self._peek().kind == kind
        self._next += found
        return found

    def _expect(self, kind: str, wanted: str) -> _Token:
        token = self._peek()
        if token.kind != kind:
            self._fail(wanted)
        self._next += 1
        return token

    def _fail(self, wanted: str) -> NoReturn:
        token = self._peek()
        found = "it ends" if token.kind == "end" else f"{token.text[:40]!r} is"
        raise ArgumentError("where", f"{found} at character {token.at + 1}, where {wanted} is expected")


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            raise ArgumentError("where", f"{text[start : start + 20]!r} at character {start + 1} is not understood")
        kind, written = str(found.lastgroup), found.group(str(found.lastgroup))
        start, at = found.start(kind), found.end()
        if kind == "name":
            kind = written.lower() if written.lower() in _KEYWORDS else "name"
            written = written.strip("`")
        yield _Token(written if kind == "sign" else kind, written, start)
    yield _Token("end", "", len(text))
