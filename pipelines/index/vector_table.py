"""The table of vectors: every memory has one or more."""

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

VectorLookup = Callable[[Sequence[str]], np.ndarray]
"""Maps n text hashes to their unit vectors, shape (n, 384) float32."""

DIMENSIONS = 384


def vector_table(inputs: pl.DataFrame, rows: pl.DataFrame, lookup: VectorLookup) -> pl.DataFrame:
    """Returns (row, vector), sorted by row and window: every memory has one vector or more."""
    wanted = rows.select("memory_id", "row").join(
        inputs.select("memory_id", "kind", "ordinal", "text_hash"), on="memory_id", how="left"
    )
    wanted = wanted.sort("row", "kind", "ordinal", "text_hash")
    if bare := wanted.filter(pl.col("text_hash").is_null())["memory_id"].head(1).to_list():
        raise ValueError(f"memory {bare[0]} has no row in embed_inputs")
    found = np.asarray(lookup(wanted["text_hash"].to_list()), np.float32)
    if found.shape != (wanted.height, DIMENSIONS):
        raise ValueError(
            f"vectors of shape {found.shape} for {wanted.height} texts, not ({wanted.height}, {DIMENSIONS})"
        )
    vector = (
        pl.Series("vector", found, dtype=pl.Array(pl.Float32, DIMENSIONS))
        if wanted.height
        else pl.Series("vector", [], dtype=pl.Array(pl.Float32, DIMENSIONS))
    )
    return pl.DataFrame({"row": wanted["row"], "vector": vector})
