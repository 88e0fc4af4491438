"""The jars of the Neo4j server: which ones, by the lock, and where they are kept."""

from collections.abc import Iterable
from pathlib import Path

from palimpsest.core.maven import Jar, JarSet
from palimpsest.core.maven import fetch_jars as fetch_jar_set

LOCK = Path(__file__).with_name("jars.lock")
_JARS = JarSet("neo4j", LOCK, "PALIMPSEST_NEO4J_JARS", "neo4j-jars")
__all__ = ["Jar", "fetch_jars", "jar_folder", "locked_jars"]


def locked_jars() -> list[Jar]:
    """Returns the jars of the lock, in its order, which is the class path's."""
    return _JARS.jars


def jar_folder() -> Path:
    """Returns the folder of the jars: PALIMPSEST_NEO4J_JARS, else in the user's cache."""
    return _JARS.folder


def fetch_jars(jars: Iterable[Jar] | None = None, folder: Path | None = None, source: str | None = None) -> list[Path]:
    """Returns the path of each jar, all present and checked; see `core.maven.fetch_jars`."""
    return fetch_jar_set(_JARS, jars, folder, source)
