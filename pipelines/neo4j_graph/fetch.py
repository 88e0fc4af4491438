"""The locked jars: fetched in parallel, checked against their SHA-256, kept in the user's cache."""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.progress import progress

LOCK = Path(__file__).with_name("jars.lock")
_AT_ONCE = 12
_TRIES = 4
_TIMEOUT_S = 60


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
        """Where a Maven repository holds it."""
        group, artifact, version, *classifier = self.coordinates.split(":")
        return f"{group.replace('.', '/')}/{artifact}/{version}/{'-'.join((artifact, version, *classifier))}.jar"


def locked_jars(lock: Path = LOCK) -> list[Jar]:
    """Returns the jars of the lock, in its order, which is the class path's."""
    lines = [line.split() for line in lock.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    return [Jar(coordinates, digest, int(size)) for coordinates, digest, size in lines]


def jar_folder() -> Path:
    """Returns where jars are kept: PALIMPSEST_NEO4J_JARS, else the user's cache."""
    import platformdirs

    told = os.environ.get("PALIMPSEST_NEO4J_JARS")
    return Path(told) if told else Path(platformdirs.user_cache_dir("palimpsest")) / "neo4j-jars"


def fetch_jars(jars: Iterable[Jar] | None = None, folder: Path | None = None, source: str | None = None) -> list[Path]:
    """Returns the path of each locked jar, all present and checked; gets what is missing.

    A jar is in the folder only once its SHA-256 was right, so that what an interrupted run finished is not fetched
    again. Jars that are there are checked again: 0.14 s for all. What Maven fetched for this user before is copied.

    Args:
        jars: what to fetch; None means the lock.
        folder: where to; None means `jar_folder()`.
        source: URL or folder of a Maven repository; None means PALIMPSEST_MAVEN, else Maven Central as jgo knows it.

    Raises:
        ComponentFailed: the repository cannot be reached, or does not have a jar.
        PalimpsestError: a jar is not what the lock says.
    """
    wanted = list(locked_jars() if jars is None else jars)
    folder = folder or jar_folder()
    source = source or os.environ.get("PALIMPSEST_MAVEN") or ""
    if source and not source.startswith(("https://", "http://")) and not Path(source).is_dir():
        raise PalimpsestError(
            f"PALIMPSEST_MAVEN {source}: name the http or https URL or the folder of a Maven repository"
        )
    if _missing(wanted, folder):
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"), tempfile.TemporaryDirectory(prefix=".part", dir=folder) as aside:
            _fetch(_missing(wanted, folder), folder, Path(aside), source)
    return [folder / jar.file for jar in wanted]


def _missing(jars: list[Jar], folder: Path) -> list[Jar]:
    return [jar for jar in jars if not (path := folder / jar.file).is_file() or _sha256(path) != jar.sha256]


def _fetch(jars: list[Jar], folder: Path, aside: Path, source: str) -> None:
    from jgo.constants import default_maven_repo
    from jgo.maven import MavenContext

    for left in folder.glob(".part*"):
        if left.is_file():
            left.unlink()
        elif left != aside:
            shutil.rmtree(left)
    remote = source.startswith(("https://", "http://"))
    context = MavenContext(
        repo_cache=aside, remote_repos={"named": source.rstrip("/")} if remote else None, timeout=_TIMEOUT_S
    )
    near = Path(source) if source and not remote else default_maven_repo()
    only_near = bool(source) and not remote
    mib = [jar.size / 2**20 for jar in jars]
    with progress("fetch Neo4j", round(sum(mib)), "MiB") as advance, ThreadPoolExecutor(_AT_ONCE) as pool:
        shown = done = 0.0
        largest_first = sorted(jars, key=lambda j: -j.size)
        tasks = [pool.submit(_fetch_one, jar, folder, near, None if only_near else context) for jar in largest_first]
        try:
            for task in tasks:
                done += task.result() / 2**20
                advance(int(done) - int(shown))
                shown = done
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _fetch_one(jar: Jar, folder: Path, near: Path, context: Any) -> int:
    """Puts one jar into the folder: from a repository on this machine, else from the remote one."""
    found = near / jar.path
    if found.is_file() and _sha256(found) == jar.sha256:
        part = folder / f".part-{jar.file}"
        shutil.copyfile(found, part)
    elif context is None:
        raise ComponentFailed(f"neo4j: {near} does not have {jar.coordinates} as locked; set PALIMPSEST_MAVEN")
    else:
        part = _download(jar, context)
    part.replace(folder / jar.file)
    return jar.size


def _download(jar: Jar, context: Any) -> Path:
    group, artifact, version, *classifier = jar.coordinates.split(":")
    wanted = context.project(group, artifact).at_version(version).artifact(*classifier[:1])
    base = next(iter(context.remote_repos.values()))
    error: Exception | None = None
    for attempt in range(_TRIES):
        try:
            part = Path(wanted.resolve())
        except (OSError, RuntimeError, ValueError) as e:
            error = e
            wanted.cached_path.unlink(missing_ok=True)
            time.sleep(0.5 * 2**attempt if attempt < _TRIES - 1 else 0)
            continue
        if _sha256(part) != jar.sha256:
            raise PalimpsestError(
                f"neo4j: {jar.coordinates} from {base} is not the locked file (SHA-256); use another PALIMPSEST_MAVEN"
            )
        return part
    told = str(error).splitlines()[0][:160] if error else ""
    raise ComponentFailed(
        f"neo4j: cannot fetch {jar.coordinates} from {base} ({told}); go online once, or set PALIMPSEST_MAVEN to a "
        "mirror or PALIMPSEST_NEO4J_JARS to a folder that holds the jars"
    ) from None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
