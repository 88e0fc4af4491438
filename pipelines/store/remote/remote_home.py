"""Homes that are named by the URL of a bucket: where their copy is, and what writing one takes."""

import threading
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from palimpsest.core.files import read_json_object
from palimpsest.core.ids import content_id
from palimpsest.core.progress import say
from palimpsest.store.remote.lease import Lease, take_lease
from palimpsest.store.remote.table_store import is_remote, open_store
from palimpsest.store.remote.working_copy import STATE, WorkingCopy, begin_copy, working_copy

LOCK = ".lock"
_leases: dict[Path, tuple[WorkingCopy, Lease]] = {}
_changing = threading.Lock()


def local_home(home: str | Path) -> Path:
    """Returns the folder of a home; one on object storage is first brought up to what readers see.

    Args:
        home: a folder, or the URL of a bucket and a prefix.

    Raises:
        PalimpsestError: the URL names no home.
        ComponentFailed: the store does not answer.
    """
    if not is_remote(str(home)):
        return Path(home)
    url = str(home).rstrip("/")
    copy = WorkingCopy(user_cache_path("palimpsest") / "homes" / content_id("home", url), open_store(url))
    begin_copy(copy.folder, url)
    refresh(copy)
    return copy.folder


def home_name(folder: Path) -> str:
    """Returns what `--home` names a home by: the URL of a bucket where the folder is a copy, else the folder."""
    raw = read_json_object(folder / STATE)
    return str(folder if raw is None else raw["url"])


def refresh(copy: WorkingCopy) -> bool:
    """Brings a copy up to what readers see; returns whether it changed. While it is written here it is left alone."""
    if not copy.is_behind():  # most looks: a writer is not turned away for them
        return False
    lock = FileLock(copy.folder / LOCK, thread_local=False)  # not the lock of `HomeLock`, which counts its threads
    try:
        with lock.acquire(timeout=0):
            return copy.pull()
    except Timeout:
        return False


def begin_writing(folder: Path, wait_s: float) -> None:
    """Takes the lease of a home on object storage, and brings its copy up to date; does nothing for other homes.

    Raises:
        PalimpsestError: another builder has the lease.
        ComponentFailed: the store does not answer.
    """
    if not (folder / STATE).exists() or (copy := working_copy(folder)) is None:
        return
    lease = take_lease(copy.store, wait_s)
    try:
        copy.pull()
    except BaseException:
        lease.release()
        raise
    with _changing:
        _leases[folder.resolve()] = (copy, lease)


def end_writing(folder: Path) -> None:
    """Writes what is new to object storage, and gives the lease back.

    Raises:
        ComponentFailed: the store does not answer, or another builder took the lease; readers see what they saw.
    """
    with _changing:
        writing = _leases.pop(folder.resolve(), None)
    if writing is not None:
        copy, lease = writing
        try:
            if copy.push(lease):
                say(f"wrote {copy.store.url}")
        finally:
            lease.release()


def writing_copy(folder: Path) -> tuple[WorkingCopy, Lease] | None:
    """Returns the copy that this process is writing in a folder, and its lease; None for other homes."""
    with _changing:
        return _leases.get(folder.resolve())
