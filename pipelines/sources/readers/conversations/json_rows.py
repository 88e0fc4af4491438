"""JSON lines: each line by itself, so that a damaged one loses only itself."""

import json
from dataclasses import dataclass

from palimpsest.core.json_types import JsonObject

_DECODER = json.JSONDecoder(parse_constant=lambda _: None)


@dataclass(frozen=True, slots=True)
class JsonRow:
    """One JSON object and the number of its line, from 1."""

    line: int
    value: JsonObject


def parse_json_rows(text: str) -> tuple[list[JsonRow], list[str]]:
    """Returns the JSON objects of a text by line, and a problem for each other line that is not blank."""
    rows, problems = [], []
    # Only a newline ends a line: JSON strings may contain other line separators.
    for number, line in enumerate(text.split("\n"), 1):
        if not line or line.isspace():
            continue
        try:
            value = _DECODER.decode(line)
        except (ValueError, RecursionError) as e:
            problems.append(f"line {number}: not JSON: {e}"[:160])
            continue
        if isinstance(value, dict):
            rows.append(JsonRow(number, value))
        else:
            problems.append(f"line {number}: not a JSON object")
    return rows, problems
