"""What is checked before the service listens: one that cannot answer does not start."""

from palimpsest.core.errors import ComponentFailed
from palimpsest.query.open_backend import open_backend, published_or_fail
from palimpsest.store.builds import published
from palimpsest.store.checksums import has_hash
from palimpsest.store.home import Home, home_option


def check_start(home: Home, backend: str) -> None:
    """Checks the published build of a home by its checksums, and that the store opens with the schema of this version.

    Files of the build are read where their size or time of change differs from the manifest's; the index always is.

    Args:
        home: the home.
        backend: duckdb or neo4j.

    Raises:
        PalimpsestError: nothing is published, or the store has another schema or not this home.
        ComponentFailed: a file of the build is damaged, or Neo4j does not answer.
    """
    published_or_fail(home.path)
    if (build := published(home)) is None:
        return
    damaged = build.damaged_files()
    index = build.manifest.files.get(build.index.name)
    if not damaged and index is not None and not has_hash(build.index, index.blake2b):
        damaged = [build.index.name]
    if damaged:
        raise ComponentFailed(
            f"home {home.path}: {damaged[0]} of build {build.build_id} is damaged; run palimpsest build"
            f"{home_option(home)}, which repairs it"
        )
    open_backend(home.path, backend).close()
