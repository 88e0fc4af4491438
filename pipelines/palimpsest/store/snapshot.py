"""A consistent copy of the files of a home, made while builds, queries and the inbox go on.

Files that are only ever replaced whole are hard-linked; what is appended to is copied up to its last whole line; SQLite
copies itself. A build that runs meanwhile can only have gone on from what is taken here, as after a kill. A delete may
not run: it and a snapshot exclude each other, so that nothing deleted comes back with a backup.
"""

import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from palimpsest.core.errors import DamagedFile, PalimpsestError
from palimpsest.core.files import link, write_pointer
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog

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
