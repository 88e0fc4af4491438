"""Locked files of a Maven repository: fetched in parallel, checked against their SHA-256, kept in the user's cache."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.files import progress

if TYPE_CHECKING:
    import pooch

RETRIES = 3
_THREADS = 12
_TIMEOUT_S = 60
_CHUNK_BYTES = 2**16


@dataclass(frozen=True)
class Jar:
    """One line of the lock: Maven coordinates, SHA-256 and size."""

    coordinates: str
    sha256: str
    size: int

    @property
    def file(self) -> str:
        """Its file name."""
        return self.path.rsplit("/", 1)[1]

    @property
    def path(self) -> str:
        """Its path in a Maven repository."""
        group, artifact, version, *classifier = self.coordinates.split(":")
        return f"{group.replace('.', '/')}/{artifact}/{version}/{'-'.join((artifact, version, *classifier))}.jar"


@dataclass(frozen=True)
class JarSet:
    """Jars that belong together.

    Attributes:
        label: what they are for, as messages name it.
        lock: the file that lists them.
        variable: the environment variable that names their folder.
        cache: their folder in the user's cache.
    """

    label: str
    lock: Path
    variable: str
    cache: str

    @property
    def jars(self) -> list[Jar]:
        """The jars of the lock, in its order."""
        lines = [line.split() for line in self.lock.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
        return [Jar(coordinates, digest, int(size)) for coordinates, digest, size in lines]

    @property
    def folder(self) -> Path:
        """The folder that the variable names, else the one in the user's cache."""
        folder = os.environ.get(self.variable)
        return Path(folder) if folder else user_cache() / self.cache


def user_cache() -> Path:
    """Returns the folder of the user's cache; without platformdirs, which the base install leaves out, ~/.cache."""
    if find_spec("platformdirs") is None:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "palimpsest"
    import platformdirs

    return Path(platformdirs.user_cache_dir("palimpsest"))


def fetch_jars(
    wanted: JarSet, jars: Iterable[Jar] | None = None, folder: Path | None = None, source: str | None = None
) -> list[Path]:
    """Returns the path of each locked jar, all present and checked; fetches what is missing.

    A jar is in the folder only once its SHA-256 was right, so that what an interrupted run finished is not fetched
    again. Jars in the folder are checked again: 0.14 s for 150 MB. What Maven fetched for this user before is copied.

    Args:
        wanted: the jars.
        jars: which of them; None means all.
        folder: where to; None means the set's.
        source: URL or folder of a Maven repository; None means PALIMPSEST_MAVEN, else Maven Central as jgo names it.

    Raises:
        ComponentFailed: the repository cannot be reached, or does not have a jar.
        PalimpsestError: a jar is not what the lock names.
    """
    chosen = list(wanted.jars if jars is None else jars)
    folder = folder or wanted.folder
    source = source or os.environ.get("PALIMPSEST_MAVEN") or ""
    if source and not _is_url(source) and not Path(source).is_dir():
        raise PalimpsestError(
            f"PALIMPSEST_MAVEN {source}: name the http or https URL or the folder of a Maven repository"
        )
    if _missing(chosen, folder):
        from filelock import FileLock

        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            _remove_leftovers(folder)
            _fetch(wanted, _missing(chosen, folder), folder, source)
    return [folder / jar.file for jar in chosen]


def _is_url(source: str) -> bool:
    return source.startswith(("https://", "http://"))


def _missing(jars: list[Jar], folder: Path) -> list[Jar]:
    return [jar for jar in jars if not _has_jar(folder / jar.file, jar)]


def _has_jar(path: Path, jar: Jar) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256


def _remove_leftovers(folder: Path) -> None:
    for left in folder.glob(".part*"):
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink()


def _fetch(wanted: JarSet, jars: list[Jar], folder: Path, source: str) -> None:
    from jgo.constants import MAVEN_CENTRAL_URL, default_maven_repo

    is_folder = bool(source) and not _is_url(source)
    local = Path(source) if is_folder else default_maven_repo()
    total_mib = round(sum(jar.size for jar in jars) / 2**20)
    with (
        tempfile.TemporaryDirectory(prefix=".part", dir=folder) as parts,
        progress(f"fetch {wanted.label}", total_mib, "MiB") as advance,
        ThreadPoolExecutor(_THREADS) as pool,
    ):
        remote = None if is_folder else _remote(jars, Path(parts), source or MAVEN_CENTRAL_URL)

        def fetch_one(jar: Jar) -> int:
            part = _copy(jar, local, Path(parts)) or _download(wanted, jar, local, remote)
            part.replace(folder / jar.file)
            return jar.size

        tasks = [pool.submit(fetch_one, jar) for jar in sorted(jars, key=lambda j: -j.size)]
        done = 0
        try:
            for task in tasks:
                before, done = done, done + task.result()
                advance(done // 2**20 - before // 2**20)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _remote(jars: list[Jar], folder: Path, url: str) -> "pooch.Pooch":
    import pooch

    pooch.get_logger().setLevel("WARNING")  # a line for each jar otherwise
    base_url = url.rstrip("/") + "/"
    return pooch.create(
        path=folder,
        base_url=base_url,
        registry={jar.file: f"sha256:{jar.sha256}" for jar in jars},
        urls={jar.file: base_url + jar.path for jar in jars},
        retry_if_failed=RETRIES,
    )


def _copy(jar: Jar, repository: Path, folder: Path) -> Path | None:
    """Copies a jar from a Maven repository on this machine; None where it does not have the locked one."""
    if not _has_jar(repository / jar.path, jar):
        return None
    return Path(shutil.copyfile(repository / jar.path, folder / jar.file))


def _download(wanted: JarSet, jar: Jar, local: Path, remote: "pooch.Pooch | None") -> Path:
    if remote is None:
        raise ComponentFailed(
            f"{wanted.label}: {local} has no {jar.coordinates} that matches the lock file; set PALIMPSEST_MAVEN"
        )
    import pooch

    base_url = remote.base_url.rstrip("/")
    try:
        downloader = pooch.HTTPDownloader(timeout=_TIMEOUT_S, chunk_size=_CHUNK_BYTES)
        return Path(remote.fetch(jar.file, downloader=downloader))
    except ValueError:
        raise PalimpsestError(
            f"{wanted.label}: {jar.coordinates} from {base_url} is not the locked file (SHA-256); use another "
            "PALIMPSEST_MAVEN"
        ) from None
    except OSError as e:  # requests' errors are such
        reason = (str(e).splitlines() or [""])[0][:160]
        raise ComponentFailed(
            f"{wanted.label}: cannot fetch {jar.coordinates} from {base_url} ({reason}); go online once, or set "
            f"PALIMPSEST_MAVEN to a mirror or {wanted.variable} to a folder with its jars"
        ) from None
