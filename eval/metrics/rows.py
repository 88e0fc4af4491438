"""Rows of a suite's JSONL files, read strictly: whatever is wrong is told with file and line."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from palimpsest.core.errors import PalimpsestError


def json_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields ("file line n", row) of a JSONL file of objects.

    Raises:
        PalimpsestError: the file is missing, empty or not UTF-8, or a line is no JSON object.
    """
    count = 0
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                where = f"{path.name} line {number}"
                try:
                    row = json.loads(line)
                except ValueError as e:
                    raise PalimpsestError(f"{where}: not JSON: {e} ({path})") from None
                if not isinstance(row, dict):
                    raise PalimpsestError(f"{where}: must be a JSON object ({path})")
                count += 1
                yield where, row
    except OSError as e:
        raise PalimpsestError(f"suite {path}: {e.strerror or e}; a suite needs {path.name}") from None
    except UnicodeDecodeError:
        raise PalimpsestError(f"{path.name}: not UTF-8; save it as UTF-8 ({path})") from None
    if not count:
        raise PalimpsestError(f"{path.name}: empty; add at least one row ({path})")


def row_text(row: Mapping[str, Any], key: str, where: str, may_be_empty: bool = False) -> str:
    """Returns a string field of a row.

    Raises:
        PalimpsestError: it is missing, no string, or empty; the message says where.
    """
    value = row.get(key)
    if not isinstance(value, str) or not (may_be_empty or value.strip()):
        raise PalimpsestError(f"{where}: {key} is required and must be a {'' if may_be_empty else 'non-empty '}string")
    return value
