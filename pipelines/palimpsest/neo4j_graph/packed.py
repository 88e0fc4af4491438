"""What a reader needs of a whole scope, packed as Arrow: ids, vectors, words, and the parts that scorers read.

Memories are local rows in a part, or their ids where rows would shift; entities of sentences are hashes of their ids,
so that a block stays as it is while its memories do.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from palimpsest.core.errors import PalimpsestError
from palimpsest.neo4j_graph.model import DIMENSIONS
from palimpsest.query.backends.scope_parts import PARTS, Range, entity_ids, read_part
from palimpsest.query.request.types import ScoreStats
from palimpsest.query.scope.scope_arrays import Arrays
from palimpsest.text.terms import name_key

# Named arrays as Arrow IPC: how a node of the graph stores what readers need of a scope.

_DTYPES = {"halffloat": "<f2", "float": "<f4", "double": "<f8"}
"""Numpy's names of Arrow types, where they differ."""


def pack_arrays(arrays: Mapping[str, np.ndarray | list[str]]) -> bytes:
    """Returns the bytes of named arrays: one record batch of one row, a list column for each array, sorted by name.

    Args:
        arrays: numbers of shape (n,) or (n, width); or texts, as a list or an object array.
    """
    columns = {name: _column(value) for name, value in sorted(arrays.items())}
    rows = [pa.ListArray.from_arrays(pa.array([0, len(c)], pa.int32()), c) for c in columns.values()]
    batch = pa.record_batch(rows, names=list(columns))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpack_arrays(data: bytes) -> Arrays:
    """Reads what `pack_arrays` wrote: numbers as read-only arrays, texts as lists.

    Raises:
        PalimpsestError: the bytes are of an earlier version.
    """
    try:
        with pa.ipc.open_stream(data) as reader:
            batch = reader.read_next_batch()
    except (pa.ArrowException, OSError, StopIteration):
        raise PalimpsestError(
            "neo4j: the loaded build was written by an earlier version; run palimpsest build --graph"
        ) from None
    return {name: _value(batch.column(name).values) for name in batch.schema.names}


def _column(value: np.ndarray | list[str]) -> Any:
    if isinstance(value, list) or value.dtype == object:
        # As bytes: Arrow's strings cannot contain a lone surrogate.
        return pa.array([str(text).encode("utf-8", "surrogatepass") for text in value], pa.binary())
    flat = pa.array(np.ascontiguousarray(value).reshape(-1))
    return flat if value.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, value.shape[1])


def _value(column: Any) -> np.ndarray | list[str]:
    if pa.types.is_binary(column.type):
        return _texts(column)
    if pa.types.is_fixed_size_list(column.type):
        flat = column.values
        return _numbers(flat).reshape(-1, column.type.list_size)
    return _numbers(column)


def _numbers(column: Any) -> np.ndarray:
    """Returns a column as numpy, not copied: `to_numpy` would import pandas, for 1 s."""
    name = str(column.type)
    dtype = np.dtype(_DTYPES.get(name, name))
    data = column.buffers()[1]
    if data is None or len(column) == 0:
        return np.zeros(0, dtype)
    return np.frombuffer(data, dtype, len(column), column.offset * dtype.itemsize)


def _texts(column: Any) -> list[str]:
    if len(column) == 0:
        return []
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset).tolist()
    content = bytes(data) if data is not None else b""
    if content.isascii():  # then bytes are characters, and slices of one text are ten times as fast
        text = content.decode("ascii")
        return [text[a:b] for a, b in pairwise(ends)]
    return [content[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(ends)]


_POSTINGS_PER_BUCKET = 8192
_VECTORS_PER_BLOCK = 512
_MEMORIES_PER_BLOCK = 16  # of sentences: a question reads those of twenty, and each brings its block
_SENTENCES = """
    SELECT m.memory_id, s.spans, s.counts, s.entities, s.vectors, s.term_counts, s.terms
    FROM sentences s JOIN memories m USING (row)
    WHERE s.row BETWEEN $first AND $last AND len(s.spans) > 0 ORDER BY m.memory_id"""


@dataclass(frozen=True)
class ScopeStats:
    """A scope at a glance.

    Attributes:
        ids: memory ids, ascending, shape (n,).
        latest: which of them are latest, shape (n,) bool.
        vectors: how many vectors they have in all.
        mean: of the vectors of latest memories, shape (dimensions,); None where the reader caches the vectors anyway.
        covariance: of the same, shape (dimensions, dimensions).
    """

    ids: np.ndarray
    latest: np.ndarray
    vectors: int
    mean: np.ndarray | None = None
    covariance: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        """Size in bytes: about 73 for each string of 16 characters."""
        return 74 * len(self.ids) + (0 if self.covariance is None else self.covariance.nbytes)

    def cosine_stats(self, query: np.ndarray) -> ScoreStats:
        """Returns mean and deviation of the cosines of all latest memories with a unit query, without reading them.

        q.mean and q.C.q: exact where each memory has one vector, of all windows' cosines where some have several.
        """
        assert self.mean is not None and self.covariance is not None
        q = query.astype(np.float64)
        variance = float(q @ self.covariance @ q)
        return ScoreStats(float(q @ self.mean), max(variance, 0.0) ** 0.5)

    def pack(self) -> bytes:
        """Returns the bytes of it."""
        arrays = {"ids": self.ids, "latest": self.latest.astype(np.uint8), "vectors": np.array([self.vectors], "<i8")}
        if self.mean is not None and self.covariance is not None:
            arrays |= {"mean": self.mean, "covariance": self.covariance[np.triu_indices(len(self.mean))]}
        return pack_arrays(arrays)

    @classmethod
    def unpack(cls, data: bytes) -> "ScopeStats":
        """Reads what `pack` wrote."""
        arrays = unpack_arrays(data)
        ids, latest = np.array(arrays["ids"], dtype=object), arrays["latest"].astype(bool)
        vectors = int(arrays["vectors"][0])
        if "mean" not in arrays:
            return cls(ids, latest, vectors)
        dimensions = len(arrays["mean"])
        covariance = np.zeros((dimensions, dimensions))
        covariance[np.triu_indices(dimensions)] = arrays["covariance"]
        covariance += np.triu(covariance, 1).T
        return cls(ids, latest, vectors, arrays["mean"], covariance)


def mean_and_covariance(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns mean and covariance of vectors, shapes (dimensions,) and (dimensions, dimensions)."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    covariance = np.zeros((vectors.shape[1], vectors.shape[1]))
    for start in range(0, len(vectors), 8192):
        part = vectors[start : start + 8192].astype(np.float64) - mean
        covariance += part.T @ part
    return mean, covariance / max(1, len(vectors))


def blocks_for(vectors: int) -> int:
    """Returns the number of blocks of a scope's vectors: a power of two, so that growth seldom moves them all."""
    return 1 << max(0, -(-vectors // _VECTORS_PER_BLOCK) - 1).bit_length()


def sentence_blocks_for(memories: int) -> int:
    """Returns the number of blocks of a scope's sentences: a power of two."""
    return 1 << max(0, -(-memories // _MEMORIES_PER_BLOCK) - 1).bit_length()


def buckets_for(postings: int) -> int:
    """Returns the number of buckets of a scope's postings."""
    return max(1, -(-postings // _POSTINGS_PER_BUCKET))


def bucket_of(name: str, buckets: int) -> int:
    """Returns the bucket of a term, or the block of a memory id."""
    return zlib.crc32(name.encode("utf-8", "surrogatepass")) % buckets


def pack_block(counts: np.ndarray, vectors: np.ndarray) -> bytes:
    """Returns the bytes of some memories' vectors: how many each has, shape (n,), and the vectors below each other."""
    return pack_arrays({"counts": counts.astype("<i4"), "vectors": vectors.astype("<f4")})


def unpack_block(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Reads what `pack_block` wrote."""
    arrays = unpack_arrays(data)
    return arrays["counts"], arrays["vectors"]


def pack_postings(
    terms: list[str], df: np.ndarray, rows: np.ndarray, scores: np.ndarray
) -> Iterator[tuple[int, bytes]]:
    """Yields (bucket, bytes) of a scope's words.

    Args:
        terms: ascending.
        df: postings of each term, shape (terms,).
        rows: local rows, by term, shape (sum of df,) int32.
        scores: BM25 of each, float32.
    """
    buckets = buckets_for(len(rows))
    bucket = np.array([bucket_of(t, buckets) for t in terms], np.int64)
    first = np.cumsum(df) - df
    for b in np.unique(bucket).tolist():
        mine = np.flatnonzero(bucket == b)
        at = np.concatenate([np.arange(first[i], first[i] + df[i]) for i in mine])
        arrays = {"df": df[mine].astype("<i4"), "rows": rows[at].astype("<i4"), "scores": scores[at].astype("<f4")}
        yield b, pack_arrays({**arrays, "terms": [terms[i] for i in mine]})


def unpack_postings(data: bytes) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Reads what `pack_postings` wrote: local rows and scores by term."""
    arrays = unpack_arrays(data)
    df, rows, scores = arrays["df"], arrays["rows"], arrays["scores"]
    ends = np.cumsum(df).tolist()
    return {t: (rows[e - n : e], scores[e - n : e]) for t, n, e in zip(arrays["terms"], df.tolist(), ends, strict=True)}


def pack_parts(db: duckdb.DuckDBPyConnection, at: Range) -> Iterator[tuple[str, bytes]]:
    """Yields (name, bytes) of the parts of one scope of an index: those of `scope_parts`, and blocks of sentences."""

    def query(sql: str, values: Mapping[str, object], /) -> duckdb.DuckDBPyConnection:
        return db.execute(sql, values)

    hashes, first_entity = np.zeros(0, "<i8"), 0
    for part in PARTS:
        if not (arrays := read_part(query, at, part)):
            continue
        if part == "passages":
            # Numbers of entities shift with every build: sentences name them by hashes of their ids.
            first_entity = int(arrays.pop("first_entity")[0])
            hashes = np.array([name_key(i) for i in entity_ids(query, at)], "<i8")
            arrays |= {"hashes": hashes, "blocks": np.array([sentence_blocks_for(at.size)], "<i4")}
        yield part, pack_arrays(arrays)
    yield from _pack_sentences(query(_SENTENCES, at.rows).fetchall(), hashes, first_entity, at.size)


def _pack_sentences(found: list[Any], hashes: np.ndarray, first_entity: int, size: int) -> Iterator[tuple[str, bytes]]:
    """Yields (name, bytes) of blocks of sentences; `named` is 1 where what each sentence names is known."""
    count = sentence_blocks_for(size)
    by_block: dict[int, list[Any]] = {}
    for memory in found:
        by_block.setdefault(bucket_of(memory[0], count), []).append(memory)
    for block, memories in sorted(by_block.items()):
        entities = [np.asarray(numbers, np.int64) - first_entity for _, _, _, numbers, *_ in memories]
        named = [counts or [0] * (len(spans) // 2) for _, spans, counts, *_ in memories]
        arrays: Arrays = {
            "ids": [i for i, *_ in memories],
            "sizes": np.array([len(spans) // 2 for _, spans, *_ in memories], "<i4"),
            "spans": np.concatenate([np.asarray(spans, "<i4") for _, spans, *_ in memories]),
            "named": np.array([bool(counts) for _, _, counts, *_ in memories], "<i4"),
            "counts": np.concatenate([np.asarray(counts, "<i4") for counts in named]),
            "entities": hashes[np.concatenate(entities)].astype("<i8"),
            "vectors": _sentence_vectors(memories),
            "term_counts": np.concatenate([np.asarray(counts, "<i4") for *_, counts, _ in memories]),
            "terms": np.frombuffer(b"".join(terms for *_, terms in memories), "<i8"),
        }
        yield f"sentences:{block}", pack_arrays(arrays)


def _sentence_vectors(found: list[Any]) -> np.ndarray:
    """Returns the vectors of sentences, shape (n, dimensions), float16; those without vectors give no rows."""
    sizes = [(len(counts), len(data)) for _, _, counts, _, data, *_ in found if data]
    dimensions = sizes[0][1] // 2 // sizes[0][0] if sizes else DIMENSIONS
    return np.frombuffer(b"".join(v or b"" for _, _, _, _, v, *_ in found), "<f2").reshape(-1, dimensions)
