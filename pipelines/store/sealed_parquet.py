"""Parquet files that contain the checksum of their own bytes, so that a flipped bit is found wherever it is.

The checksum is in the metadata at the end of the file and is counted as zeros. It is written with what it is of, in
one rename: a list of checksums elsewhere would be wrong after a kill between two writes. Files that an earlier version
wrote have none; of them only what Parquet itself notices is found.
"""

import hashlib
import io
from pathlib import Path

import polars as pl

from palimpsest.core.errors import DamagedFile

_MARK = b"blake2b:"
_UNKNOWN = b"0" * 32
_TAIL_BYTES = 1 << 20


def write_sealed(frame: pl.DataFrame, path: Path, compression: str = "zstd", level: int | None = None) -> None:
    """Writes a frame with its checksum, aside first, then in one rename."""
    buffer = io.BytesIO()
    frame.write_parquet(
        buffer,
        compression=compression,  # type: ignore[arg-type]
        compression_level=level,
        metadata={"checksum": (_MARK + _UNKNOWN).decode()},
    )
    data = bytearray(buffer.getvalue())
    place = data.rfind(_MARK + _UNKNOWN) + len(_MARK)
    data[place : place + len(_UNKNOWN)] = _checksum(data)
    aside = path.with_name(f".{path.name}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    aside.write_bytes(data)
    aside.replace(path)


def read_sealed(path: Path, fix: str) -> pl.DataFrame:
    """Returns the frame of a file whose checksum is right; a file of an earlier version has none.

    Raises:
        DamagedFile: the file is missing or damaged; `fix` is part of the message.
    """
    try:
        data = path.read_bytes()
        if not _is_whole(data):
            raise DamagedFile(path, fix)
        return pl.read_parquet(io.BytesIO(data))
    except (OSError, pl.exceptions.PolarsError):
        raise DamagedFile(path, fix) from None


def is_damaged(path: Path, after_ns: int = 0) -> bool:
    """Returns whether a file is missing, cut off or changed; it is read where it was changed after `after_ns`."""
    try:
        if path.stat().st_mtime_ns <= after_ns:
            return False
        data = path.read_bytes()
        if not _is_whole(data):
            return True
        if _MARK not in data[-_TAIL_BYTES:]:
            pl.read_parquet(io.BytesIO(data))
    except (OSError, pl.exceptions.PolarsError):
        return True
    return False


def _is_whole(data: bytes) -> bool:
    tail = data[-_TAIL_BYTES:]
    place = tail.rfind(_MARK)
    if place < 0:
        return True  # of an earlier version, or so damaged that Parquet notices
    place += len(data) - len(tail) + len(_MARK)
    found = data[place : place + len(_UNKNOWN)]
    return _checksum(data[:place] + _UNKNOWN + data[place + len(_UNKNOWN) :]) == found


def _checksum(data: bytes | bytearray) -> bytes:
    return hashlib.blake2b(data, digest_size=16).hexdigest().encode()
