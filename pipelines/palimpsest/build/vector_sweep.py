"""Vectors that no text of a kept build has: how many there are, and their removal."""

from pathlib import Path

from palimpsest.build.stages import tables
from palimpsest.memories.vector_store import embedding_stores
from palimpsest.store.builds import ONCE, kept
from palimpsest.store.home import Home
from palimpsest.store.tables import SCHEMAS


def retained_texts(home: Home) -> set[str]:
    """Returns the hashes of all texts that a kept build embeds, the staged one included."""
    embedded = [t.name for t in tables() if "text_hash" in SCHEMAS[t.name]]
    found = (b.table(c, t)["text_hash"] for b in kept(home) for c in (*b.collections, ONCE) for t in embedded)
    return {text_hash for column in found for text_hash in column.drop_nulls()}


def sweep_vectors(home: Home) -> int:
    """Removes the vectors of all other texts from every store of the home; returns how many."""
    retained = retained_texts(home)
    return sum(store.compact(retained) for store in embedding_stores(home))


def orphaned_vectors(home: Home) -> tuple[int, int]:
    """Returns how many vectors `sweep_vectors` would remove, and about how many bytes they take."""
    retained, count, size = retained_texts(home), 0, 0
    for store, folder in zip(embedding_stores(home), _folders(home), strict=True):
        known = store.known()
        orphans = len(known - retained)
        stored = sum(p.stat().st_size for p in folder.glob("*.parquet"))
        count, size = count + orphans, size + (stored * orphans // len(known) if known else 0)
    return count, size


def _folders(home: Home) -> list[Path]:
    return [folder for folder in sorted(home.embeddings.glob("*")) if folder.is_dir()]
