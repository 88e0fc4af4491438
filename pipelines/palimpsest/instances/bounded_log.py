"""Sends what this process and its children print to a file that does not grow without end."""

import os
import shutil
import threading
from pathlib import Path

from palimpsest.store.service_files import OLDER

MAX_BYTES = 4 * 2**20
_LOOK_S = 5.0
_STDOUT, _STDERR = 1, 2


class BoundedLog(threading.Thread):
    """Points stdout and stderr of this process at a file; a full one is moved to `NAME.1`, of which one is kept.

    The descriptors themselves are pointed there, so that it also gets what C code and child processes write. A full
    file is copied and emptied, not renamed: children go on writing to it. A log that was removed is made again.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES):
        super().__init__(name="log", daemon=True)
        self._path, self._max_bytes = path, max_bytes
        self._open()

    def run(self) -> None:
        """Looks at the size of the file until the process ends."""
        pause = threading.Event()
        while not pause.wait(_LOOK_S):
            self.look()

    def look(self) -> None:
        """Empties the file where it is full, and makes it where it is gone."""
        written = os.fstat(_STDERR)
        try:
            is_there = os.path.samestat(self._path.lstat(), written)
        except OSError:
            is_there = False
        if not is_there:
            self._open()
        elif written.st_size > self._max_bytes:
            older = self._path.with_name(f"{self._path.name}{OLDER}")
            aside = older.with_name(f".{older.name}.tmp")
            aside.unlink(missing_ok=True)
            with self._path.open("rb") as source, os.fdopen(_create(aside), "wb") as target:
                shutil.copyfileobj(source, target)
            aside.replace(older)
            os.truncate(_STDERR, 0)

    def _open(self) -> None:
        descriptor = open_log(self._path)
        for target in (_STDOUT, _STDERR):
            os.dup2(descriptor, target)
        os.close(descriptor)


def open_log(path: Path) -> int:
    """Returns a descriptor that appends to a log, which is its owner's alone; a link is not followed."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
