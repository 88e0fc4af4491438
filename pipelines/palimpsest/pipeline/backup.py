"""Backs a home up into one file, and restores it: checked by the checksum of every file and the digest of its build."""

import datetime as dt
import glob
import hashlib
import os
import re
import secrets
import shutil
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO, cast

from palimpsest.core.environment import whole_number
from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.files import FORMAT, read_format, read_json_object, write_json
from palimpsest.core.ids import JsonObject, JsonRecord
from palimpsest.core.parallel import process_started
from palimpsest.index.index_format import index_format
from palimpsest.pipeline.finish import digest
from palimpsest.pipeline.stages import indexed_tables
from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.store.backup_archive import (
    ARCHIVE_FORMAT,
    HEADER_NAME,
    MAGIC,
    BackupHeader,
    DecryptingReader,
    EncryptingWriter,
    Readable,
    Writable,
    read_archive,
    snapshot,
    write_archive,
)
from palimpsest.store.builds import Build, published
from palimpsest.store.home import Home
from palimpsest.store.remote_home import has_files, replace_files
from palimpsest.store.working_copy import STATE

_ASIDE = "{}.before-restore-{}"


@dataclass(frozen=True)
class BackupResult(JsonRecord):
    """What a backup contains; `bytes` is the size of its file."""

    file: str
    build_id: str
    digest: str
    files: int
    bytes: int
    encrypted: bool
    seconds: float


@dataclass(frozen=True)
class RestoreResult(JsonRecord):
    """What was restored.

    Attributes:
        home: the home.
        build_id: the published build; empty where the backup has none.
        digest: of that build, computed again from the restored tables.
        files: how many.
        bytes: their size in all.
        moved_aside: where the home is that was there before; None where there was none.
        needs_upgrade: whether an earlier version wrote the home, so that it is to be upgraded before it is read.
        seconds: wall time.
    """

    home: str
    build_id: str
    digest: str
    files: int
    bytes: int
    moved_aside: str | None
    needs_upgrade: bool
    seconds: float


def backup_home(home: Home, file: Path, password: str | None = None) -> BackupResult:
    """Writes a consistent copy of a home into one file, beside it first, then in one rename.

    Builds, queries and the inbox go on meanwhile; a delete waits.

    Args:
        home: the home.
        file: where to; a backup that is there is replaced.
        password: encrypts it; None leaves it readable for whoever can read the file.

    Raises:
        PalimpsestError: there is no home, a delete of it was not finished, a file of it is damaged, or the file cannot
            be written.
    """
    started = time.perf_counter()
    _check_target(home, file)
    with snapshot(home) as folder:
        copy = Home(folder)
        build = published(copy)
        sizes = [p.stat().st_size for p in folder.rglob("*") if p.is_file()]
        header = BackupHeader(
            format=ARCHIVE_FORMAT,
            home_format=read_format(folder) or (index_format(build.index) if build else None) or 0,
            version=version("palimpsest-memory"),
            created_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            home=str(home.path.resolve()),
            build_id=build.build_id if build else "",
            digest=build.manifest.digest if build else "",
            files=len(sizes),
            bytes=sum(sizes),
        )
        size = _write(file, header, folder, password)
    seconds = round(time.perf_counter() - started, 3)
    return BackupResult(str(file), header.build_id, header.digest, header.files, size, password is not None, seconds)


def _check_target(home: Home, file: Path) -> None:
    if file.is_dir():
        raise PalimpsestError(f"{file}: is a folder; name a file in it, or add --keep N for dated backups there")
    if file.resolve().is_relative_to(home.path.resolve()):
        raise PalimpsestError(f"{file}: inside the home, which may be lost with it; name a file elsewhere")
    if file.exists() and not is_backup(file):
        raise PalimpsestError(f"{file}: exists and is no backup; name another file")


def is_backup(file: Path) -> bool:
    """Returns whether a file begins as backups do, or is empty."""
    if not file.is_file():
        return False
    with file.open("rb") as f:
        start = f.read(max(len(MAGIC), len(HEADER_NAME)))
    return start.startswith(MAGIC) or start.startswith(HEADER_NAME.encode()) or not start


def _write(file: Path, header: BackupHeader, folder: Path, password: str | None) -> int:
    aside = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            encrypting = None if password is None else EncryptingWriter(cast(BinaryIO, out), password)
            write_archive(cast(Writable, encrypting or out), header, folder)
            if encrypting:
                encrypting.close()
            out.flush()
            os.fsync(out.fileno())
        aside.replace(file)
    except OSError as e:
        raise ComponentFailed(f"{file}: cannot be written ({e.strerror}); name another file") from None
    finally:
        aside.unlink(missing_ok=True)
    return file.stat().st_size


def restore_home(file: Path, home: Home, password: str | None = None, force: bool = False) -> RestoreResult:
    """Restores a home from a backup: beside it first, then in one rename, once everything was checked.

    Args:
        file: what `backup_home` wrote.
        home: where to; must not exist or be empty.
        password: of an encrypted backup.
        force: move a home that is there aside, where it stays.

    Raises:
        PalimpsestError: the file is no backup, is damaged, encrypted with another password or of a newer version, or
            the home is not empty. Nothing is left behind.
    """
    started, target = time.perf_counter(), home.path.absolute()
    is_copy = (target / STATE).exists()
    _check_empty(home, force)
    home.check_place()
    aside = target.with_name(f".{target.name}.restore-{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_restores(target)
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(mode=0o700)
    except OSError as e:
        raise PalimpsestError(f"home {home.path}: {e.strerror}; name another --home") from None
    try:
        header = _read(file, aside, password)
        found = _check_restored(Home(aside), header, str(file))
        _move_sources(Home(aside), header.home, target)
        Home(aside).create()
        os.sync()
        moved = _replace_copy(home, aside, force) if is_copy else _replace_folder(home, aside, force)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return RestoreResult(
        home=str(home.path),
        build_id=header.build_id,
        digest=found,
        files=header.files,
        bytes=header.bytes,
        moved_aside=moved,
        needs_upgrade=bool(header.build_id) and header.home_format < FORMAT,
        seconds=round(time.perf_counter() - started, 3),
    )


def remove_restores(home: Path) -> None:
    """Removes what restores of a home left beside it whose processes were killed."""
    for folder in home.absolute().parent.glob(f".{glob.escape(home.name)}.restore-*"):
        process = folder.name.rpartition("-")[2]
        if process.isdigit() and process_started(int(process)) is None:
            shutil.rmtree(folder, ignore_errors=True)


def _read(file: Path, folder: Path, password: str | None) -> BackupHeader:
    try:
        with file.open("rb") as stream:
            start = stream.read(len(MAGIC))
            stream.seek(0)
            source: Readable = stream
            if start == MAGIC:
                source = DecryptingReader(stream, password, str(file))
            return read_archive(source, folder, str(file))
    except OSError as e:
        raise PalimpsestError(f"{file}: {e.strerror}; name a file that palimpsest backup wrote") from None


def _check_restored(home: Home, header: BackupHeader, name: str) -> str:
    """Returns the digest of the restored build, computed from its tables; its index is opened too.

    Raises:
        PalimpsestError: the digest is another than when it was backed up, or a newer version wrote the home.
    """
    if header.home_format > FORMAT:
        raise PalimpsestError(
            f"{name}: of a home that a newer version of Palimpsest wrote (format {header.home_format}, this version "
            f"knows {FORMAT}); restore it with that version"
        )
    if not header.build_id:
        return ""
    if header.home_format < FORMAT:
        return header.digest  # tables of an earlier version are not read by this one's rules; checksums were compared
    build: Build | None = published(home)
    if build is None or (now := digest(build.tables(indexed_tables()))) != header.digest:
        raise PalimpsestError(f"{name}: its tables are not those of build {header.build_id}; use another backup")
    DuckDBBackend(build.index).close()
    return now


def _move_sources(home: Home, before: str, target: Path) -> None:
    """Changes the folders of collections that lie inside the home, such as the inbox's own, to where it is now."""
    old = Path(before)
    moved = {n: target / f.relative_to(old) if f.is_relative_to(old) else f for n, f in home.sources.items()}
    if moved != home.sources:
        home.write_sources(moved)


def _check_empty(home: Home, force: bool) -> None:
    """Checks that nothing is replaced that is to stay.

    Raises:
        PalimpsestError: the home has files.
    """
    path = home.path
    is_used = has_files(path) if (path / STATE).exists() else path.is_dir() and any(path.iterdir())
    if is_used and not force:
        raise PalimpsestError(
            f"home {path}: not empty; name another --home, or --force moves what is there aside and keeps it"
        )


def _replace_folder(home: Home, aside: Path, force: bool) -> str | None:
    target, kept = home.path.absolute(), None
    if force and target.exists() and any(target.iterdir()):
        with home.lock():
            kept = _free_name(target)
            target.rename(kept)
    aside.rename(target)
    return None if kept is None else str(kept)


def _replace_copy(home: Home, aside: Path, force: bool) -> str | None:
    """Moves a restored home into the copy of one on object storage; the end of the lock writes it there."""
    with home.lock():
        _check_empty(home, force)  # another machine may have written it meanwhile
        kept = _free_name(home.path.absolute())
        return str(kept) if replace_files(home.path.absolute(), aside, kept) else None


def _free_name(target: Path) -> Path:
    number = 1
    while (kept := target.with_name(_ASIDE.format(target.name, number))).exists():
        number += 1
    return kept


# Dated backups of a home in one folder, of which the newest are kept.

FOLDER_VARIABLE, KEPT_VARIABLE = "PALIMPSEST_BACKUP_FOLDER", "PALIMPSEST_BACKUPS_KEPT"
_ID_FILE = "backup-series.json"
_STAMP = "%Y%m%dT%H%M%S%fZ"


@dataclass(frozen=True)
class SeriesResult:
    """The new backup, and the files of older ones that were removed, oldest first."""

    backup: BackupResult
    removed: tuple[str, ...]

    def to_json(self) -> JsonObject:
        """Returns the JSON that `backup --keep --json` prints."""
        return {**self.backup.to_json(), "removed": list(self.removed)}


def series_from_environment() -> tuple[Path, int] | None:
    """Returns the folder of the nightly backups and how many are kept; None where no folder is set.

    Raises:
        PalimpsestError: the number cannot be used.
    """
    folder = os.environ.get(FOLDER_VARIABLE, "").strip()
    kept = whole_number(KEPT_VARIABLE)
    return (Path(folder), kept) if folder else None


def backup_dated(
    home: Home, folder: Path, keep: int, password: str | None = None, now: dt.datetime | None = None
) -> SeriesResult:
    """Writes a backup with the time in its name, then removes the oldest of the home beyond those to keep.

    Nothing is removed before the new one is whole. Backups of other homes, and files of other names, stay.

    Args:
        home: the home.
        folder: where to; made where it is not there.
        keep: how many backups of this home stay, the new one included.
        password: encrypts it.
        now: the time in its name.

    Raises:
        PalimpsestError: as of `backup_home`, or the folder is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise PalimpsestError(f"{folder}: not a folder; with --keep name the folder of the backups")
    if read_format(home.path) is None:
        raise PalimpsestError(f"home {home.path}: there is none; name one that palimpsest build made with --home")
    stamp = (now or dt.datetime.now(dt.UTC)).strftime(_STAMP)
    name = _series_name(home)
    done = backup_home(home, folder / f"{name}-{stamp}.backup", password)
    old = [p for p in _series(folder, name) if p != Path(done.file)]
    removed = old[: max(0, len(old) - (keep - 1))]
    for path in removed:
        path.unlink()
    return SeriesResult(done, tuple(map(str, removed)))


def _series_name(home: Home) -> str:
    """Returns the beginning of the names: two homes of one name, or at one path of two machines, have series each.

    A home has an id from its first dated backup on; a copy of it elsewhere has another path.
    """
    path, file = home.path.resolve(), home.path / _ID_FILE
    if not file.is_file() and path.is_dir():
        write_json(file, {"series": secrets.token_hex(8)})
    stored = read_json_object(file, "remove it") or {}
    name = os.fsencode(path) + str(stored.get("series", "")).encode()
    digest = hashlib.blake2b(name, digest_size=4).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', path.name).strip('-') or 'home'}-{digest}"


def _series(folder: Path, name: str) -> list[Path]:
    """Returns the backups of a series, oldest first: their names have their times."""
    pattern = re.compile(rf"{re.escape(name)}-\d{{8}}T\d{{12}}Z\.backup")
    found = (p for p in folder.iterdir() if pattern.fullmatch(p.name) and not p.is_symlink())
    return sorted(p for p in found if is_backup(p))
