"""JSON Lines files, read strictly: an error names file and line."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.json_types import JsonObject, JsonValue


def numbered_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yields ("file line n", line) of each line that is not blank.

    Raises:
        PalimpsestError: the file is missing or not UTF-8.
    """
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield f"{path.name} line {number}", line.rstrip("\n")
    except OSError as e:
        raise PalimpsestError(f"suite {path}: {e.strerror or e}; a suite needs {path.name}") from None
    except UnicodeDecodeError:
        raise PalimpsestError(f"{path.name}: not UTF-8; save it as UTF-8 ({path})") from None


def json_rows(path: Path) -> Iterator[tuple[str, JsonObject]]:
    """Yields ("file line n", row) of a file of JSON objects.

    Raises:
        PalimpsestError: the file is missing, empty or not UTF-8, or a line is no JSON object.
    """
    count = 0
    for where, line in numbered_lines(path):
        try:
            row = json.loads(line)
        except RecursionError:
            raise PalimpsestError(f"{where}: not JSON: nested too deeply ({path})") from None
        except ValueError as e:
            raise PalimpsestError(f"{where}: not JSON: {e} ({path})") from None
        if not isinstance(row, dict):
            raise PalimpsestError(f"{where}: must be a JSON object ({path})")
        count += 1
        yield where, row
    if not count:
        raise PalimpsestError(f"{path.name}: empty; add at least one row ({path})")


def row_text(row: Mapping[str, JsonValue], key: str, where: str, may_be_empty: bool = False) -> str:
    """Returns a string field of a row.

    Raises:
        PalimpsestError: it is missing, no string, or empty; the message names file and line.
    """
    value = row.get(key)
    if not isinstance(value, str) or not (may_be_empty or value.strip()):
        raise PalimpsestError(f"{where}: {key} is required and must be a {'' if may_be_empty else 'non-empty '}string")
    return value
