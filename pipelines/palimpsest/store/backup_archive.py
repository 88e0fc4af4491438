"""The archive of a backup: a tar stream whose end is its digest, encrypted where a password is set."""

import hashlib
import hmac
import json
import os
import shutil
import sqlite3
import tarfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Protocol, cast

from filelock import FileLock, Timeout

from palimpsest.core.errors import DamagedFile, PalimpsestError
from palimpsest.core.files import link, write_pointer
from palimpsest.core.ids import JsonObject
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM


# A stream that ends with the digest of all that comes before: neither a flipped bit nor a lost end goes unnoticed.
#
# The end is a member of a tar archive and the archive's own end, so that `tar` reads such a stream as any other. It has
# a fixed length, and a reader compares every byte of it.

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


HEADER_NAME = "palimpsest-backup.json"
CHECKSUMS_NAME = "palimpsest-checksums.json"
ARCHIVE_FORMAT = 1
_READ_BYTES = 1 << 20
_MAX_JSON_BYTES = 1 << 28
_OTHER_FILE = "is no backup of Palimpsest; name a file that palimpsest backup wrote"
_DAMAGED = "damaged or cut off; use another copy of the backup"


@dataclass(frozen=True)
class BackupHeader:
    """What a backup is of.

    Attributes:
        format: of the archive.
        home_format: of the home.
        version: of the Palimpsest that wrote it.
        created_at: ISO 8601, UTC.
        home: folder of the home when it was backed up.
        build_id: the published build; empty where nothing was published.
        digest: of that build.
        files: how many.
        bytes: their size in all.
    """

    format: int
    home_format: int
    version: str
    created_at: str
    home: str
    build_id: str
    digest: str
    files: int
    bytes: int


@dataclass(frozen=True)
class FileSum:
    """Size, checksum and time of change of one file."""

    size: int
    blake2b: str
    mtime_ns: int


def write_archive(target: Writable, header: BackupHeader, folder: Path) -> dict[str, FileSum]:
    """Writes the files below a folder as an archive; returns the checksum of each by its name."""
    out = CheckedWriter(target)
    _write_json(out, HEADER_NAME, asdict(header))
    sums = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        sums[name] = _write_file(out, path, name)
    _write_json(out, CHECKSUMS_NAME, {n: [s.size, s.blake2b, s.mtime_ns] for n, s in sums.items()})
    out.close()
    return sums


def _write_file(out: CheckedWriter, path: Path, name: str) -> FileSum:
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        stat = os.fstat(file.fileno())
        out.write(member_header(name, stat.st_size, int(stat.st_mtime)))
        left = stat.st_size
        while left:
            data = file.read(min(left, _READ_BYTES))
            if not data:
                raise PalimpsestError(f"{path}: became shorter while it was backed up; run palimpsest backup again")
            digest.update(data)
            out.write(data)
            left -= len(data)
        out.write(padding(stat.st_size))
    return FileSum(stat.st_size, digest.hexdigest(), stat.st_mtime_ns)


def _write_json(out: CheckedWriter, name: str, value: Mapping[str, object]) -> None:
    data = (json.dumps(value, sort_keys=True) + "\n").encode()
    out.write(member_header(name, len(data)) + data + padding(len(data)))


def read_archive(source: Readable, folder: Path, name: str) -> BackupHeader:
    """Extracts an archive into an empty folder; every file is checked, and so is the archive as a whole.

    Args:
        source: the archive.
        folder: where its files go; nothing is written outside of it, and what is in it counts only if this returns.
        name: of the backup, for messages.

    Raises:
        PalimpsestError: it is no backup, is damaged, is of a newer version, contains anything but regular files inside
            the folder, or does not fit on the disk.
    """
    checked = CheckedReader(source, name)
    try:
        with tarfile.open(fileobj=cast(IO[bytes], checked), mode="r|") as archive:
            header, found, listed = _extract(archive, folder, name)
        checked.finish()
    except (tarfile.TarError, EOFError, UnicodeError):
        raise PalimpsestError(f"{name}: {_DAMAGED}") from None
    if listed is None or {n: (s.size, s.blake2b) for n, s in found.items()} != {
        n: (s.size, s.blake2b) for n, s in listed.items()
    }:
        raise PalimpsestError(f"{name}: {_DAMAGED}")
    for member, file_sum in listed.items():
        os.utime(folder / member, ns=(file_sum.mtime_ns, file_sum.mtime_ns))
    return header


def _extract(
    archive: tarfile.TarFile, folder: Path, name: str
) -> tuple[BackupHeader, dict[str, FileSum], dict[str, FileSum] | None]:
    header: BackupHeader | None = None
    found: dict[str, FileSum] = {}
    listed: dict[str, FileSum] | None = None
    for member in archive:
        file = archive.extractfile(member) if member.isreg() else None
        if header is None:
            if member.name != HEADER_NAME or file is None:
                raise PalimpsestError(f"{name}: {_OTHER_FILE}")
            header = _read_header(file, folder, name)
        elif file is not None and member.name == CHECKSUMS_NAME:
            listed = {n: FileSum(*cast(Any, values)) for n, values in _read_json(file, name).items()}
        elif member.name != DIGEST_NAME:
            if file is None or member.name in found or not _is_inside(member.name):
                raise PalimpsestError(f"{name}: {member.name[:80]!r} is no file of a home; nothing is restored")
            found[member.name] = _extract_file(file, folder / member.name)
    if header is None:
        raise PalimpsestError(f"{name}: {_OTHER_FILE}")
    return header, found, listed


def _is_inside(name: str) -> bool:
    """Returns whether a name is a plain relative path, as backups have them."""
    path = PurePosixPath(name)
    return (
        bool(name)
        and not path.is_absolute()
        and path.as_posix() == name
        and not {"..", "."} & set(path.parts)
        and ("\\" not in name and "\0" not in name)
    )


def _extract_file(file: IO[bytes], path: Path) -> FileSum:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest, size = hashlib.blake2b(digest_size=16), 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        while data := file.read(_READ_BYTES):
            digest.update(data)
            out.write(data)
            size += len(data)
    return FileSum(size, digest.hexdigest(), 0)


def _read_header(file: IO[bytes], folder: Path, name: str) -> BackupHeader:
    found = _read_json(file, name)
    written = found.get("format")
    if not isinstance(written, int) or written > ARCHIVE_FORMAT:
        raise PalimpsestError(f"{name}: written by a newer version of Palimpsest; restore it with that version")
    try:
        header = BackupHeader(**cast(Any, found))
    except TypeError:
        raise PalimpsestError(f"{name}: {_DAMAGED}") from None
    if header.bytes > (free := shutil.disk_usage(folder).free):
        raise PalimpsestError(
            f"{folder.parent}: {free >> 20:,} MiB free, the home has {header.bytes >> 20:,} MiB; free space or name "
            "another --home"
        )
    return header


def _read_json(file: IO[bytes], name: str) -> JsonObject:
    try:
        found = json.loads(file.read(_MAX_JSON_BYTES))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise PalimpsestError(f"{name}: {_DAMAGED}")
    return found


# A stream encrypted by a password: scrypt makes the key, AES-256-GCM seals each block with its number and place.
#
# A block cannot be changed, left out, moved or cut off unnoticed: its number and whether it is the last are sealed with
# it, as in the STREAM construction (Hoang, Reyhanitabar, Rogaway and Vizár, 2015). Each file has a random salt and so a
# key of its own, which is why numbers may serve as nonces.

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


# A consistent copy of the files of a home, made while builds, queries and the inbox go on.
#
# Files that are only ever replaced whole are hard-linked; what is appended to is copied up to its last whole line;
# SQLite copies itself. A build that runs meanwhile can only have gone on from what is taken here, as after a kill. A
# delete may not run: it and a snapshot exclude each other, so that nothing deleted comes back with a backup.

PENDING_DELETES = "pending-delete-*.json"
_FOLDER = ".backup"
_LOCK = ".backup.lock"
_WAIT_S = 600.0
_ATTEMPTS = 20
_PAUSE_S = 0.1
_OWN_WAY = ("builds", "dagster", "embeddings", "log")
_APPENDED = ("decisions.jsonl", "usage/reads.jsonl")
_LOG_FIX = "run palimpsest build, which reads it again where its source is still there, then back up"


@contextmanager
def exclude_snapshots(home: Home, wait_s: float = _WAIT_S) -> Iterator[None]:
    """Keeps a snapshot and a delete of one home apart, and removes what a snapshot that was stopped left.

    Raises:
        PalimpsestError: the other is still running.
    """
    lock = FileLock(home.path / _LOCK, thread_local=False, is_singleton=True)
    try:
        lock.acquire(timeout=wait_s)
    except Timeout:
        raise PalimpsestError(
            f"home {home.path}: a backup or a delete of it is running; wait for it and run again"
        ) from None
    try:
        shutil.rmtree(home.path / _FOLDER, ignore_errors=True)
        yield
    finally:
        lock.release()


@contextmanager
def snapshot(home: Home) -> Iterator[Path]:
    """Yields a folder inside the home with a consistent copy of its files; it is removed afterwards.

    Left out: builds other than the published one and Dagster's run history.

    Raises:
        PalimpsestError: there is no home, or a delete was begun and not finished.
        DamagedFile: the log lacks a text that it names.
    """
    if not (home.path / "home.json").is_file():
        raise PalimpsestError(f"home {home.path}: there is none; name one that palimpsest build made with --home")
    with exclude_snapshots(home):
        if any(home.path.glob(PENDING_DELETES)):
            raise PalimpsestError(
                f"home {home.path}: a delete was begun and not finished; run the same palimpsest delete again, then "
                "back up"
            )
        folder = home.path / _FOLDER
        try:
            _take(home, folder)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _take(home: Home, folder: Path) -> None:
    """Copies everything; begins again where a build removed something between listing and linking.

    Raises:
        DamagedFile: a file that another names is missing, and stays so.
    """
    for attempt in range(_ATTEMPTS):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        try:
            _link_build(home, folder)
            for log in sorted(p for p in home.log.glob("*") if p.is_dir()):
                _link_log(log, folder / "log" / log.name)
            _link_files(home.embeddings, folder / "embeddings")
            _copy_rest(home, folder)
            return
        except FileNotFoundError as e:
            if attempt == _ATTEMPTS - 1:
                raise DamagedFile(Path(e.filename or home.path), _LOG_FIX) from None
            time.sleep(_PAUSE_S)


def _link_build(home: Home, folder: Path) -> None:
    if (build := published(home)) is not None:
        _link_files(build.path, folder / "builds" / build.build_id)
        # The pointer names the build that was linked, whichever is published by now.
        write_pointer(folder, build.build_id)


def _link_log(log: Path, target: Path) -> None:
    """Links one collection's log: its versions, then the texts that these versions name."""
    for path in sorted(p for p in log.iterdir() if p.is_file() and not p.name.startswith(".")):
        link(path, target / path.name)
    taken = IngestLog(target)
    for key in taken.versions()["text_key"].drop_nulls().unique().sort():
        path = IngestLog(log).text_path(key)
        link(path, target / "texts" / path.name)


def _link_files(source: Path, target: Path) -> None:
    for path in _files(source):
        link(path, target / path.relative_to(source))


def _copy_rest(home: Home, folder: Path) -> None:
    for path in _files(home.path):
        name = path.relative_to(home.path)
        if name.parts[0] in _OWN_WAY or name.name == "published.json" or path.name.startswith(home.lm_ledger.name):
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name.as_posix() in _APPENDED:
            data = path.read_bytes()
            target.write_bytes(data[: data.rfind(b"\n") + 1])
        else:
            shutil.copy2(path, target)
    if home.lm_ledger.exists():
        with (
            closing(sqlite3.connect(home.lm_ledger)) as source,
            closing(sqlite3.connect(folder / home.lm_ledger.name)) as to,
        ):
            source.backup(to)


def _files(folder: Path) -> Iterator[Path]:
    """Yields the files below a folder, sorted, without locks and what is being written: names that begin with a dot."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not hidden and path.is_file() and not path.is_symlink():
            yield path
