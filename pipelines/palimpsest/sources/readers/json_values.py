"""JSON values of conversations, and JSON lines: each by itself, so that a damaged one loses only itself."""

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.sources.find_secrets import shorten_value
from palimpsest.sources.readers.encodings import explain_value_error

_WINDOW_BYTES = 1_000_000
_CUT_NUMBER = 2  # characters that a window may have of a number behind the part that it reads: `0` of `0.` and of `0e-`
_SPACE = re.compile(r"[ \t\n\r]*")


class JsonReader:
    """Decodes JSON; NaN and infinity, which are no JSON, are floats, so that the field's own check names them.

    Attributes:
        repeated: the keys that an object of the last value has twice, in their order.
    """

    def __init__(self) -> None:
        self.repeated: list[str] = []
        self._decoder = json.JSONDecoder(parse_constant=float, object_pairs_hook=self._to_object)

    def decode(self, text: str) -> JsonValue:
        """Returns the value.

        Raises:
            ValueError: not JSON; the message says why.
            RecursionError: nested too deeply.
        """
        self.repeated.clear()
        try:
            value: JsonValue = self._decoder.decode(text)
        except ValueError as e:
            raise ValueError(explain_value_error(e)) from None
        return value

    def decode_items(self, data: bytes) -> Iterator[JsonValue]:
        """Yields the items of an array in UTF-8: of a large file one item at a time is in memory as text.

        `repeated` collects over all items.

        Raises:
            ValueError: not such an array; the message says why.
            RecursionError: nested too deeply.
        """
        self.repeated.clear()
        window = _TextWindow(data)
        if window.next_char() != "[":
            raise ValueError("no array")
        window.at += 1
        number, following = 0, window.next_char()
        while following != "]":
            number += 1
            try:
                value = window.decode(self._decoder)
                following = window.next_char()
                if following not in (",", "]"):
                    raise ValueError("Expecting ',' delimiter")
            except ValueError as e:
                raise ValueError(f"item {number}: {explain_value_error(e)}") from None
            if following == ",":
                window.at += 1
            yield value
            del value
        window.at += 1
        if window.next_char():
            raise ValueError("Extra data after the array")

    def _to_object(self, pairs: list[tuple[str, JsonValue]]) -> JsonObject:
        value = dict(pairs)
        if len(value) < len(pairs):
            self.repeated += [k for k, n in Counter(k for k, _ in pairs).items() if n > 1]
        return value


class _TextWindow:
    """A part of a file in UTF-8 as text, from the place that was read last.

    Attributes:
        at: the place in the text.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._next_byte = data, 0
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self.at = "", 0

    def next_char(self) -> str:
        """Moves to the next character that is no white space and returns it; empty at the end."""
        while True:
            self.at = _after_space(self._text, self.at)
            if self.at < len(self._text) or not self._extend():
                return self._text[self.at : self.at + 1]

    def decode(self, decoder: json.JSONDecoder) -> JsonValue:
        """Returns the value at the place, which moves behind it.

        Raises:
            ValueError: there is no value.
        """
        while True:
            try:
                self.next_char()
                value, end = decoder.raw_decode(self._text, self.at)
            except ValueError:  # it may end outside of the window
                if not self._extend():
                    raise
                continue
            length = end - self.at
            if end + _CUT_NUMBER < len(self._text) or not self._extend():  # else a number may go on
                self.at += length  # `_extend` moves the place
                return value  # type: ignore[no-any-return]

    def _extend(self) -> bool:
        """Drops what was read and doubles the rest of the window; returns whether there was more of the file."""
        start = self._next_byte
        self._next_byte = start + max(_WINDOW_BYTES, len(self._text) - self.at)
        is_last = self._next_byte >= len(self._data)
        more = self._decoder.decode(self._data[start : self._next_byte], is_last)
        self._text, self.at = self._text[self.at :] + more, 0
        return start < len(self._data)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


@dataclass(frozen=True, slots=True)
class JsonRow:
    """One JSON object, the number of its line, from 1, and where that line is."""

    line: int
    value: JsonObject
    place: str = ""


def parse_json_rows(text: str) -> tuple[list[JsonRow], list[str]]:
    """Returns the JSON objects of a text by line, and a problem for each other line that is not blank."""
    rows, problems = [], []
    reader = JsonReader()
    # Only a newline ends a line: JSON strings may contain other line separators.
    for number, line in enumerate(text.split("\n"), 1):
        if not line or line.isspace():
            continue
        try:
            value = reader.decode(line)
        except (ValueError, RecursionError) as e:
            problems.append(f"line {number}: not JSON: {e}"[:160])
            continue
        if reader.repeated:
            names = ", ".join(shorten_value(k) for k in dict.fromkeys(reader.repeated))
            problems.append(f"line {number}: {names} stated twice; remove one; the line is left out"[:160])
        elif isinstance(value, dict):
            rows.append(JsonRow(number, value))
        else:
            problems.append(f"line {number}: not a JSON object")
    return rows, problems
