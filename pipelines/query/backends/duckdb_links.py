"""Which nodes of a scope are linked, as arrays that are cached by build: walks follow them without a statement."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np

from palimpsest.query.scope.scope_graph import Adjacency

_BETWEEN = "WHERE node BETWEEN $first_node AND $last_node"
_MEMBERS = f"SELECT node, row, relevance FROM node_members {_BETWEEN} ORDER BY node, row"
_EDGES = "SELECT source, target, type FROM edges WHERE scope = $scope ORDER BY source, target, type"
_FACTS = "SELECT subject, coalesce(object, -1) AS object, predicate FROM facts WHERE scope = $scope ORDER BY fact"

Run = Callable[[str, Mapping[str, object]], duckdb.DuckDBPyConnection]


@dataclass(frozen=True)
class Pairs:
    """Links in one direction.

    Attributes:
        sources, targets: places of nodes, each shape (links,) int32; a target of -1 is no node.
        codes: place of the type of each link among `types`, shape (links,) int32.
        types: the types, ascending.
    """

    sources: np.ndarray
    targets: np.ndarray
    codes: np.ndarray
    types: np.ndarray

    @property
    def nbytes(self) -> int:
        """Size in bytes, without the few types."""
        return self.sources.nbytes + self.targets.nbytes + self.codes.nbytes

    def touching(self, is_wanted: np.ndarray, types: Sequence[str]) -> np.ndarray:
        """Returns the ends of the links to or from wanted nodes, each pair once, in the order stored.

        Args:
            is_wanted: of each node, with one more value for a target that is no node.
            types: only of these; none means all.

        Returns:
            Places of nodes, shape (pairs, 2) int64.
        """
        kept = is_wanted[self.sources] | is_wanted[self.targets]
        if types:
            kept &= np.isin(self.codes, np.flatnonzero(np.isin(self.types, list(types))))
        pairs = np.column_stack((self.sources[kept], self.targets[kept])).astype(np.int64)
        keys = pairs[:, 0] * len(is_wanted) + pairs[:, 1]
        _, first = np.unique(keys, return_index=True)
        ordered: np.ndarray = pairs[np.sort(first)]
        return ordered


@dataclass(frozen=True)
class Together:
    """Nodes that most memories of a node name too, those with most first, ties to the lower place.

    Attributes:
        others: places of nodes, shape (found,).
        counts: memories that name both, shape (found,).
        size: memories of the node.
        rows: local rows of the first memories that name both, ascending, of each other node.
    """

    others: np.ndarray
    counts: np.ndarray
    size: int
    rows: list[np.ndarray]


@dataclass(frozen=True)
class NodeLinks:
    """The links of a scope: edges, facts, and from nodes to memories and back.

    Attributes:
        edges, facts: see Pairs; edges by source, target and type, facts by id.
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
    def load(cls, run: Run, scope: int, first_node: int, nodes: int, first_row: int, rows: int) -> "NodeLinks":
        """Reads the links of a scope.

        Args:
            run: runs a statement of the index.
            scope: its number.
            first_node: number of its first node.
            nodes: how many it has.
            first_row: number of its first memory.
            rows: how many it has.
        """
        bounds = {"first_node": first_node, "last_node": first_node + nodes - 1}
        found = run(_MEMBERS, bounds).fetchnumpy()
        node, row = found["node"] - first_node, found["row"] - first_row
        edges, facts = (run(sql, {"scope": scope}).fetchnumpy() for sql in (_EDGES, _FACTS))
        return cls(
            _pairs(edges["source"], edges["target"], edges["type"], first_node),
            _pairs(facts["subject"], facts["object"], facts["predicate"], first_node),
            Adjacency.of(node, row, nodes),
            found["relevance"],
            Adjacency.of(row, node, rows),
        )

    def wanted(self, places: Sequence[int]) -> np.ndarray:
        """Returns whether each node is at one of some places; the last value, for what is no node, is false."""
        flags = np.zeros(len(self.rows.starts), bool)
        flags[list(places)] = True
        return flags

    def members(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the local rows of the memories of a node, ascending, and their relevance."""
        return self.rows[place], self.relevance[self.rows.starts[place] : self.rows.starts[place + 1]]

    def together(self, place: int, n: int, rows: int) -> Together:
        """Returns the `n` nodes that most memories of a node name too, each with the first `rows` of those memories."""
        mine = self.rows[place]
        named, row = self.nodes.of_all(mine), np.repeat(mine, self.nodes.starts[mine + 1] - self.nodes.starts[mine])
        counts = np.bincount(named, minlength=1)
        counts[place : place + 1] = 0
        found = np.flatnonzero(counts)
        best = found[np.argsort(-counts[found], kind="stable")[:n]]
        return Together(best, counts[best], len(mine), [row[named == other][:rows] for other in best])


def _pairs(sources: np.ndarray, targets: np.ndarray, types: np.ndarray, first: int) -> Pairs:
    names, codes = np.unique(np.asarray(types, object), return_inverse=True)
    ends = (np.maximum(np.asarray(a, np.int64) - first, -1).astype(np.int32) for a in (sources, targets))
    first_ends, last_ends = ends
    return Pairs(first_ends, last_ends, codes.astype(np.int32), names)
