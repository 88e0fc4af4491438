"""Stops a build in which too much of a collection vanished: a disk that is not mounted looks like a deletion."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from palimpsest.core.errors import PalimpsestError
from palimpsest.store.collection_config import CollectionConfig

FEWEST_SOURCES = 5
FEWEST_MEMORIES = 20


@dataclass(frozen=True)
class Removals:
    """How much of a collection is gone since the last build. Memories are those of sources that are gone or shrank."""

    sources: int
    of_sources: int
    memories: int
    of_memories: int

    def too_many(self, max_removed: float) -> bool:
        """Tells whether all sources are gone, or a larger share than allowed of at least 5 sources or 20 memories."""
        if self.of_sources and self.sources == self.of_sources:
            return True
        sources = self.sources >= FEWEST_SOURCES and self.sources > max_removed * self.of_sources
        memories = self.memories >= FEWEST_MEMORIES and self.memories > max_removed * self.of_memories
        return sources or memories


def count_removals(
    known: Iterable[str], vanished: set[str], shrunk: Mapping[str, float], memories: Mapping[str, int]
) -> Removals:
    """Counts what is gone.

    Args:
        known: uris of the sources that the last build had and could read.
        vanished: those of them that are gone.
        shrunk: the share of its lines that each edited source lost, 0 to 1.
        memories: current memories of each source in the published build.
    """
    names = set(known)
    gone = vanished & names
    lost = sum(memories.get(uri, 0) for uri in gone)
    lost += sum(round(share * memories.get(uri, 0)) for uri, share in shrunk.items() if uri not in gone)
    return Removals(len(gone), len(names), lost, sum(memories.values()))


def check_removals(
    config: CollectionConfig,
    known: Mapping[str, Mapping[str, Any]],
    vanished: set[str],
    shrunk: Mapping[str, float],
    memories: Mapping[str, int],
    allow: bool,
) -> None:
    """Raises PalimpsestError where too much vanished and that is not allowed; `known` maps uri to version."""
    readable = [uri for uri, version in known.items() if version["reason"] is None]
    found = count_removals(readable, vanished, shrunk, memories)
    if allow or not found.too_many(config.max_removed):
        return
    raise PalimpsestError(
        f"{config.name}: {found.sources} of {found.of_sources} sources and {found.memories} of {found.of_memories} "
        f"memories are gone since the last build (limit {config.max_removed:.0%}); nothing was changed: restore them, "
        "or pass --allow-removals"
    )
