"""Dated backups of a home in one folder, of which the newest are kept."""

import datetime as dt
import hashlib
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from palimpsest.build.backup import BackupResult, backup_home, is_backup
from palimpsest.core.environment import whole_number
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import read_json_object, write_json
from palimpsest.core.home_format import read_format
from palimpsest.core.json_types import JsonObject
from palimpsest.store.home import Home

FOLDER_VARIABLE, KEPT_VARIABLE = "PALIMPSEST_BACKUP_FOLDER", "PALIMPSEST_BACKUPS_KEPT"
DEFAULT_KEPT, MAX_KEPT = 7, 10_000
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
    kept = whole_number(KEPT_VARIABLE, DEFAULT_KEPT, 1, MAX_KEPT)
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
