"""The locked jars: fetched in parallel, checked against their SHA-256, kept in the user's cache."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.progress import progress

if TYPE_CHECKING:
    import pooch

LOCK = Path(__file__).with_name("jars.lock")
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


def locked_jars(lock: Path = LOCK) -> list[Jar]:
    """Returns the jars of the lock, in its order, which is the class path's."""
    lines = [line.split() for line in lock.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    return [Jar(coordinates, digest, int(size)) for coordinates, digest, size in lines]


def jar_folder() -> Path:
    """Returns the folder of the jars: PALIMPSEST_NEO4J_JARS, else in the user's cache."""
    import platformdirs

    folder = os.environ.get("PALIMPSEST_NEO4J_JARS")
    return Path(folder) if folder else Path(platformdirs.user_cache_dir("palimpsest")) / "neo4j-jars"


def fetch_jars(jars: Iterable[Jar] | None = None, folder: Path | None = None, source: str | None = None) -> list[Path]:
    """Returns the path of each locked jar, all present and checked; fetches what is missing.

    A jar is in the folder only once its SHA-256 was right, so that what an interrupted run finished is not fetched
    again. Jars in the folder are checked again: 0.14 s for all. What Maven fetched for this user before is copied.

    Args:
        jars: what to fetch; None means the lock.
        folder: where to; None means `jar_folder()`.
        source: URL or folder of a Maven repository; None means PALIMPSEST_MAVEN, else Maven Central as jgo names it.

    Raises:
        ComponentFailed: the repository cannot be reached, or does not have a jar.
        PalimpsestError: a jar is not what the lock names.
    """
    wanted = list(locked_jars() if jars is None else jars)
    folder = folder or jar_folder()
    source = source or os.environ.get("PALIMPSEST_MAVEN") or ""
    if source and not _is_url(source) and not Path(source).is_dir():
        raise PalimpsestError(
            f"PALIMPSEST_MAVEN {source}: name the http or https URL or the folder of a Maven repository"
        )
    if _missing(wanted, folder):
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            _remove_leftovers(folder)
            _fetch(_missing(wanted, folder), folder, source)
    return [folder / jar.file for jar in wanted]


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


def _fetch(jars: list[Jar], folder: Path, source: str) -> None:
    from jgo.constants import MAVEN_CENTRAL_URL, default_maven_repo

    is_folder = bool(source) and not _is_url(source)
    local = Path(source) if is_folder else default_maven_repo()
    total_mib = round(sum(jar.size for jar in jars) / 2**20)
    with (
        tempfile.TemporaryDirectory(prefix=".part", dir=folder) as parts,
        progress("fetch Neo4j", total_mib, "MiB") as advance,
        ThreadPoolExecutor(_THREADS) as pool,
    ):
        remote = None if is_folder else _remote(jars, Path(parts), source or MAVEN_CENTRAL_URL)

        def fetch_one(jar: Jar) -> int:
            part = _copy(jar, local, Path(parts)) or _download(jar, local, remote)
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


def _download(jar: Jar, local: Path, remote: "pooch.Pooch | None") -> Path:
    if remote is None:
        raise ComponentFailed(
            f"neo4j: {local} has no {jar.coordinates} that matches the lock file; set PALIMPSEST_MAVEN"
        )
    import pooch

    base_url = remote.base_url.rstrip("/")
    try:
        downloader = pooch.HTTPDownloader(timeout=_TIMEOUT_S, chunk_size=_CHUNK_BYTES)
        return Path(remote.fetch(jar.file, downloader=downloader))
    except ValueError:
        raise PalimpsestError(
            f"neo4j: {jar.coordinates} from {base_url} is not the locked file (SHA-256); use another PALIMPSEST_MAVEN"
        ) from None
    except OSError as e:  # requests' errors are such
        reason = (str(e).splitlines() or [""])[0][:160]
        raise ComponentFailed(
            f"neo4j: cannot fetch {jar.coordinates} from {base_url} ({reason}); go online once, or set "
            "PALIMPSEST_MAVEN to a mirror or PALIMPSEST_NEO4J_JARS to a folder with the jars"
        ) from None
