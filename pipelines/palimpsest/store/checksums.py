"""Size, time of change and checksum of each file of a build, as its manifest lists them."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from palimpsest.core.files import file_hash

MANIFEST = "manifest.json"


class FileState(NamedTuple):
    """A file as it was recorded: bytes, nanoseconds of its change, BLAKE2b of its bytes."""

    size: int
    mtime_ns: int
    blake2b: str


def file_states(
    folder: Path, known: Mapping[str, FileState], hashes: Mapping[str, str] | None = None
) -> dict[str, FileState]:
    """Returns the state of each file below a folder but the manifest, by its relative name.

    Args:
        folder: of a build.
        known: what was recorded before; a file of the same size and time is not read again.
        hashes: checksums that are known from when the files were written.
    """
    found = {}
    for name, path in _files(folder):
        stat = path.stat()
        if (old := known.get(name)) is not None and old[:2] == (stat.st_size, stat.st_mtime_ns):
            found[name] = old
        else:
            found[name] = FileState(stat.st_size, stat.st_mtime_ns, (hashes or {}).get(name) or file_hash(path))
    return found


def changed_files(folder: Path, recorded: Mapping[str, FileState], read_all: bool) -> list[str]:
    """Returns the names of files that are missing or not as they were recorded, sorted.

    Args:
        folder: of a build.
        recorded: from its manifest.
        read_all: read every file; otherwise alone those whose time of change differs.
    """
    return [name for name in sorted(recorded) if _is_changed(folder / name, recorded[name], read_all)]


def has_hash(path: Path, blake2b: str) -> bool:
    """Returns whether a file is there and has this checksum; a file that did not change since is read once.

    Raises:
        PermissionError: this user may not read it.
    """
    try:
        stat = path.stat()
    except PermissionError:
        raise  # it is not damaged
    except OSError:
        return False
    return _hash_of(path, stat.st_size, stat.st_mtime_ns, stat.st_ino) == blake2b


def _is_changed(path: Path, state: FileState, read_all: bool) -> bool:
    try:
        stat = path.stat()
    except PermissionError:
        raise  # it is not damaged
    except OSError:
        return True
    if stat.st_size != state.size:
        return True
    return (read_all or stat.st_mtime_ns != state.mtime_ns) and file_hash(path) != state.blake2b


@lru_cache(maxsize=4096)
def _hash_of(path: Path, size: int, mtime_ns: int, inode: int) -> str:
    return file_hash(path)


def _files(folder: Path) -> list[tuple[str, Path]]:
    named = ((p.relative_to(folder), p) for p in folder.rglob("*") if p.is_file())
    return sorted(
        (name.as_posix(), path)
        for name, path in named
        if name.as_posix() != MANIFEST and not any(part.startswith(".") for part in name.parts)
    )
