"""A lock in a folder of this user: one process or thread at a time changes what is in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from palimpsest.core.errors import ComponentFailed


@contextmanager
def folder_lock(folder: Path, wait_s: float, busy: str, *, tighten: bool = True) -> Iterator[None]:
    """Makes a folder where it is not there, and keeps others out of it for as long as the block.

    Args:
        folder: the folder.
        wait_s: how long to wait.
        busy: the error, where another one does not let go of it.
        tighten: let only the owner into a folder that was there already, too.

    Yields:
        Nothing, once the lock is taken.

    Raises:
        ComponentFailed: another one does not let go of it.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if tighten:
        folder.chmod(0o700)
    lock = FileLock(folder / ".lock", timeout=wait_s, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        raise ComponentFailed(busy) from None
    try:
        yield
    finally:
        lock.release()
