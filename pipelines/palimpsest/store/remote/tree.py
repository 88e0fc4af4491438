"""The files of a home at one moment: for each path the object with its content. A tree is an object itself."""

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from palimpsest.core.errors import ComponentFailed

FORMAT = 1
OBJECTS = "objects"
OTHER_CONTENT = "not what Palimpsest wrote; restore that object"
_LOCAL = ("dagster", "deletions")
"""Folders that stay on the machine that wrote them: Dagster's run history, results of deletes that a service runs."""
_NEEDED = (".before-delete", ".replaced.json")
"""The only hidden names of a home that a later run needs: see `store.builds` and `store.inbox`."""

_KEY = re.compile(OBJECTS + r"/[0-9]{8,18}/[0-9a-f]{32}")
_HASH = re.compile(r"[0-9a-f]{32}")
_CONTROL = re.compile("[\0-\x1f\ud800-\udfff]")
_MAX_INT = 2**63 - 1


class Entry(NamedTuple):
    """A file: the key of its object, the `file_hash` of its content, bytes, time of change and permissions."""

    key: str
    blake2b: str
    size: int
    mtime_ns: int
    mode: int

    def has_stat(self, found: os.stat_result) -> bool:
        """Returns whether a file that has this size and time of change need not be read again."""
        return (self.size, self.mtime_ns) == (found.st_size, found.st_mtime_ns)

    def is_valid(self) -> bool:
        """Returns whether Palimpsest can have written it: its hash is the name of a file, its key that of an object."""
        return (
            _KEY.fullmatch(self.key) is not None
            and _HASH.fullmatch(self.blake2b) is not None
            and 0 <= self.size <= _MAX_INT
            and 0 <= self.mtime_ns <= _MAX_INT
            and 0 <= self.mode <= 0o777
        )


Tree = Mapping[str, Entry]
"""Entries by path, relative to the home, with slashes."""


def tree_bytes(tree: Tree) -> bytes:
    """Returns a tree as the JSON of its object."""
    files = {path: list(tree[path]) for path in sorted(tree)}
    return json.dumps({"format": FORMAT, "files": files}, separators=(",", ":"), ensure_ascii=False).encode()


def parse_tree(data: bytes, where: str) -> Tree:
    """Parses the JSON of a tree; `where` names it in errors.

    Raises:
        ComponentFailed: it is none, or a path leads out of the home.
    """
    try:
        raw = json.loads(data)
        if raw["format"] != FORMAT:
            raise ComponentFailed(f"{where}: format {str(raw['format'])[:20]}; a newer version wrote it, update")
        tree = {str(path): Entry(str(e[0]), str(e[1]), *map(int, e[2:])) for path, e in raw["files"].items()}
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        raise ComponentFailed(f"{where}: {OTHER_CONTENT}") from None
    folders = {parent for path in tree for parent in map(str, PurePosixPath(path).parents)}
    for path, entry in tree.items():
        if path in folders or not _is_path_of_home(path):
            raise ComponentFailed(f"{where}: {path[:80]!r} is no path of a home; restore that object")
        if not entry.is_valid():
            raise ComponentFailed(f"{where}: the entry of {path[:80]!r} is none; restore that object")
    return tree


def _is_path_of_home(path: str) -> bool:
    name = PurePosixPath(path)
    unsafe = name.is_absolute() or ".." in name.parts or str(name) != path or not name.parts
    return not unsafe and not _CONTROL.search(path) and "\\" not in path and is_shared(name)


def is_shared(path: PurePosixPath) -> bool:
    """Returns whether a path of a home belongs into its tree: locks, what is being written and local folders do not."""
    hidden = (part for part in path.parts if part.startswith(".") and part not in _NEEDED)
    return path.parts[0] not in _LOCAL and not any(hidden) and not path.name.endswith(("-shm", "-wal"))


def shared_files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yields the path and the stat of each file of a home that belongs into its tree, sorted; links are none."""
    for path in sorted(folder.rglob("*")):
        name = PurePosixPath(path.relative_to(folder).as_posix())
        if not is_shared(name):
            continue
        try:
            found = path.lstat()
        except FileNotFoundError:  # replaced or removed meanwhile
            continue
        if stat.S_ISREG(found.st_mode):
            yield str(name), found
