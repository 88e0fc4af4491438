"""Batches of rows as parameters of a statement, prepared one ahead of the write."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

import numpy as np
import polars as pl
from neo4j.vector import Vector

from palimpsest.memories.embedders.space import VectorLookup
from palimpsest.neo4j_graph.packed import pack_block

Batch: TypeAlias = list[Mapping[str, Any]]
"""Values for the rows of one statement."""

VECTOR_KINDS = ("Memory", "Window")
HAVE_VECTORS = (*VECTOR_KINDS, "VectorBlock")
_VECTORS_AT_ONCE = 131_072  # 192 MiB of MiniLM's
_T = TypeVar("_T")


def prefetch(batches: Iterable[_T]) -> Iterator[_T]:
    """Yields batches, each prepared while the one before is being written."""
    iterator = iter(batches)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, iterator, None)
        while (batch := waiting.result()) is not None:
            waiting = pool.submit(next, iterator, None)
            yield batch


def node_batches(kind: str, nodes: pl.DataFrame, vectors: VectorLookup, size: int) -> Iterator[Batch]:
    """Yields the parameters that create nodes of a kind, with their vectors where they have some."""
    if kind in HAVE_VECTORS:
        return prefetch(_vector_batches(kind, nodes, vectors, size))
    return prefetch(list[Mapping[str, Any]](part.drop("id").to_dicts()) for part in nodes.iter_slices(size))


def edge_batches(edges: pl.DataFrame, size: int) -> Iterator[Batch]:
    """Yields the parameters that create relationships: both ends, the type where rows have one, the properties."""
    columns = [c for c in ("a", "b", "type") if c in edges.columns]
    properties = [c for c in edges.columns if c not in (*columns, "id")]
    rows = edges.select(*columns, pl.struct(properties).alias("properties"))
    return prefetch(list[Mapping[str, Any]](part.to_dicts()) for part in rows.iter_slices(size))


def _vector_batches(kind: str, nodes: pl.DataFrame, vectors: VectorLookup, size: int) -> Iterator[Batch]:
    """Yields batches of nodes with vectors, looked up for many batches at once: each look-up reads the store."""
    make, hashes = (
        (_with_vectors, pl.col("text_hash")) if kind in VECTOR_KINDS else (_with_blocks, pl.col("hashes").explode())
    )
    vectors_per_node = max(1, nodes.select(hashes).height // max(1, nodes.height))
    batches = max(1, _VECTORS_AT_ONCE // vectors_per_node // size)
    for several in nodes.iter_slices(batches * size):
        known = _look_up(several.select(hashes.drop_nulls()).to_series(), vectors)
        for part in several.iter_slices(size):
            yield make(part, known)


def _look_up(hashes: pl.Series, vectors: VectorLookup) -> VectorLookup:
    """Returns a look-up of the vectors of these hashes that reads no store."""
    distinct = hashes.unique().sort().to_list()
    matrix, places = vectors(distinct), {text_hash: place for place, text_hash in enumerate(distinct)}
    return lambda wanted: matrix[[places[text_hash] for text_hash in wanted]]


def _with_vectors(part: pl.DataFrame, vectors: VectorLookup) -> Batch:
    matrix = np.ascontiguousarray(vectors(part["text_hash"].to_list()), np.float32)
    rows = part.drop("id", "text_hash").to_dicts()
    return [{"properties": row, "vector": Vector.from_numpy(v)} for row, v in zip(rows, matrix, strict=True)]


def _with_blocks(part: pl.DataFrame, vectors: VectorLookup) -> Batch:
    rows = part.drop("id", "counts", "hashes").to_dicts()
    packed = zip(rows, part["counts"].to_list(), part["hashes"].to_list(), strict=True)
    return [row | {"data": pack_block(np.array(counts), vectors(hashes))} for row, counts, hashes in packed]
