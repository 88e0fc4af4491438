"""JSON values of conversations, and JSON lines: each by itself, so that a damaged one loses only itself."""

import json
from collections import Counter
from dataclasses import dataclass

from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.sources.readers.common.clean_text import explain_value_error
from palimpsest.sources.secrets.find_secrets import shorten_value


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

    def _to_object(self, pairs: list[tuple[str, JsonValue]]) -> JsonObject:
        value = dict(pairs)
        if len(value) < len(pairs):
            self.repeated += [k for k, n in Counter(k for k, _ in pairs).items() if n > 1]
        return value


@dataclass(frozen=True, slots=True)
class JsonRow:
    """One JSON object and the number of its line, from 1."""

    line: int
    value: JsonObject


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
