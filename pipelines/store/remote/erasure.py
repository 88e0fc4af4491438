"""The delete of a home on object storage, and its proof: what a bucket keeps of objects that are gone is removed too.

S3 keeps versions of objects, delete markers and the parts of unfinished uploads. boto3 lists them: obstore cannot.
Of other stores only the objects are listed.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from palimpsest.core.errors import ComponentFailed
from palimpsest.store.remote.remote_home import writing_copy
from palimpsest.store.remote.table_store import first_line

_AT_ONCE = 1000  # keys of one request
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
    is_upload: bool


def erase_from_store(folder: Path) -> StoreProof | None:
    """Writes a copy from which something was deleted, and removes all that the store keeps of what was before.

    Returns:
        The proof; None for a home that is a folder only.

    Raises:
        ComponentFailed: the store does not answer, or another builder took the lease.
    """
    if (writing := writing_copy(folder)) is None:
        return None
    copy, lease = writing
    copy.push(lease)
    copy.store.delete(copy.garbage(lease.fence))  # where the push before ended in between
    keys = len([*copy.store.list()])
    residue = copy.garbage(sys.maxsize)  # whoever wrote it
    url = copy.store.url
    if not url.startswith("s3://"):
        return StoreProof(keys, 0, tuple(residue), _BLIND.format(url))
    history = _S3History(url)
    removed = history.purge()
    return StoreProof(keys, removed, (*residue, *(left.key for left in history.list())))


class _S3History:
    """What a bucket keeps below a prefix besides the objects as they are."""

    def __init__(self, url: str):
        import boto3

        self._url = url
        self._bucket, _, prefix = url.removeprefix("s3://").partition("/")
        self._prefix = f"{prefix}/"
        self._client: Any = boto3.client("s3")

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
                        yield _Leftover(found["Key"], found["VersionId"], False)
                yield from (_Leftover(m["Key"], m["VersionId"], False) for m in page.get("DeleteMarkers", []))
            for page in self._pages("list_multipart_uploads"):
                yield from (_Leftover(u["Key"], u["UploadId"], True) for u in page.get("Uploads", []))
        except Exception as e:
            raise self._failed(e) from None

    def purge(self) -> int:
        """Removes all of it for good; returns how many there were.

        Raises:
            ComponentFailed: the store does not answer, or refuses.
        """
        found = [*self.list()]
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
        yield from self._client.get_paginator(call).paginate(Bucket=self._bucket, Prefix=self._prefix)

    def _failed(self, error: Exception) -> ComponentFailed:
        if isinstance(error, ComponentFailed):
            return error
        return ComponentFailed(f"{self._url}: {first_line(error)}; a delete must list and remove versions and uploads")
