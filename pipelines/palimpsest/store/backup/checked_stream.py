"""A stream that ends with the digest of all that comes before: neither a flipped bit nor a lost end goes unnoticed.

The end is a member of a tar archive and the archive's own end, so that `tar` reads such a stream as any other. It has
a fixed length, and a reader compares every byte of it.
"""

import hashlib
import tarfile
from typing import BinaryIO, Protocol

from palimpsest.core.errors import PalimpsestError

DIGEST_NAME = "palimpsest-digest"
BLOCK = 512  # of a tar archive
_END_BYTES = 4 * BLOCK  # header and text of the member, and the two empty blocks that end an archive


class Readable(Protocol):
    """What can be read to its end."""

    def read(self, size: int, /) -> bytes:
        """Returns up to `size` bytes; none at the end."""


class Writable(Protocol):
    """What takes bytes."""

    def write(self, data: bytes, /) -> int:
        """Takes all of the bytes; returns how many."""


class CheckedWriter:
    """Writes bytes on and hashes them; `close` writes the end."""

    def __init__(self, target: Writable | BinaryIO):
        self._target, self._hash = target, hashlib.blake2b(digest_size=32)

    def write(self, data: bytes) -> int:
        """Writes bytes; returns how many."""
        self._hash.update(data)
        self._target.write(data)
        return len(data)

    def close(self) -> None:
        """Writes the digest and the end of the archive."""
        self._target.write(_end(self._hash.hexdigest()))


class CheckedReader:
    """Reads what a `CheckedWriter` wrote; what was read counts only once `finish` found that the digest is right."""

    def __init__(self, source: Readable, name: str):
        self._source, self._name = source, name
        self._hash = hashlib.blake2b(digest_size=32)
        self._held = bytearray()
        self._at_end = False

    def read(self, size: int) -> bytes:
        """Returns up to `size` bytes; none after the end of the archive.

        Raises:
            PalimpsestError: the digest is another than that of what was read.
        """
        while not self._at_end and len(self._held) < size + _END_BYTES:
            if more := self._source.read(1 << 20):
                self._held += more
            else:
                self._at_end = True
                self._check()
        length = min(size, len(self._held) if self._at_end else len(self._held) - _END_BYTES)
        found = bytes(self._held[:length])
        del self._held[:length]
        if not self._at_end:
            self._hash.update(found)
        return found

    def finish(self) -> None:
        """Reads to the end, so that everything was checked.

        Raises:
            PalimpsestError: the digest is another than that of what was read.
        """
        while self.read(1 << 20):
            pass

    def _check(self) -> None:
        self._hash.update(self._held[:-_END_BYTES])
        if bytes(self._held[-_END_BYTES:]) != _end(self._hash.hexdigest()):
            raise PalimpsestError(f"{self._name}: damaged or cut off; use another copy of the backup")


def member_header(name: str, size: int, mtime: int = 0) -> bytes:
    """Returns the header of a file in a tar archive, readable by its owner only."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, mtime, 0o600
    return info.tobuf(tarfile.PAX_FORMAT)


def padding(size: int) -> bytes:
    """Returns what fills the last block of a file in a tar archive."""
    return b"\0" * (-size % BLOCK)


def _end(digest: str) -> bytes:
    text = f"{digest}\n".encode()
    return member_header(DIGEST_NAME, len(text)) + text + padding(len(text)) + b"\0" * (2 * BLOCK)
