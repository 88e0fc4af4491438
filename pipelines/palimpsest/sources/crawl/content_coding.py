"""Unpacks what a server packed, up to a limit: a small response may unpack to more than fits in memory."""

import zlib

_GZIP, _DEFLATE = ("gzip", "x-gzip"), ("deflate",)
_ANY_HEADER = 32 + zlib.MAX_WBITS
GZIP_MARK = b"\x1f\x8b"


class TooLarge(Exception):
    """What was received or unpacked is larger than the limit."""


class BadCoding(Exception):
    """What was received is not packed as the server says, or by a method that is not known."""


class Unpacker:
    """Collects the parts of a body, unpacked, up to a number of bytes."""

    def __init__(self, coding: str, max_bytes: int) -> None:
        """Makes it.

        Args:
            coding: the header `Content-Encoding`.
            max_bytes: of the unpacked body.

        Raises:
            BadCoding: the method is not known.
        """
        name = coding.strip().lower()
        if name not in ("", "identity", *_GZIP, *_DEFLATE):
            raise BadCoding(f"packed by {name[:40]!r}, which was not requested")
        self._unpack = zlib.decompressobj(_ANY_HEADER) if name in (*_GZIP, *_DEFLATE) else None
        self._body = bytearray()
        self._max_bytes = max_bytes

    def add(self, part: bytes) -> None:
        """Adds a part as it was received.

        Raises:
            TooLarge: the body is larger than the limit.
            BadCoding: it is not packed as the server says.
        """
        if self._unpack is None:
            self._body += part
        else:
            try:
                self._body += self._unpack.decompress(part, self._max_bytes + 1 - len(self._body))
            except zlib.error:
                raise BadCoding("not packed as the server says") from None
            if self._unpack.unused_data:
                raise BadCoding("followed by other data than the server says")
        if len(self._body) > self._max_bytes or (self._unpack is not None and self._unpack.unconsumed_tail):
            raise TooLarge(f"larger than {self._max_bytes:,} bytes")

    def body(self) -> bytes:
        """Returns the whole body.

        Raises:
            BadCoding: its end is missing.
        """
        if self._unpack is not None and self._body and not self._unpack.eof:
            raise BadCoding("its end is missing")
        return bytes(self._body)


def unpack_gzip(data: bytes, max_bytes: int) -> bytes:
    """Returns the content of a gzip file.

    Raises:
        TooLarge: it is larger than the limit.
        BadCoding: it is none.
    """
    unpacker = Unpacker("gzip", max_bytes)
    unpacker.add(data)
    return unpacker.body()
