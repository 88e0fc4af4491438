"""Files that are whole or absent: written aside, synced, then renamed; readable by their owner only."""

import hashlib
import json
import os
import shutil
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

from palimpsest.core.errors import DamagedFile, PalimpsestError
from palimpsest.core.json_types import JsonObject

REBUILD = "remove it and run palimpsest build again"


def write_bytes(path: Path, data: bytes) -> None:
    """Writes `path` so that a reader or a crash sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")  # of two threads each has its own
    with aside.open("wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())
    aside.replace(path)


def write_json(path: Path, value: Any) -> None:
    """Writes `value` as sorted, indented JSON, atomically."""
    write_bytes(path, (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode())


def read_json(path: Path, fix: str = REBUILD) -> Any:
    """Returns the JSON value in `path`, or None where there is no such file.

    Raises:
        DamagedFile: the file cannot be read or is not JSON; the message names it and the fix.
        PalimpsestError: a part of the path is a file.
        PermissionError: this user may not read it.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise PalimpsestError(f"{path}: a part of this path is a file, not a folder; name another folder") from None
    except PermissionError:
        raise  # it is not damaged
    except (OSError, ValueError, RecursionError):
        raise DamagedFile(path, fix) from None


def read_json_object(path: Path, fix: str = REBUILD) -> JsonObject | None:
    """Returns the JSON object in `path`, or None where there is no such file.

    Raises:
        DamagedFile: the file cannot be read or is no JSON object; the message names it and the fix.
    """
    value = read_json(path, fix)
    if value is not None and not isinstance(value, dict):
        raise DamagedFile(path, fix)
    return value


def file_hash(path: Path) -> str:
    """Returns 32 hex digits of blake2b over the bytes of `path`, read in blocks."""
    h = hashlib.blake2b(digest_size=16)
    with path.open("rb") as f:
        while block := f.read(1 << 20):
            h.update(block)
    return h.hexdigest()


def hash_of_file(path: Path) -> str:
    """Returns `file_hash` of a file, computed once as long as the file stays as it is.

    Raises:
        OSError: it cannot be read.
    """
    state = path.stat()
    return _hash_of_state(path.resolve(), (state.st_mtime_ns, state.st_size, state.st_ino))


@lru_cache(maxsize=16)
def _hash_of_state(path: Path, state: tuple[int, int, int]) -> str:
    return file_hash(path)


def file_hash_of(data: bytes) -> str:
    """Returns what `file_hash` returns of a file with these bytes."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def link(source: Path, target: Path) -> None:
    """Makes `target` the same file as `source`: a hard link, or a copy where the disk has none."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def remove_leftovers(folder: Path) -> None:
    """Removes files that an interrupted write left aside."""
    for path in folder.rglob(".*.tmp"):
        path.unlink(missing_ok=True)
