"""The home's stores of vectors, one for each space, and the vector of each memory from one."""

from pathlib import Path

import numpy as np
import polars as pl

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.memories.embedders import minilm_space, space_of
from palimpsest.memories.vector_space import IndexedSpace, Space
from palimpsest.store.builds import Build
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.embeddings import EmbeddingStore, embedder_of
from palimpsest.store.home import Home


def embedding_store(home: Home, space: Space | None = None) -> EmbeddingStore:
    """Returns the home's store of vectors of a space; None means MiniLM's, which relations and topics use."""
    space = space or minilm_space()
    return EmbeddingStore(home.embeddings / space.name, space.dimensions)


def configured_space(home: Home, config: CollectionConfig, folder: Path) -> Space:
    """Returns the space that a collection's settings ask for.

    Raises:
        PalimpsestError: there is no such embedder.
        ComponentFailed: its server does not answer.
    """
    try:
        return space_of(embedder_of(home, config, folder), home.embeddings)
    except ComponentFailed:
        raise
    except PalimpsestError as e:
        place = f"collection.yaml: {e} ({folder / 'collection.yaml'})"
        raise PalimpsestError(place if config.embedder else str(e)) from None


def collection_spaces(build: Build) -> dict[str, Space]:
    """Returns the space that each collection of a build is searched with, by name."""
    return {name: _collection_space(build, name) for name in build.collections}


def _collection_space(build: Build, name: str) -> Space:
    if not build.table_path(name, "vector_spaces").exists():
        return minilm_space()  # a build of an earlier version
    _, embedder, space, dimensions = build.table(name, "vector_spaces").row(0)
    return Space(embedder, space, dimensions)


def indexed_spaces(home: Home, build: Build) -> dict[str, IndexedSpace]:
    """Returns the vectors that an index of a build has, by collection."""
    spaces = collection_spaces(build).items()
    return {n: IndexedSpace(s.name, s.dimensions, embedding_store(home, s).vectors) for n, s in spaces}


def embedding_stores(home: Home) -> list[EmbeddingStore]:
    """Returns the home's stores of all spaces, those that no collection uses any more included."""
    return [EmbeddingStore(folder) for folder in sorted(home.embeddings.glob("*")) if folder.is_dir()]


def known_texts(home: Home, build: Build) -> set[str]:
    """Returns the hashes of a build's texts that have every vector they need: of their collection, and of MiniLM."""
    known: set[str] = set()
    missing: set[str] = set()
    for name, space in collection_spaces(build).items():
        needed = {t: set(build.table(name, t)["text_hash"].drop_nulls()) for t in ("embed_inputs", "context_inputs")}
        found = embedding_store(home, space).missing(needed["embed_inputs"] | needed["context_inputs"])
        missing |= found | embedding_store(home).missing(needed["embed_inputs"])
        known |= needed["embed_inputs"] | needed["context_inputs"]
    return known - missing


def memory_vectors(home: Home, memories: pl.DataFrame, embed_inputs: pl.DataFrame) -> np.ndarray:
    """Returns one MiniLM unit vector for each memory, shape (n, 384): of its text, or the mean of its windows.

    Raises:
        KeyError: a memory has no text to embed, or a text has no vector.
    """
    vectors = embedding_store(home).vectors(embed_inputs["text_hash"].to_list())
    rows = (
        embed_inputs.select("memory_id", "ordinal")
        .with_row_index("at")
        .join(memories.select("memory_id").with_row_index("row"), on="memory_id", how="inner")
        .sort("row", "ordinal")
    )
    row, at = rows["row"].to_numpy(), rows["at"].to_numpy()
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    if len(starts) != memories.height:
        raise KeyError("embed_inputs: a memory has nothing to embed")
    out: np.ndarray = vectors[at[starts]]
    if len(more := np.setdiff1d(np.arange(len(at)), starts, assume_unique=True)):
        np.add.at(out, row[more], vectors[at[more]])
        several = np.unique(row[more])
        out[several] /= np.maximum(np.linalg.norm(out[several], axis=1, keepdims=True), 1e-9)
    return out
