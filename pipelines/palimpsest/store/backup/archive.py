"""The archive of a backup: a tar stream of regular files, what it is of first, sizes and checksums last."""

import hashlib
import json
import os
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.json_types import JsonObject
from palimpsest.store.backup.checked_stream import (
    DIGEST_NAME,
    CheckedReader,
    CheckedWriter,
    Readable,
    Writable,
    member_header,
    padding,
)

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
