"""The protocol by which a store reads the graph of a scope: sets of ids in, rows out, one statement each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from palimpsest.query.request.types import Edge, Fact, Node
from palimpsest.query.scope.scope_arrays import known_rows

Ends = tuple[str, str]
"""The ids of the two nodes of a link, in its direction."""


@dataclass(frozen=True)
class NamedTogether:
    """A node and another that memories of it name too.

    Attributes:
        ends: ids of the node and of the other.
        share: of the memories of the node, above 0 up to 1.
        memory_ids: the first of those that name both, ascending.
    """

    ends: Ends
    share: float
    memory_ids: tuple[str, ...]


class GraphScope(Protocol):
    """The nodes, edges and facts of one scope of one build. Every method is safe to call from several threads.

    It returns what the build has, whatever the filters of a search: what is shown is read through
    `scope.served_graph.ServedGraph`. An id that the scope does not have is left out of every answer.
    """

    def nodes(self, ids: Sequence[str]) -> dict[str, Node]:
        """Returns the nodes among `ids`, by id."""

    def nodes_named(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Returns the ids of the nodes with a name or an alias, by the `name_words` of it, each list ascending."""

    def nodes_with_word(self, words: Sequence[str]) -> dict[str, list[str]]:
        """Returns the ids of the nodes with a word in a name of several words, by that word, each list ascending.

        Categories, concepts, dates and topics are found by whole names only.
        """

    def nodes_of_type(self, types: Sequence[str], n: int) -> list[str]:
        """Returns the ids of the `n` most important nodes of some types, most important first, ties to the lower id.

        No types means all.
        """

    def nearest_nodes(self, vector: np.ndarray, n: int, types: Sequence[str] = ()) -> list[tuple[str, float]]:
        """Returns the ids and cosines of the `n` nodes whose vectors are nearest, best first, ties to the lower id.

        Args:
            vector: a unit vector in the space of the scope, shape (dimensions,) float32.
            n: how many.
            types: only of these; none means all.
        """

    def node_cosines(self, vector: np.ndarray, ids: Sequence[str]) -> dict[str, float]:
        """Returns the cosine of each node among `ids` that has a vector."""

    def edges_of(self, node_ids: Sequence[str], types: Sequence[str] = (), *, within: bool = False) -> list[Edge]:
        """Returns the edges that lead from or to any of some nodes, by source, target and type.

        Args:
            node_ids: the nodes.
            types: only of these; none means all.
            within: only those between two of the nodes.
        """

    def facts_of(self, node_ids: Sequence[str], *, within: bool = False) -> list[Fact]:
        """Returns the facts whose subject or object is any of some nodes, by id.

        Args:
            node_ids: the nodes.
            within: only those whose subject, and object where that is a node, are among the nodes.
        """

    def facts_of_memories(self, memory_ids: Sequence[str]) -> list[Fact]:
        """Returns the facts that any of some memories states, by id."""

    def members_of(self, node_ids: Sequence[str]) -> dict[str, Mapping[str, float]]:
        """Returns the memories that name each node or belong to it: relevance by memory id, by node id."""

    def nodes_of_memories(self, memory_ids: Sequence[str]) -> dict[str, list[str]]:
        """Returns the ids of the nodes that each memory names or belongs to, by memory id, each list ascending."""

    def links_of(self, node_ids: Sequence[str], types: Sequence[str] = ()) -> tuple[list[Ends], list[Ends]]:
        """Returns the ends of the edges, and of the facts between nodes, that `edges_of` and `facts_of` return.

        Each pair comes once, in the order of its first edge or fact. For walks, which need no more of them.

        Args:
            node_ids: the nodes.
            types: types of edges and predicates of facts; none means all.
        """

    def named_together(self, node_ids: Sequence[str], n: int, memories: int) -> list[NamedTogether]:
        """Returns for each of some nodes, ascending, the `n` nodes that most of its memories name too.

        Args:
            node_ids: the nodes.
            n: how many of each, those with most memories first, ties to the lower id.
            memories: ids of memories of each pair.
        """


# The vectors of the nodes of a scope, and which of them are nearest to a query: the same over every backend.


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
