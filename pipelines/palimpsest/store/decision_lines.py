"""The lines of `decisions.jsonl`: each has a checksum of what it says; lines of earlier versions have none."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palimpsest.core.files import write_bytes
from palimpsest.core.ids import content_id
from palimpsest.core.json_types import JsonObject

_SUM = "sum"


def sealed_line(row: Mapping[str, Any]) -> str:
    """Returns the line of a decision, with its checksum."""
    return json.dumps({**row, _SUM: _line_sum(row)}, ensure_ascii=False)


def parse_line(line: str) -> JsonObject:
    """Returns the decision of a line.

    Raises:
        ValueError: it is none, or was changed after it was written.
    """
    row = json.loads(line)
    if not isinstance(row, dict) or not {"kind", "target"} <= row.keys():
        raise ValueError("no decision")
    if row.pop(_SUM, None) not in (None, _line_sum(row)):
        raise ValueError("another checksum")
    return row


def decision_lines(path: Path) -> list[str]:
    """Returns the lines of the file, read as far as they can be; none where there is no file."""
    if not path.exists():
        return []
    # Not splitlines: a text may have a line separator of Unicode.
    return [line for line in path.read_text(encoding="utf-8", errors="replace").split("\n") if line]


def count_decisions(path: Path) -> tuple[int, list[int]]:
    """Returns how many lines are decisions, and the numbers of those that are damaged."""
    lines = decision_lines(path)
    damaged = [number for number, line in enumerate(lines, 1) if not _is_decision(line)]
    return len(lines) - len(damaged), damaged


def drop_damaged(path: Path) -> None:
    """Removes the lines that are damaged."""
    kept = [line for line in decision_lines(path) if _is_decision(line)]
    write_bytes(path, "".join(line + "\n" for line in kept).encode())
    path.chmod(0o600)


def _is_decision(line: str) -> bool:
    try:
        parse_line(line)
    except ValueError:
        return False
    return True


def _line_sum(row: Mapping[str, Any]) -> str:
    return content_id("decision", json.dumps(row, sort_keys=True, ensure_ascii=False))[:8]
