"""Opens the store of the build that a home has published."""

from importlib import import_module
from pathlib import Path

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.core.files import nothing_published, published_build_id
from palimpsest.query.scope.backend import Backend
from palimpsest.store.remote.remote_home import home_name


def published_or_fail(home: Path) -> str:
    """Returns the id of the published build of a home.

    Raises:
        PalimpsestError: it has none.
    """
    if (build := published_build_id(home)) is None:
        raise PalimpsestError(nothing_published(home_name(home)))
    return build


def open_backend(home: Path, name: str) -> Backend:
    """Opens the published build of a home on one store.

    Args:
        home: the home.
        name: duckdb or neo4j.

    Raises:
        ArgumentError: there is no such store.
        PalimpsestError: nothing is published, or the build cannot be read.
    """
    if name == "neo4j":
        # By name: the graph is a layer above, and an extra.
        opened: Backend = import_module("palimpsest.neo4j_graph.backend.neo4j_backend").open_neo4j(home)
        return opened
    if name != "duckdb":
        raise ArgumentError("backend", "not one of duckdb, neo4j", name)
    from palimpsest.query.backends.duckdb_backend import DuckDBBackend

    build = published_or_fail(home)
    path = home / "builds" / build / "index.duckdb"
    try:
        return DuckDBBackend(path)
    except PalimpsestError:
        # Five builds are kept: one deleted meanwhile has a successor.
        if (later := published_or_fail(home)) != build:
            return DuckDBBackend(home / "builds" / later / "index.duckdb")
        raise
