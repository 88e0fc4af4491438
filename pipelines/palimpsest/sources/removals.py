"""Stops a build where too much of a collection is gone: a disk that is not mounted looks like a deletion."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from palimpsest.core.errors import PalimpsestError
from palimpsest.store.collection_config import CollectionConfig

_MIN_SOURCES = 5
_MIN_MEMORIES = 20


@dataclass(frozen=True)
class Removals:
    """How much of a collection is gone since the last build. Memories are those of sources that are gone or shrank."""

    sources: int
    of_sources: int
    memories: int
    of_memories: int

    def too_many(self, max_removed: float) -> bool:
        """Returns whether all sources are gone, or more than this share of them and at least 5, or of 20 memories."""
        if self.of_sources and self.sources == self.of_sources:
            return True
        sources = self.sources >= _MIN_SOURCES and self.sources > max_removed * self.of_sources
        memories = self.memories >= _MIN_MEMORIES and self.memories > max_removed * self.of_memories
        return sources or memories


def count_removals(
    known: Iterable[str], vanished: set[str], lost_shares: Mapping[str, float], memories: Mapping[str, int]
) -> Removals:
    """Counts what is gone.

    Args:
        known: uris of the readable sources of the last build.
        vanished: uris of sources that are gone.
        lost_shares: the share of its lines that each edited source lost, 0 to 1.
        memories: number of current memories of each source in the published build.
    """
    names = set(known)
    gone = vanished & names
    lost = sum(memories.get(uri, 0) for uri in gone)
    lost += sum(round(share * memories.get(uri, 0)) for uri, share in lost_shares.items() if uri not in gone)
    return Removals(len(gone), len(names), lost, sum(memories.values()))


def check_removals(
    config: CollectionConfig,
    known: Mapping[str, Mapping[str, Any]],
    vanished: set[str],
    lost_shares: Mapping[str, float],
    memories: Mapping[str, int],
    allow: bool,
) -> None:
    """Compares what is gone with the limit of the collection; arguments as for `count_removals`.

    Raises:
        PalimpsestError: more is gone than `max_removed`, and `allow` is false.
    """
    readable = [uri for uri, version in known.items() if version["reason"] is None]
    found = count_removals(readable, vanished, lost_shares, memories)
    if allow or not found.too_many(config.max_removed):
        return
    raise PalimpsestError(
        f"{config.name}: {found.sources} of {found.of_sources} sources and {found.memories} of {found.of_memories} "
        f"memories are gone since the last build (limit {config.max_removed:.0%}); nothing was changed: restore them, "
        "or pass --allow-removals"
    )
