"""The vectors of the nodes of a scope, and which of them are nearest to a query: the same over every backend."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from palimpsest.query.scope.scope_arrays import known_rows


@dataclass(frozen=True)
class NodeVectors:
    """The vectors of the nodes of a scope that have memories.

    Attributes:
        ids: of the nodes, ascending, shape (nodes,) object.
        types: of the nodes, shape (nodes,) object.
        matrix: shape (nodes, dimensions) float32.
    """

    ids: np.ndarray
    types: np.ndarray
    matrix: np.ndarray

    @classmethod
    def from_bytes(cls, ids: Sequence[str], types: Sequence[str], vectors: Sequence[bytes]) -> "NodeVectors":
        """Returns them from float16 vectors as a build stores them, in the order of ids."""
        matrix = np.frombuffer(b"".join(vectors), "<f2").astype(np.float32)
        rows = matrix.reshape(len(ids), -1) if ids else matrix.reshape(0, 0)
        return cls(np.array(ids, dtype=object), np.array(types, dtype=object), rows)

    @property
    def nbytes(self) -> int:
        """Size in bytes: about 73 for each id; types are shared."""
        return 89 * len(self.ids) + self.matrix.nbytes

    def nearest(self, vector: np.ndarray, n: int, types: Sequence[str]) -> list[tuple[str, float]]:
        """See `GraphScope.nearest_nodes`."""
        if not len(self.ids):
            return []
        cosines = np.vecdot(self.matrix, vector).astype(float)  # BLAS threads cost more than they gain
        kept = np.flatnonzero(np.isin(self.types, list(types))) if types else np.arange(len(cosines))
        best = kept[np.argsort(-cosines[kept], kind="stable")[:n]]
        return list(zip(self.ids[best].tolist(), cosines[best].tolist(), strict=True))

    def cosines_of(self, vector: np.ndarray, ids: Sequence[str]) -> dict[str, float]:
        """See `GraphScope.node_cosines`."""
        return {i: float(self.matrix[row] @ vector) for i, row in known_rows(self.ids, ids).items()}
