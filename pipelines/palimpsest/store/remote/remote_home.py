"""Homes that are named by the URL of a bucket: where their copy is, and what writing one takes."""

import threading
from pathlib import Path, PurePosixPath

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.ids import content_id
from palimpsest.core.progress import say
from palimpsest.store.remote.copy_state import STATE, begin_copy, read_state, set_written
from palimpsest.store.remote.lease import HEAD, Lease, read_head, take_lease
from palimpsest.store.remote.table_store import TableStore, bucket_and_prefix, is_remote, open_store
from palimpsest.store.remote.tree import is_shared, shared_files
from palimpsest.store.remote.working_copy import WorkingCopy, working_copy

LOCK = ".lock"
FIRST_WAIT_S = 600.0
"""How long a reader waits for another process of this machine that makes the copy."""
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
    if copy.is_damaged():
        _pull(copy, FIRST_WAIT_S)
    else:
        refresh(copy)
    return copy.folder


def home_name(folder: Path) -> str:
    """Returns what `--home` names a home by: the URL of a bucket where the folder is a copy, else the folder."""
    state = read_state(folder)
    return str(folder if state is None else state.url)


def refresh(copy: WorkingCopy) -> bool:
    """Brings a copy up to what readers see; returns whether it changed. While it is written here it is left alone.

    The first copy of a home is waited for: before it there is nothing to read.
    """
    if not copy.is_behind():  # most looks: a writer is not turned away for them
        return False
    return _pull(copy, FIRST_WAIT_S if copy.is_incomplete() else 0)


def _pull(copy: WorkingCopy, wait_s: float) -> bool:
    lock = FileLock(copy.folder / LOCK, thread_local=False)  # not the lock of `HomeLock`, which counts its threads
    try:
        with lock.acquire(timeout=wait_s):
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
    if read_head(copy.store) is None:
        _check_place(copy.store)
    lease = take_lease(copy.store, wait_s)
    try:
        copy.begin()
    except BaseException:
        lease.release()
        raise
    with _changing:
        _leases[folder.resolve()] = (copy, lease)


def _check_place(store: TableStore) -> None:
    """Checks where a new home is made: a delete removes and searches what is below its prefix.

    Raises:
        PalimpsestError: it lies inside another home, or another home lies inside it.
    """
    bucket, prefix = bucket_and_prefix(store.url)
    parts, scheme = prefix.split("/"), store.url.partition("://")[0]
    for number in range(1, len(parts)):
        parent = f"{scheme}://{bucket}/{'/'.join(parts[:number])}"
        try:
            is_home = open_store(parent).read(HEAD) is not None
        except ComponentFailed:  # a policy of this prefix alone
            continue
        if is_home:
            raise PalimpsestError(f"home {store.url}: lies inside the home {parent}; choose another prefix")
    for key in store.list():
        if key.endswith(f"/{HEAD}"):
            inner = f"{store.url}/{key.removesuffix(f'/{HEAD}')}"
            raise PalimpsestError(f"home {store.url}: the home {inner} lies inside it; choose another prefix")


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


def has_files(folder: Path) -> bool:
    """Returns whether a copy has files of its home."""
    return any(True for _ in shared_files(folder))


def replace_files(folder: Path, source: Path, kept: Path) -> bool:
    """Replaces the files of a copy that this process writes by those of another folder.

    A process that is stopped here leaves a copy that is read again from the bucket.

    Args:
        folder: of the copy.
        source: the files to come; they are moved.
        kept: a folder that is made for the files that were there.

    Returns:
        Whether there were any.
    """
    set_written(folder, False)
    before = [path for path in folder.iterdir() if is_shared(PurePosixPath(path.name))] if has_files(folder) else []
    if before:
        kept.mkdir(mode=0o700)
    for path in before:
        path.rename(kept / path.name)
    for path in source.iterdir():
        if is_shared(PurePosixPath(path.name)):
            path.rename(folder / path.name)
    set_written(folder, True)
    return bool(before)


def writing_copy(folder: Path) -> tuple[WorkingCopy, Lease] | None:
    """Returns the copy that this process is writing in a folder, and its lease; None for other homes."""
    with _changing:
        return _leases.get(folder.resolve())
