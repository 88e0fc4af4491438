"""JSON lines: each line by itself, so that a bad one loses only itself."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class JsonRow:
    """One JSON object and the number of its line, from 1."""

    line: int
    value: dict[str, Any]


def parse_json_rows(text: str) -> tuple[list[JsonRow], list[str]]:
    """Returns the JSON objects of a text by line, and a problem for each other line that is not blank."""
    rows, problems = [], []
    # Only a newline ends a line: JSON strings may hold other line separators.
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


_DECODER = json.JSONDecoder(parse_constant=lambda _: None)
