"""The delete of a home on object storage, and its proof: what a bucket keeps of objects that are gone is removed too.

S3 keeps versions of objects, delete markers and the parts of unfinished uploads. boto3 lists them: obstore cannot.
Of other stores only the objects are listed.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from palimpsest.core.errors import ComponentFailed
from palimpsest.store.remote.copy_state import STATE
from palimpsest.store.remote.lease import HEAD, LEASE, TREES
from palimpsest.store.remote.remote_home import writing_copy
from palimpsest.store.remote.table_store import bucket_and_prefix, endpoint_variable, first_line
from palimpsest.store.remote.tree import OBJECTS

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
