"""The tables of vectors, one for each space: every memory has one or more."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from palimpsest.memories.embedders.space import IndexedSpace, VectorLookup

DIMENSIONS = 384
TABLE = "vectors"  # of the first space; those of others have a number


def spaces_by_collection(
    vectors: VectorLookup | Mapping[str, IndexedSpace], collections: Sequence[str]
) -> dict[str, IndexedSpace]:
    """Returns the space of each collection; a lookup alone is of MiniLM's dimension and serves all."""
    if isinstance(vectors, Mapping):
        return {name: vectors[name] for name in collections}
    return dict.fromkeys(collections, IndexedSpace("", DIMENSIONS, vectors))


def vector_tables(
    inputs: pl.DataFrame, rows: pl.DataFrame, spaces: Mapping[str, IndexedSpace]
) -> tuple[dict[str, pl.DataFrame], dict[str, str]]:
    """Returns the tables of vectors by name, and the name of the table of each collection.

    Args:
        inputs: embed_inputs as in `store.tables`.
        rows: (memory_id, row, collection) of every memory.
        spaces: by collection.
    """
    names = sorted({space.name for space in spaces.values()}) or [""]
    table_of = {name: TABLE if i == 0 else f"{TABLE}_{i}" for i, name in enumerate(names)}
    tables: dict[str, pl.DataFrame] = {}
    for name in names:
        members = {c: s for c, s in spaces.items() if s.name == name}
        mine = rows.filter(pl.col("collection").is_in(list(members)))
        space = next(iter(members.values()), IndexedSpace("", DIMENSIONS, lambda hashes: np.zeros((0, DIMENSIONS))))
        tables[table_of[name]] = vector_table(inputs, mine, space.lookup, space.dimensions)
    return tables, {collection: table_of[space.name] for collection, space in spaces.items()}


def vector_table(inputs: pl.DataFrame, rows: pl.DataFrame, lookup: VectorLookup, dimensions: int) -> pl.DataFrame:
    """Returns (row, vector), sorted by row and window: every memory has one vector or more."""
    wanted = rows.select("memory_id", "row").join(
        inputs.select("memory_id", "kind", "ordinal", "text_hash"), on="memory_id", how="left"
    )
    wanted = wanted.sort("row", "kind", "ordinal", "text_hash")
    if bare := wanted.filter(pl.col("text_hash").is_null())["memory_id"].head(1).to_list():
        raise ValueError(f"memory {bare[0]} has no row in embed_inputs")
    found = np.asarray(lookup(wanted["text_hash"].to_list()), np.float32)
    if found.shape != (wanted.height, dimensions):
        raise ValueError(
            f"vectors of shape {found.shape} for {wanted.height} texts, not ({wanted.height}, {dimensions})"
        )
    vector = (
        pl.Series("vector", found, dtype=pl.Array(pl.Float32, dimensions))
        if wanted.height
        else pl.Series("vector", [], dtype=pl.Array(pl.Float32, dimensions))
    )
    return pl.DataFrame({"row": wanted["row"], "vector": vector})
