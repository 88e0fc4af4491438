"""JSON objects with the checksum of what they say, however it is written: a changed character is noticed.

Files that an earlier version wrote have none.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palimpsest.core.errors import DamagedFile
from palimpsest.core.files import REBUILD, read_json_object, write_json
from palimpsest.core.json_types import JsonObject

_SUM = "checksum"


def write_sealed_json(path: Path, value: Mapping[str, Any]) -> None:
    """Writes an object with its checksum, atomically."""
    write_json(path, {**value, _SUM: _checksum(value)})


def read_sealed_json(path: Path, fix: str = REBUILD) -> JsonObject | None:
    """Returns what the object in `path` says, or None where there is no such file.

    Raises:
        DamagedFile: the file cannot be read, is no JSON object or was changed; the message names it and the fix.
    """
    found = read_json_object(path, fix)
    try:
        return None if found is None else unsealed(found)
    except ValueError:
        raise DamagedFile(path, fix) from None


def unsealed(found: JsonObject) -> JsonObject:
    """Returns what an object says, without its checksum.

    Raises:
        ValueError: the checksum is another.
    """
    value = {k: v for k, v in found.items() if k != _SUM}
    if found.get(_SUM) not in (None, _checksum(value)):
        raise ValueError("another checksum")
    return value


def _checksum(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
