"""What a reader needs of a whole scope, packed into bytes: its ids, which are latest, moments of its vectors, words."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from palimpsest.neo4j_graph.model import DIMENSIONS
from palimpsest.query.request.types import Moments

_PER_BUCKET = 8192  # postings
_PER_BLOCK = 512  # vectors
_TRIANGLE = np.triu_indices(DIMENSIONS)


@dataclass(frozen=True)
class ScopeStats:
    """A scope at a glance.

    Attributes:
        ids: memory ids, ascending, shape (n,).
        latest: which of them are latest, shape (n,) bool.
        vectors: how many vectors they have in all.
        mean: of the vectors of latest memories, shape (384,); None where the reader holds the scope's vectors anyway.
        covariance: of the same, shape (384, 384).
    """

    ids: np.ndarray
    latest: np.ndarray
    vectors: int
    mean: np.ndarray | None = None
    covariance: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        """Bytes held: about 73 for each string of 16 characters."""
        return 74 * len(self.ids) + (0 if self.covariance is None else self.covariance.nbytes)

    def cosine_moments(self, query: np.ndarray) -> Moments:
        """Returns mean and deviation of the cosines of all latest memories with a unit query, without reading them.

        q.mean and q.C.q: exact where each memory has one vector, of all windows' cosines where some have several.
        """
        assert self.mean is not None and self.covariance is not None
        q = query.astype(np.float64)
        variance = float(q @ self.covariance @ q)
        return Moments(float(q @ self.mean), max(variance, 0.0) ** 0.5)

    def pack(self) -> bytes:
        """Returns the bytes of it."""
        ids = "\n".join(self.ids.tolist()).encode()
        held = self.mean is not None
        head = np.array([len(self.ids), len(ids), self.vectors, held], "<i8").tobytes()
        parts = [head, ids, np.packbits(self.latest).tobytes()]
        if self.mean is not None and self.covariance is not None:
            parts += [self.mean.astype("<f8").tobytes(), self.covariance[_TRIANGLE].astype("<f8").tobytes()]
        return b"".join(parts)

    @classmethod
    def unpack(cls, data: bytes) -> "ScopeStats":
        """Reads what `pack` wrote."""
        count, size, vectors, held = np.frombuffer(data, "<i8", 4).tolist()
        at = 32 + size
        ids = np.array(data[32:at].decode().split("\n") if count else [], dtype=object)
        flags = -(-count // 8)
        latest = np.unpackbits(np.frombuffer(data, np.uint8, flags, at), count=count).astype(bool)
        if not held:
            return cls(ids, latest, vectors)
        mean = np.frombuffer(data, "<f8", DIMENSIONS, at + flags)
        covariance = np.zeros((DIMENSIONS, DIMENSIONS))
        covariance[_TRIANGLE] = np.frombuffer(data, "<f8", len(_TRIANGLE[0]), at + flags + 8 * DIMENSIONS)
        covariance += np.triu(covariance, 1).T
        return cls(ids, latest, vectors, mean, covariance)


def vector_moments(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns mean and covariance of vectors, shapes (384,) and (384, 384)."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    covariance = np.zeros((DIMENSIONS, DIMENSIONS))
    for start in range(0, len(vectors), 8192):
        part = vectors[start : start + 8192].astype(np.float64) - mean
        covariance += part.T @ part
    return mean, covariance / max(1, len(vectors))


def blocks_for(vectors: int) -> int:
    """Returns in how many blocks a scope's vectors are kept: a power of two, so that growth seldom moves them all."""
    return 1 << max(0, -(-vectors // _PER_BLOCK) - 1).bit_length()


def pack_block(counts: np.ndarray, vectors: np.ndarray) -> bytes:
    """Returns the bytes of some memories' vectors: how many each has, shape (n,), and the vectors below each other."""
    return np.array([len(counts)], "<i8").tobytes() + counts.astype("<i4").tobytes() + vectors.astype("<f4").tobytes()


def unpack_block(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Reads what `pack_block` wrote."""
    count = int(np.frombuffer(data, "<i8", 1)[0])
    counts = np.frombuffer(data, "<i4", count, 8)
    return counts, np.frombuffer(data, "<f4", -1, 8 + 4 * count).reshape(-1, DIMENSIONS)


def buckets_for(postings: int) -> int:
    """Returns in how many buckets a scope's postings are kept."""
    return max(1, -(-postings // _PER_BUCKET))


def bucket_of(term: str, buckets: int) -> int:
    """Returns the bucket that holds a term, or the block that holds a memory id."""
    return zlib.crc32(term.encode("utf-8", "surrogatepass")) % buckets


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
        places = np.concatenate([np.arange(first[i], first[i] + df[i]) for i in mine])
        words = "\n".join(terms[i] for i in mine).encode("utf-8", "surrogatepass")
        head = np.array([len(mine), len(words), len(places)], "<i8").tobytes()
        packed = (df[mine].astype("<i4"), rows[places].astype("<i4"), scores[places].astype("<f4"))
        yield b, head + words + b"".join(p.tobytes() for p in packed)


def unpack_postings(data: bytes) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Reads what `pack_postings` wrote: local rows and scores by term."""
    count, size, postings = np.frombuffer(data, "<i8", 3).tolist()
    at = 24 + size
    terms = data[24:at].decode("utf-8", "surrogatepass").split("\n") if count else []
    df = np.frombuffer(data, "<i4", count, at)
    rows = np.frombuffer(data, "<i4", postings, at + 4 * count)
    scores = np.frombuffer(data, "<f4", postings, at + 4 * count + 4 * postings)
    ends = np.cumsum(df).tolist()
    return {t: (rows[e - n : e], scores[e - n : e]) for t, n, e in zip(terms, df.tolist(), ends, strict=True)}
