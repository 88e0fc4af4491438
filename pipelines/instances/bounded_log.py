"""Sends what this process prints, and what its libraries do, to a file that does not grow without end."""

import os
import threading
from pathlib import Path

MAX_BYTES = 4 * 2**20
_LOOK_S = 5.0
_STDOUT, _STDERR = 1, 2


class BoundedLog(threading.Thread):
    """Points stdout and stderr of this process at a file; one that is full becomes `NAME.1`, of which one is kept.

    The descriptors themselves are pointed there, so that it also gets what C code and the interpreter write. A log that
    was removed is made again.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES):
        super().__init__(name="log", daemon=True)
        self._path, self._max_bytes = path, max_bytes
        self._stopped = threading.Event()
        self._open()

    def run(self) -> None:
        """Looks at the size of the file until the process ends."""
        while not self._stopped.wait(_LOOK_S):
            self.look()

    def look(self) -> None:
        """Begins a new file where this one is full or gone."""
        written = os.fstat(_STDERR)
        try:
            is_there = os.path.samestat(self._path.lstat(), written)
        except OSError:
            is_there = False
        if is_there and written.st_size <= self._max_bytes:
            return
        if is_there:
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        self._open()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        for target in (_STDOUT, _STDERR):
            os.dup2(descriptor, target)
        os.close(descriptor)
