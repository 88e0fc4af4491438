"""The nodes of a scope as arrays: what they are called, their vectors, memories and edges; and the search for nodes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from palimpsest.query.scope.scope_arrays import Arrays
from palimpsest.query.scope.scope_graph import Adjacency
from palimpsest.text.name_keys import find_named_entities, name_key
from palimpsest.text.terms import terms as terms_of

EDGE_TYPES = ("subtopic_of", "related_to", "part_of")
"""Types of the edges that a search of nodes follows, in both directions."""

DECAY = 0.7  # of a node's score, on each edge
_NAMED = 1.0  # added to a node that the question names, in standard deviations
_BYTES_OF_NAME = 400  # of a name, its key and its terms


@dataclass(frozen=True)
class NodeGraph:
    """Nodes by local number, in the order of their ids.

    Attributes:
        names: of each, shape (nodes,) object.
        types: of each, shape (nodes,) object.
        called: node of each name or alias, shape (aliases,).
        aliases: each name or alias, shape (aliases,) object.
        embedded: nodes with a vector, ascending.
        vectors: their unit vectors, shape (embedded, dimensions) float32.
        members: numbers of memberships by node.
        rows: local row of the memory of each membership.
        relevance: of each membership, 0..1.
        edges: numbers of edges by either end.
        ends: of each edge, shape (edges, 2).
        weights: of each edge, 0..1.
    """

    names: np.ndarray
    types: np.ndarray
    called: np.ndarray
    aliases: np.ndarray
    embedded: np.ndarray
    vectors: np.ndarray
    members: Adjacency
    rows: np.ndarray
    relevance: np.ndarray
    edges: Adjacency
    ends: np.ndarray
    weights: np.ndarray

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "NodeGraph":
        """Makes it of the part `nodes` of a scope; edges of other types than `EDGE_TYPES` are left out."""
        nothing = np.zeros(0, np.int64)
        names = np.asarray(arrays.get("names", []), dtype=object)
        node, row, called, embedded = (
            arrays.get(n, nothing).astype(np.int64) for n in ("member_node", "member_row", "called", "embedded")
        )
        source, target = (arrays.get(n, nothing).astype(np.int64) for n in ("source", "target"))
        number = np.arange(len(source))
        both = np.concatenate([source, target])
        return cls(
            names=names,
            types=np.asarray(arrays.get("types", []), dtype=object),
            called=called,
            aliases=np.asarray(arrays.get("aliases", []), dtype=object),
            embedded=embedded,
            vectors=arrays.get("vectors", np.zeros((0, 0))).astype(np.float32),
            members=Adjacency.of(node, np.arange(len(node)), len(names)),
            rows=row,
            relevance=arrays.get("relevance", np.zeros(0)).astype(np.float64),
            edges=Adjacency.of(both, np.concatenate([number, number]), len(names)),
            ends=np.stack([source, target], axis=1),
            weights=arrays.get("weights", np.zeros(0)).astype(np.float64),
        )

    @property
    def nbytes(self) -> int:
        """Size in bytes, about."""
        arrays = (self.vectors, self.rows, self.relevance, self.ends, self.weights, self.members, self.edges)
        return sum(a.nbytes for a in arrays) + _BYTES_OF_NAME * (len(self.names) + len(self.aliases))

    def search(self, vector: np.ndarray, text: str, terms: Iterable[str], types: Sequence[str], n: int) -> "Reached":
        """Returns the nodes that fit a question best, with scores above 0, ties to the lower number.

        The score is the z-score of the cosine with the node's vector, plus the share of a name's words that the
        question has, plus 1 where the question has the name itself.

        Args:
            vector: the question's unit vector, shape (dimensions,).
            text: the question.
            terms: its terms.
            types: of nodes; empty means all.
            n: how many, at most.
        """
        score = np.zeros(len(self.names))
        if len(self.embedded):
            cosines = np.vecdot(self.vectors, vector).astype(np.float64)
            score[self.embedded] = (cosines - cosines.mean()) / max(float(cosines.std()), 1e-9)
        score += self._shares(frozenset(terms))
        score[find_named_entities(text, lambda key: self._of_key.get(key, ()))] += _NAMED
        allowed = np.isin(self.types, list(types)) if types else np.ones(len(score), bool)
        rows = np.flatnonzero(allowed & (score > 0))
        best = rows[np.argsort(-score[rows], kind="stable")[:n]]
        return Reached(best, score[best])

    def expand(self, found: "Reached", depth: int) -> "Reached":
        """Returns the nodes found and those that `depth` edges reach from them, breadth first, ascending.

        A node that is reached scores `DECAY` times the edge's weight of where it is reached from, the most of several.
        """
        score = dict(zip(found.nodes.tolist(), found.scores.tolist(), strict=True))
        frontier = sorted(score)
        for _ in range(depth):
            lifted = set[int]()
            for node in frontier:
                for edge in self.edges[node].tolist():
                    a, b = self.ends[edge].tolist()
                    other, reached = (b if a == node else a), score[node] * DECAY * float(self.weights[edge])
                    if reached > score.get(other, 0.0):
                        score[other] = reached
                        lifted.add(other)
            frontier = sorted(lifted)
        nodes = sorted(score)
        return Reached(np.array(nodes, np.int64), np.array([score[i] for i in nodes]))

    def memberships(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns (place in `nodes`, local row, relevance) of each memory of some nodes."""
        numbers = self.members.of_all(nodes)
        sizes = self.members.starts[nodes + 1] - self.members.starts[nodes]
        return np.repeat(np.arange(len(nodes)), sizes), self.rows[numbers], self.relevance[numbers]

    def _shares(self, terms: frozenset[str]) -> np.ndarray:
        """Returns the share of each node's name, the best of its aliases, that a question's terms cover."""
        shares = np.zeros(len(self.names))
        sizes, of_term = self._terms
        counts = np.zeros(len(sizes))
        for term in terms:
            counts[of_term.get(term, [])] += 1
        used = np.flatnonzero(counts)
        np.maximum.at(shares, self.called[used], counts[used] / sizes[used])
        return shares

    @cached_property
    def _terms(self) -> tuple[np.ndarray, dict[str, list[int]]]:
        """How many terms each alias has, and the aliases of each term."""
        sizes, of_term = np.ones(len(self.aliases)), dict[str, list[int]]()
        for i, alias in enumerate(self.aliases.tolist()):
            found = set(terms_of(str(alias)))
            sizes[i] = max(1, len(found))
            for term in found:
                of_term.setdefault(term, []).append(i)
        return sizes, of_term

    @cached_property
    def _of_key(self) -> dict[int, list[int]]:
        of_key: dict[int, list[int]] = {}
        for node, alias in zip(self.called.tolist(), self.aliases.tolist(), strict=True):
            of_key.setdefault(name_key(str(alias)), []).append(node)
        return of_key


@dataclass(frozen=True)
class Reached:
    """Nodes by number and the score of each."""

    nodes: np.ndarray
    scores: np.ndarray
