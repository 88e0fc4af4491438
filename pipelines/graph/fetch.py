"""The locked jars: fetched in parallel, checked against their SHA-256, kept in the user's cache."""

import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from pipelines.errors import ComponentFailed, PalimpsestError
from pipelines.progress import progress

LOCK = Path(__file__).with_name("jars.lock")
_AT_ONCE = 12
_TRIES = 4
_TIMEOUT_S = 60
_BLOCK = 1 << 18


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


def fetch_jars(jars: Iterable[Jar] | None = None, folder: Path | None = None, base: str | None = None) -> list[Path]:
    """Returns the path of each locked jar, all present and checked; fetches what is missing.

    A jar is in the folder only once its SHA-256 was right, so that what an interrupted fetch finished is not fetched
    again. Jars that are there are known by name and size.

    Args:
        jars: what to fetch; None means the lock.
        folder: where to; None means `jar_folder()`.
        base: URL of a Maven repository; None means PALIMPSEST_MAVEN.

    Raises:
        ComponentFailed: the repository cannot be reached.
        PalimpsestError: a jar is not what the lock says.
    """
    wanted = list(locked_jars() if jars is None else jars)
    folder = folder or jar_folder()
    base = (base or os.environ.get("PALIMPSEST_MAVEN") or "").rstrip("/")
    missing = _missing(wanted, folder)
    if (base or missing) and not base.startswith(("https://", "http://", "file://")):
        found = base or "is not set"
        raise PalimpsestError(f"PALIMPSEST_MAVEN {found}: name the http, https or file URL of a Maven repository")
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            _fetch(_missing(wanted, folder), folder, base)
    return [folder / jar.file for jar in wanted]


def _missing(jars: list[Jar], folder: Path) -> list[Jar]:
    sizes = {p.name: p.stat().st_size for p in folder.glob("*.jar")} if folder.is_dir() else {}
    return [jar for jar in jars if sizes.get(jar.file) != jar.size]


def _fetch(jars: list[Jar], folder: Path, base: str) -> None:
    for left in folder.glob(".*.part"):
        left.unlink()
    mib = [jar.size / 2**20 for jar in jars]
    with progress("fetch Neo4j", round(sum(mib)), "MiB") as advance, ThreadPoolExecutor(_AT_ONCE) as pool:
        shown = done = 0.0
        tasks = [pool.submit(_fetch_one, jar, folder, base) for jar in sorted(jars, key=lambda j: -j.size)]
        try:
            for task in tasks:
                done += task.result() / 2**20
                advance(int(done) - int(shown))
                shown = done
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _fetch_one(jar: Jar, folder: Path, base: str) -> int:
    part = folder / f".{jar.file}.part"
    error: Exception | None = None
    for _ in range(_TRIES):
        digest = hashlib.sha256()
        try:
            with urllib.request.urlopen(f"{base}/{jar.path}", timeout=_TIMEOUT_S) as reply, part.open("wb") as out:  # noqa: S310
                while block := reply.read(_BLOCK):
                    digest.update(block)
                    out.write(block)
        except urllib.error.HTTPError as e:
            if e.code < 500 and e.code != 429:
                raise ComponentFailed(
                    f"neo4j: {base} answered {e.code} for {jar.coordinates}; set PALIMPSEST_MAVEN to a repository "
                    "that has it"
                ) from None
            error = e
            continue
        except (OSError, ValueError) as e:
            error = e
            continue
        if digest.hexdigest() != jar.sha256:
            part.unlink()
            raise PalimpsestError(
                f"neo4j: {jar.coordinates} from {base} is not the locked file (SHA-256); use another PALIMPSEST_MAVEN"
            )
        part.replace(folder / jar.file)
        return jar.size
    part.unlink(missing_ok=True)
    raise ComponentFailed(
        f"neo4j: cannot fetch {jar.coordinates} from {base} ({error}); go online once, or set PALIMPSEST_MAVEN to a "
        "mirror or PALIMPSEST_NEO4J_JARS to a folder that holds the jars"
    ) from None
