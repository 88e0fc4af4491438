"""`palimpsest build --embedder`: the home gets another embedder for one build, and keeps it if that is published."""

from collections.abc import Iterator
from contextlib import contextmanager

from palimpsest.memories.vector_store import collection_spaces
from palimpsest.store.builds import Build, published
from palimpsest.store.embedder_setting import set_home_embedder, stored_embedder
from palimpsest.store.home import Home


@contextmanager
def changed_embedder(home: Home, embedder: str | None) -> Iterator[None]:
    """Gives the home an embedder for one build; what it had before is restored where that is not published."""
    if embedder is None:
        yield
        return
    before, current = stored_embedder(home), published(home)
    set_home_embedder(home, embedder)
    try:
        yield
    finally:
        after = published(home)
        is_new = after is not None and (current is None or after.build_id != current.build_id)
        if after is None or not (is_new or _is_searched_with(after, embedder)):
            set_home_embedder(home, before)


def _is_searched_with(build: Build, embedder: str) -> bool:
    """Returns whether every collection of a build that names no embedder has vectors of this one."""
    configs = build.manifest.configs
    spaces = collection_spaces(build).items()
    return all(space.embedder == embedder for name, space in spaces if not configs.get(name, {}).get("embedder"))
