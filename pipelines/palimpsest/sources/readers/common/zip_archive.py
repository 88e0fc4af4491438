"""Zip archives: checked before anything is unpacked."""

import io
import zipfile

from palimpsest.core.errors import Rejected
from palimpsest.store.limits import Limits


def check_archive(data: bytes, limits: Limits) -> list[str]:
    """Returns the names in a zip archive, having checked that unpacking it stays within the limits.

    The sizes are those of its directory; `zipfile` never unpacks more of a member than its directory says, so they
    bound what is expanded even where the directory is false.

    Raises:
        Rejected: corrupt, encrypted or too large.
    """
    try:
        members = zipfile.ZipFile(io.BytesIO(data)).infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        raise Rejected("corrupt archive: the file is cut off or damaged; export it again") from None
    if any(m.flag_bits & 1 for m in members):
        raise Rejected("encrypted archive: it needs a password; save a copy without one")
    size = sum(m.file_size for m in members)
    if size > limits.max_expanded_bytes or len(members) > limits.max_archive_members:
        raise Rejected(
            f"too large: unpacks to {size:,} bytes in {len(members):,} parts, the limits are "
            f"{limits.max_expanded_bytes:,} and {limits.max_archive_members:,}"
        )
    return [m.filename for m in members]
