"""Homes that are named by the URL of a bucket: where their copy is, and what writing one takes."""

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.files import say
from palimpsest.core.ids import content_id
from palimpsest.store.lease import HEAD, LEASE, TREES, Lease, read_head, take_lease
from palimpsest.store.table_store import (
    OBJECTS,
    TableStore,
    bucket_and_prefix,
    endpoint_variable,
    first_line,
    is_remote,
    is_shared,
    open_store,
    shared_files,
)
from palimpsest.store.working_copy import STATE, WorkingCopy, begin_copy, read_state, set_written, working_copy

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


# The delete of a home on object storage, and its proof: what a bucket keeps of objects that are gone is removed too.
#
# S3 keeps versions of objects, delete markers and the parts of unfinished uploads. boto3 lists them: obstore cannot. Of
# other stores only the objects are listed.

_AT_ONCE = 1000  # keys of one request
_OURS = (f"{OBJECTS}/", f"{TREES}/", HEAD, LEASE)
"""What Palimpsest writes below a prefix: versions of what others have there are not removed."""
_BLIND = "versions of objects on {}: the store does not list them here; turn versioning and soft delete off"


@dataclass(frozen=True)
class StoreProof:
    """What a delete removed from the store, and what is left there.

    Attributes:
        objects: how many the home has now.
        versions: versions, delete markers and unfinished uploads that were removed.
        residue: keys of what should be gone.
        unsearched: what could not be listed; empty where all was.
    """

    objects: int
    versions: int
    residue: tuple[str, ...]
    unsearched: str = ""


class _Leftover(NamedTuple):
    """A version, a delete marker or an unfinished upload."""

    key: str
    id: str
    is_upload: bool = False
    is_marker: bool = False


def erase_from_store(folder: Path) -> StoreProof | None:
    """Writes a copy from which something was deleted, and removes all that the store keeps of what was before.

    Returns:
        The proof; None for a home that is a folder only.

    Raises:
        ComponentFailed: the store does not answer, or this process does not have the lease.
    """
    if (writing := writing_copy(folder)) is None:
        if (folder / STATE).exists():
            raise ComponentFailed(f"{folder}: this process does not have the lease of the home; run the delete again")
        return None
    copy, lease = writing
    copy.push(lease, is_delete=True)
    copy.store.delete(copy.garbage(lease.fence))  # where the push before ended in between
    keys = len([*copy.store.list()])
    residue = copy.garbage(sys.maxsize)  # whoever wrote it
    url = copy.store.url
    if not url.startswith("s3://"):
        return StoreProof(keys, 0, tuple(residue), _BLIND.format(url))
    history = _S3History(url)
    removed = history.purge()
    # The lease is renewed meanwhile; it names a machine and a time, and no memory.
    left = (found.key for found in history.list() if not found.key.endswith(f"/{LEASE}"))
    return StoreProof(keys, removed, (*residue, *left))


class _S3History:
    """What a bucket keeps below a prefix besides the objects as they are."""

    def __init__(self, url: str):
        import boto3

        self._url = url
        self._bucket, self._prefix = bucket_and_prefix(url)
        # The same place as obstore's: boto3 reads other variables.
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or None
        endpoint = os.environ.get(endpoint_variable(url) or "")
        try:
            self._client: Any = boto3.client("s3", endpoint_url=endpoint, region_name=region)
        except Exception as e:
            raise self._failed(e) from None

    def list(self) -> Iterator[_Leftover]:
        """Yields what is not an object as it is.

        Yields:
            Versions that were replaced, delete markers and unfinished uploads.

        Raises:
            ComponentFailed: the store does not answer, or does not let versions be listed.
        """
        try:
            for page in self._pages("list_object_versions"):
                for found in page.get("Versions", []):
                    if not found["IsLatest"]:
                        yield _Leftover(found["Key"], found["VersionId"])
                for marker in page.get("DeleteMarkers", []):
                    yield _Leftover(marker["Key"], marker["VersionId"], is_marker=True)
            for page in self._pages("list_multipart_uploads"):
                yield from (_Leftover(u["Key"], u["UploadId"], is_upload=True) for u in page.get("Uploads", []))
        except Exception as e:
            raise self._failed(e) from None

    def purge(self) -> int:
        """Removes all of it for good; returns how many there were.

        Raises:
            ComponentFailed: the store does not answer, or refuses.
        """
        found = sorted(self.list(), key=lambda left: left.is_marker)  # without its marker a version would be an object
        versions = [{"Key": left.key, "VersionId": left.id} for left in found if not left.is_upload]
        try:
            for start in range(0, len(versions), _AT_ONCE):
                part = {"Objects": versions[start : start + _AT_ONCE], "Quiet": True}
                refused = self._client.delete_objects(Bucket=self._bucket, Delete=part).get("Errors", [])
                if refused:
                    raise ComponentFailed(f"{self._url}: version of {refused[0].get('Key')}: {refused[0].get('Code')}")
            for left in found:
                if left.is_upload:
                    self._client.abort_multipart_upload(Bucket=self._bucket, Key=left.key, UploadId=left.id)
        except Exception as e:
            raise self._failed(e) from None
        return len(found)

    def _pages(self, call: str) -> Iterator[Mapping[str, Any]]:
        paginator = self._client.get_paginator(call)
        for name in _OURS:
            yield from paginator.paginate(Bucket=self._bucket, Prefix=f"{self._prefix}/{name}")

    def _failed(self, error: Exception) -> ComponentFailed:
        if isinstance(error, ComponentFailed):
            return error
        return ComponentFailed(f"{self._url}: {first_line(error)}; a delete must list and remove versions and uploads")
