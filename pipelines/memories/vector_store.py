"""The home's store of vectors for the embedder of this machine, and the vector of each memory from it."""

import numpy as np
import polars as pl

from palimpsest.memories.embed import vector_space
from palimpsest.store.embeddings import EmbeddingStore
from palimpsest.store.home import Home


def embedding_store(home: Home) -> EmbeddingStore:
    """Returns the home's store of vectors for this machine's embedder."""
    return EmbeddingStore(home.embeddings / vector_space())


def memory_vectors(home: Home, memories: pl.DataFrame, embed_inputs: pl.DataFrame) -> np.ndarray:
    """Returns one unit vector for each memory, shape (n, 384): of its text, or the mean of its windows.

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
