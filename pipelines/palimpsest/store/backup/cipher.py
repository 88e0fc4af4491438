"""A stream encrypted by a password: scrypt makes the key, AES-256-GCM seals each block with its number and place.

A block cannot be changed, left out, moved or cut off unnoticed: its number and whether it is the last are sealed with
it, as in the STREAM construction (Hoang, Reyhanitabar, Rogaway and Vizár, 2015). Each file has a random salt and so a
key of its own, which is why numbers may serve as nonces.
"""

import hashlib
import hmac
import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from palimpsest.core.errors import PalimpsestError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PASSWORD_VARIABLE = "PALIMPSEST_BACKUP_PASSWORD"  # noqa: S105 (the name of a variable)
MAGIC = b"palimpsest encrypted backup 1\n"
_BLOCK = 1 << 20
_TAG = 16
_SALT = 16
_CHECK = 16
_PARAMETERS = bytes((17, 8, 1))
"""Of scrypt, log2 of n, r and p: 128 MiB and about half a second for each guess."""


def read_password(file: Path | None, variable: str) -> str | None:
    """Returns the password of a file, else of an environment variable; None where neither gives one.

    Raises:
        PalimpsestError: the file cannot be read or is empty.
    """
    if file is None:
        return os.environ.get(variable) or None
    try:
        password = file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError):
        raise PalimpsestError(f"--password-file {file}: cannot be read; name a text file with the password") from None
    if not password:
        raise PalimpsestError(f"--password-file {file}: is empty; write the password into it")
    return password


class EncryptingWriter:
    """Writes what it gets, encrypted, to a file; `close` writes the last block and leaves the file open."""

    def __init__(self, file: BinaryIO, password: str):
        salt = os.urandom(_SALT)
        self._sealer, check = _derive(password, salt)
        self._header = MAGIC + _PARAMETERS + salt + check
        self._file, self._waiting, self._number = file, bytearray(), 0
        file.write(self._header)

    def write(self, data: bytes) -> int:
        """Takes bytes of any length; returns how many."""
        self._waiting += data
        while len(self._waiting) > _BLOCK:  # the last block is written by `close`, which knows that it is the last
            self._seal(bytes(self._waiting[:_BLOCK]), False)
            del self._waiting[:_BLOCK]
        return len(data)

    def close(self) -> None:
        """Writes the last block."""
        self._seal(bytes(self._waiting), True)

    def _seal(self, block: bytes, is_last: bool) -> None:
        self._file.write(self._sealer.encrypt(_nonce(self._number), block, _bound(self._header, is_last)))
        self._number += 1


class DecryptingReader:
    """Reads what an `EncryptingWriter` wrote.

    Raises:
        PalimpsestError: there is no password, or it is wrong.
    """

    def __init__(self, file: BinaryIO, password: str | None, name: str):
        header = file.read(len(MAGIC) + 3 + _SALT + _CHECK)
        parameters, rest = header[len(MAGIC) :][:3], header[len(MAGIC) + 3 :]
        if len(rest) != _SALT + _CHECK or parameters != _PARAMETERS:
            raise PalimpsestError(f"{name}: damaged or cut off at its start; use another copy of the backup")
        if password is None:
            raise PalimpsestError(f"{name}: encrypted; give its password by {PASSWORD_VARIABLE} or --password-file")
        self._sealer, check = _derive(password, rest[:_SALT])
        if not hmac.compare_digest(check, rest[_SALT:]):
            raise PalimpsestError(f"{name}: wrong password (or the first bytes of the file are damaged)")
        self._file, self._header, self._name = file, header, name
        self._next, self._number, self._ready = file.read(_BLOCK + _TAG), 0, b""

    def read(self, size: int) -> bytes:
        """Returns up to `size` bytes; none at the end.

        Raises:
            PalimpsestError: the file is damaged or cut off.
        """
        while not self._ready and self._number >= 0:
            self._open_block()
        found, self._ready = self._ready[:size], self._ready[size:]
        return found

    def _open_block(self) -> None:
        from cryptography.exceptions import InvalidTag

        block, self._next = self._next, self._file.read(_BLOCK + _TAG)
        is_last = not self._next
        try:
            self._ready = self._sealer.decrypt(_nonce(self._number), block, _bound(self._header, is_last))
        except InvalidTag:
            raise PalimpsestError(f"{self._name}: damaged or cut off; use another copy of the backup") from None
        self._number = -1 if is_last else self._number + 1


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "big")


def _bound(header: bytes, is_last: bool) -> bytes:
    return header + bytes((is_last,))


def _derive(password: str, salt: bytes) -> tuple["AESGCM", bytes]:
    """Returns what seals and opens blocks, and bytes that tell whether a password is the right one."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    log_n, r, p = _PARAMETERS
    key = Scrypt(salt=salt, length=64, n=1 << log_n, r=r, p=p).derive(password.encode())
    return AESGCM(key[:32]), hashlib.blake2b(key[32:], digest_size=_CHECK).digest()
