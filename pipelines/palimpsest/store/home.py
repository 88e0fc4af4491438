"""A home: the one folder with everything that a build writes."""

import datetime as dt
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from palimpsest.core.errors import DamagedFile, PalimpsestError
from palimpsest.core.files import CHECKOUT_DATA, FORMAT_FILE, SHIPPED, read_sealed_json, write_sealed_json
from palimpsest.store.remote_home import LOCK, begin_writing, end_writing, home_name, local_home
from palimpsest.store.working_copy import STATE, working_copy

DEFAULT_HOME = Path("data/home")
DEFAULT_CORPUS = Path("data/corpora")
SOURCES_FILE = "home.json"
TRIAL_FOLDER = ".trial"
"""In a home, while something is tried: see `build.trial_home`."""
SEND_WAIT_S = 600.0
"""How long a text that was sent to the inbox of a home on object storage waits for a builder."""
PULL_WAIT_S = 5.0
"""How long a writer of a copy waits at least: a reader that brings it up to date has the same lock."""
_FIX = "name the folders of its collections with palimpsest build --corpus DIR, or restore a backup"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def data_folder() -> Path:
    """Returns where golden sets, baselines and programs are read and written, never inside an installed package.

    That is $PALIMPSEST_DATA, else ./data where it has golden sets, else the data folder of the checkout that this
    code runs from, else ./data. A build that cron or a service starts from another folder must pass the same gate.
    """
    if named := os.environ.get("PALIMPSEST_DATA"):
        return Path(named)
    here = Path("data")
    return here if (here / "golden").is_dir() or is_installed() else SHIPPED


def is_installed() -> bool:
    """Returns True where this code runs from an installed package, False where it runs from a checkout."""
    return SHIPPED != CHECKOUT_DATA


def data_file(relative: str) -> Path:
    """Returns a file of the data folder; where a project's own data has none, the one that comes with Palimpsest."""
    path = data_folder() / relative
    return path if path.exists() else SHIPPED / relative


@dataclass(frozen=True)
class Home:
    """Paths inside a home, and what one run of it was given.

    Attributes:
        path: of the home.
        embeddings_path: lets throw-away homes share one store of vectors.
        embedder: of collections that name none, in this run; the build that it publishes keeps it.
        inbox_path: lets the scratch home of a dry run read the inbox of the home that it is for.
        web_path: the same for the pages of that home.
    """

    path: Path
    embeddings_path: Path | None = None
    embedder: str | None = None
    inbox_path: Path | None = None
    web_path: Path | None = None

    @property
    def name(self) -> str:
        """What `--home` names it by: its URL, or its folder."""
        return home_name(self.path)

    @property
    def builds(self) -> Path:
        """Numbered builds."""
        return self.path / "builds"

    @property
    def log(self) -> Path:
        """The ingest log, one folder a collection."""
        return self.path / "log"

    @property
    def embeddings(self) -> Path:
        """The shared store of vectors."""
        return self.embeddings_path or self.path / "embeddings"

    @property
    def inbox(self) -> Path:
        """Texts and files that were sent to the home, one folder a collection; see `store.inbox`."""
        return self.inbox_path or self.path / "inbox"

    @property
    def web(self) -> Path:
        """Pages that were read from the web, one folder a collection; see `store.web_pages`."""
        return self.web_path or self.path / "web"

    @property
    def embedder_file(self) -> Path:
        """The embedder of collections that name none, in homes whose published build does not record it."""
        return self.path / "embedder.json"

    @property
    def dagster(self) -> Path:
        """DAGSTER_HOME."""
        return self.path / "dagster"

    @property
    def decisions(self) -> Path:
        """Undo, confirm and tombstone lines, append-only."""
        return self.path / "decisions.jsonl"

    @property
    def lm_ledger(self) -> Path:
        """Every answer of a language model, so that none is paid twice."""
        return self.path / "lm-ledger.sqlite"

    @property
    def sources(self) -> dict[str, Path]:
        """The folder of each collection that was ever built here, by name.

        Raises:
            DamagedFile: the list is damaged.
        """
        home = self.path.resolve()  # those inside the home are listed relative to it: it may be elsewhere tomorrow
        return {name: home / folder for name, folder in sorted(self._listed("collections").items())}

    def folder_of(self, name: str) -> Path | None:
        """Returns the folder of a collection; None where none is listed, or its settings are gone.

        Raises:
            DamagedFile: the list is damaged.
        """
        folder = self.sources.get(name)
        return folder if folder is not None and (folder / "collection.yaml").is_file() else None

    @property
    def created_at(self) -> dict[str, str]:
        """When each collection was first listed here, by name, ISO 8601 in UTC; unknown of homes of older versions.

        Raises:
            DamagedFile: the list is damaged.
        """
        return self._listed("created_at")

    def _listed(self, key: str) -> dict[str, str]:
        path = self.path / SOURCES_FILE
        listed = (read_sealed_json(path, _FIX) or {}).get(key, {})
        if not isinstance(listed, dict) or not all(isinstance(value, str) for value in listed.values()):
            raise DamagedFile(path, _FIX)
        return {name: str(value) for name, value in listed.items()}

    def create(self) -> None:
        """Makes the folders, private to their owner.

        Raises:
            PalimpsestError: a new home would lie inside another one, or inside a collection.
        """
        self.check_place()
        for folder in (self.path, self.builds, self.log, self.embeddings, self.dagster):
            folder.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o700)

    def create_alone(self) -> None:
        """Makes the folders as `create` does, in a folder that is a home or has no files.

        Raises:
            PalimpsestError: the folder has other files, or it lies inside another home or a collection.
        """
        there = {p.name for p in self.path.iterdir() if not p.name.startswith(".")} if self.path.is_dir() else set()
        if there - {"lost+found"} and not there & {FORMAT_FILE, SOURCES_FILE, "builds", "inbox"}:
            raise PalimpsestError(f"home {self.path}: it has files and is no home; name another folder, or a new one")
        self.create()

    def check_place(self) -> None:
        """Checks where a new home is made: what is deleted or read in a folder must not be of another.

        Raises:
            PalimpsestError: it lies inside another home, or inside a collection, or is a URL.
        """
        if self.path.exists():
            return
        if self.path.parts and _SCHEME.fullmatch(self.path.parts[0]):
            raise PalimpsestError(f"home {self.path}: a URL is no folder; in Python, pass local_home(URL)")
        for folder in self.path.absolute().parents:
            for name, what in ((FORMAT_FILE, "home"), ("collection.yaml", "collection")):
                if (folder / name).is_file():
                    raise PalimpsestError(f"home {self.path}: lies inside the {what} {folder}; choose another --home")

    def remember_sources(self, collections: dict[str, Path]) -> None:
        """Records where collections are read from, so that the UI, schedule and sensors find them."""
        merged = self.sources | {name: folder.resolve() for name, folder in collections.items()}
        if merged != self.sources:
            now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
            new = dict.fromkeys(set(merged) - set(self.sources), now)
            self._write_list(merged, new | self.created_at)

    def write_sources(self, folders: dict[str, Path]) -> None:
        """Replaces what is recorded of where collections are read from."""
        self._write_list(folders, self.created_at)

    def forget_source(self, name: str) -> None:
        """Removes a collection from the list."""
        self._write_list({n: f for n, f in self.sources.items() if n != name}, self.created_at)

    def _write_list(self, folders: dict[str, Path], created_at: dict[str, str]) -> None:
        home = self.path.resolve()
        collections = {n: str(f.relative_to(home) if f.is_relative_to(home) else f) for n, f in folders.items()}
        known = {name: when for name, when in created_at.items() if name in folders}
        write_sealed_json(self.path / SOURCES_FILE, {"collections": collections, "created_at": known})

    def lock(self, wait_s: float = 0) -> "HomeLock":
        """Returns the one writer's lock, re-entrant inside a process."""
        return HomeLock(self.path, wait_s)


class HomeLock:
    """Context manager; raises PalimpsestError while another process has the lock.

    Of a home on object storage it takes the lease as well, and writes what is new there at its end, after an error
    too: whatever a run leaves, the next goes on from.
    """

    def __init__(self, path: Path, wait_s: float):
        path.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._lock = FileLock(path / LOCK, thread_local=False, is_singleton=True)
        self._wait_s = wait_s

    def __enter__(self) -> None:
        try:
            is_copy = (self._path / STATE).exists()
            self._lock.acquire(timeout=max(self._wait_s, PULL_WAIT_S) if is_copy else self._wait_s)
        except Timeout:
            raise PalimpsestError(
                f"home {home_name(self._path)}: another build is writing it; wait for it or choose another --home"
            ) from None
        if self._lock.lock_counter == 1:
            try:
                begin_writing(self._path, self._wait_s)
            except BaseException:
                self._lock.release()
                raise

    def __exit__(self, *exc: object) -> None:
        try:
            if self._lock.lock_counter == 1:
                end_writing(self._path)
        finally:
            self._lock.release()


def send_unwritten(path: Path, wait_s: float = SEND_WAIT_S) -> None:
    """Writes to object storage what was written in the copy of a home without its lock: texts sent to its inbox.

    Raises:
        PalimpsestError: another builder has the lease for longer than `wait_s`; the next command tries again.
    """
    copy = working_copy(path)
    if copy is not None and copy.has_unsent():
        with HomeLock(path, wait_s):
            pass  # its end writes


@contextmanager
def copy_lock(path: Path, wait_s: float = SEND_WAIT_S) -> Iterator[None]:
    """Takes the lock of a home on object storage; of another home nothing.

    What is written in a copy without its lock, apart from the inbox, is lost where another machine publishes.

    Yields:
        Nothing, once the lock is taken.

    Raises:
        PalimpsestError: another builder has the lease for longer than `wait_s`.
    """
    with HomeLock(path, wait_s) if (path / STATE).exists() else nullcontext():
        yield


def home_from_environment() -> Home:
    """Returns the home named by PALIMPSEST_HOME, else data/home."""
    return Home(local_home(os.environ.get("PALIMPSEST_HOME") or DEFAULT_HOME))


def home_option(home: Home) -> str:
    """Returns ` --home PATH` for a command that is printed to be copied; nothing where the default means this home."""
    usual = home_from_environment().path.resolve() == home.path.resolve()
    return "" if usual else f" --home {shlex.quote(home.name)}"


# Files of what runs in the background for a home: `<home>/.service/`; no backup takes them, deletes search them.

FOLDER = ".service"
OLDER = ".1"
"""Suffix of the older file of a log."""


def service_folder(home: Path) -> Path:
    """Returns the folder of these files, which need not exist."""
    return home / FOLDER


def make_service_folder(home: Path) -> Path:
    """Returns the folder of these files, made where it is not there, for its owner alone."""
    folder = service_folder(home)
    folder.mkdir(exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    return folder


def erase_service_logs(home: Path, rows_of: Callable[[list[str]], Collection[int]]) -> None:
    """Removes lines from the logs, in place: who writes them goes on with the same file.

    Args:
        home: the home.
        rows_of: returns the numbers of the lines to remove.
    """
    for path in sorted(service_folder(home).glob("*.log*")):
        if not path.is_file() or path.is_symlink():
            continue
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        if gone := set(rows_of(lines)):
            kept = "".join(f"{line}\n" for i, line in enumerate(lines) if i not in gone)
            with path.open("r+", encoding="utf-8") as f:
                f.write(kept)
                f.truncate()
