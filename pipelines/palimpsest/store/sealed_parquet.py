"""Parquet files that contain the checksum of their own bytes, so that a flipped bit is found wherever it is.

The checksum is in the metadata at the end of the file and is counted as zeros. It is written with what it is of, in
one rename: a list of checksums elsewhere would be wrong after a kill between two writes. Files that an earlier version
wrote have none; of them only what Parquet itself notices is found.
"""

import hashlib
import io
import os
from pathlib import Path
from typing import BinaryIO

import polars as pl

from palimpsest.core.errors import DamagedFile

_MARK = b"blake2b:"
_UNKNOWN = b"0" * 32
_DIGEST_BYTES = 16
_TAIL_BYTES = _BLOCK_BYTES = 1 << 20


def write_sealed(
    frame: pl.DataFrame,
    path: Path,
    compression: str = "zstd",
    level: int | None = None,
    row_group_rows: int | None = None,
) -> None:
    """Writes a frame with its checksum, aside first, then in one rename."""
    buffer = io.BytesIO()
    frame.write_parquet(
        buffer,
        compression=compression,  # type: ignore[arg-type]
        compression_level=level,
        row_group_size=row_group_rows,
        metadata={"checksum": (_MARK + _UNKNOWN).decode()},
    )
    # Vectors of a million texts are 1.5 GB: no copy is made of them.
    data = buffer.getbuffer()
    place = _place_of_checksum(bytes(data[-_TAIL_BYTES:]), len(data))
    assert place is not None
    data[place : place + len(_UNKNOWN)] = hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest().encode()
    aside = path.with_name(f".{path.name}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    aside.write_bytes(data)
    aside.replace(path)


def read_sealed(path: Path, fix: str) -> pl.DataFrame:
    """Returns the frame of a file whose checksum is right; a file of an earlier version has none.

    Raises:
        DamagedFile: the file is missing or damaged; `fix` is part of the message.
        PermissionError: this user may not read it.
    """
    check_sealed(path, fix)
    try:
        return pl.read_parquet(path, glob=False)
    except PermissionError:
        raise  # it is not damaged
    except (OSError, pl.exceptions.PolarsError):
        raise DamagedFile(path, fix) from None


def check_sealed(path: Path, fix: str) -> None:
    """Checks that a file is there and its checksum right, where it has one.

    Raises:
        DamagedFile: as in `read_sealed`.
        PermissionError: this user may not read it.
    """
    try:
        is_right = _has_right_checksum(path)
    except PermissionError:
        raise  # it is not damaged
    except OSError:
        is_right = False
    if is_right is False:
        raise DamagedFile(path, fix)


def is_damaged(path: Path, after_ns: int = 0) -> bool:
    """Returns whether a file is missing, cut off or changed; it is read where it was changed after `after_ns`.

    Raises:
        PermissionError: this user may not read it.
    """
    try:
        if path.stat().st_mtime_ns <= after_ns:
            return False
        is_right = _has_right_checksum(path)
        if is_right is None:
            pl.read_parquet(path, glob=False)
    except PermissionError:
        raise  # it is not damaged
    except (OSError, pl.exceptions.PolarsError):
        return True
    return is_right is False


def _has_right_checksum(path: Path) -> bool | None:
    """Returns None for a file without one: of an earlier version, or so damaged that Parquet notices."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        place = _place_of_checksum(file.read(), size)
        if place is None:
            return None
        digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        file.seek(0)
        _add(digest, file, place)
        found = file.read(len(_UNKNOWN))
        digest.update(_UNKNOWN)
        _add(digest, file, size)
    return digest.hexdigest().encode() == found


def _place_of_checksum(tail: bytes, size: int) -> int | None:
    """Returns where the checksum begins in a file of `size` bytes that ends with `tail`."""
    place = tail.rfind(_MARK)
    return None if place < 0 else size - len(tail) + place + len(_MARK)


def _add(digest: "hashlib.blake2b", file: BinaryIO, count: int) -> None:
    """Adds the next bytes of a file to a digest, `count` of them or as many as there are."""
    while block := file.read(min(_BLOCK_BYTES, count)):
        digest.update(block)
        count -= len(block)
