"""Which nodes of a scope are linked, as arrays that are cached by build: walks follow them without a statement."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np

from palimpsest.query.backends.part_query import Range
from palimpsest.query.scope.scope_graph import Adjacency

_BETWEEN = "WHERE node BETWEEN $first_node AND $last_node"
_MEMBERS = f"SELECT node, row, relevance FROM node_members {_BETWEEN} ORDER BY node, row"
_EDGES = "SELECT source, target, type FROM edges WHERE scope = $scope ORDER BY source, target, type"
_FACTS = "SELECT subject, object, predicate FROM facts WHERE scope = $scope AND object IS NOT NULL ORDER BY fact"

Run = Callable[[str, Mapping[str, object]], duckdb.DuckDBPyConnection]


@dataclass(frozen=True)
class NodeIndex:
    """The nodes of a scope: ids ascending, so that their numbers follow each other from `first` on.

    Attributes:
        first: number of the first.
        ids: shape (nodes,) object.
        types: shape (nodes,) object.
        importance: shape (nodes,) float64, 0 where it is unknown.
    """

    first: int
    ids: np.ndarray
    types: np.ndarray
    importance: np.ndarray

    @property
    def bounds(self) -> dict[str, int]:
        """Values of a statement that reads by the numbers of the nodes."""
        return {"first_node": self.first, "last_node": self.first + len(self.ids) - 1}

    @property
    def nbytes(self) -> int:
        """Size in bytes: about 73 for each id; types are shared."""
        return 97 * len(self.ids)


@dataclass(frozen=True)
class Pairs:
    """Links in one direction.

    Attributes:
        sources, targets: places of nodes, each shape (links,) int32.
        codes: place of the type of each link among `types`, shape (links,) int32.
        types: the types, ascending.
        size: nodes of the scope.
    """

    sources: np.ndarray
    targets: np.ndarray
    codes: np.ndarray
    types: np.ndarray
    size: int

    @property
    def nbytes(self) -> int:
        """Size in bytes, without the few types."""
        return self.sources.nbytes + self.targets.nbytes + self.codes.nbytes

    def touching(self, places: Sequence[int], types: Sequence[str]) -> np.ndarray:
        """Returns the ends of the links to or from some nodes, each pair once, in the order stored.

        Args:
            places: of the nodes.
            types: only of these; none means all.

        Returns:
            Places of nodes, shape (pairs, 2) int64.
        """
        is_wanted = np.zeros(self.size, bool)
        is_wanted[list(places)] = True
        kept = is_wanted[self.sources] | is_wanted[self.targets]
        if types:
            kept &= np.isin(self.codes, np.flatnonzero(np.isin(self.types, list(types))))
        pairs = np.column_stack((self.sources[kept], self.targets[kept])).astype(np.int64)
        _, first = np.unique(pairs[:, 0] * self.size + pairs[:, 1], return_index=True)
        ordered: np.ndarray = pairs[np.sort(first)]
        return ordered


@dataclass(frozen=True)
class NodeLinks:
    """The links of a scope: edges, facts, and from nodes to memories and back.

    Attributes:
        edges, facts: see Pairs; edges by source, target and type, facts between nodes by id.
        rows: local rows of the memories of each node.
        relevance: of each of those, shape (members,) float32.
        nodes: places of the nodes of each memory.
    """

    edges: Pairs
    facts: Pairs
    rows: Adjacency
    relevance: np.ndarray
    nodes: Adjacency

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return sum(part.nbytes for part in (self.edges, self.facts, self.rows, self.relevance, self.nodes))

    @classmethod
    def load(cls, run: Run, at: Range, index: NodeIndex) -> "NodeLinks":
        """Reads the links of a scope.

        Args:
            run: runs a statement of the index.
            at: where the scope is.
            index: its nodes.
        """
        found = run(_MEMBERS, index.bounds).fetchnumpy()
        node, row = found["node"] - index.first, found["row"] - at.first
        return cls(
            _pairs(run(_EDGES, at.scope).fetchnumpy(), index),
            _pairs(run(_FACTS, at.scope).fetchnumpy(), index),
            Adjacency.of(node, row, len(index.ids)),
            found["relevance"],
            Adjacency.of(row, node, at.size),
        )

    def members(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the local rows of the memories of a node, ascending, and their relevance."""
        return self.rows[place], self.relevance[self.rows.starts[place] : self.rows.starts[place + 1]]

    def together(self, place: int, n: int, rows: int) -> Iterator[tuple[int, float, np.ndarray]]:
        """Yields the `n` nodes that most memories of a node name too, those with most first, ties to the lower place.

        Each is its place, the share of the node's memories that name both, and the first `rows` local rows of those.
        """
        mine = self.rows[place]
        named, row = self.nodes.of_all(mine), np.repeat(mine, self.nodes.starts[mine + 1] - self.nodes.starts[mine])
        counts = np.bincount(named, minlength=place + 1)
        counts[place] = 0
        found = np.flatnonzero(counts)
        for other in found[np.argsort(-counts[found], kind="stable")[:n]]:
            yield int(other), int(counts[other]) / len(mine), row[named == other][:rows]


def _pairs(links: Mapping[str, np.ndarray], index: NodeIndex) -> Pairs:
    """Returns links by place: `links` are columns of the numbers of both ends and of the type, in this order."""
    sources, targets, types = links.values()
    names, codes = np.unique(np.asarray(types, object), return_inverse=True)
    first, last = ((np.asarray(ends) - index.first).astype(np.int32) for ends in (sources, targets))
    return Pairs(first, last, codes.astype(np.int32), names, len(index.ids))
