"""The graph of a scope of a DuckDB index; implements `scope.graph_scope.GraphScope`."""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.backends.duckdb_scope import DuckDBScope
from palimpsest.query.backends.scope_parts import Range
from palimpsest.query.request.types import NODE_TIMES, STORED_NODE_FIELDS, Edge, Fact, Node
from palimpsest.query.scope.graph_reads import Ends, NamedTogether, NodeVectors
from palimpsest.query.scope.scope_arrays import known_rows
from palimpsest.query.scope.scope_graph import Adjacency

# Which nodes of a scope are linked, as arrays that are cached by build: walks follow them without a statement.

_BETWEEN = "WHERE node BETWEEN $first_node AND $last_node"
_MEMBERS = f"SELECT node, row, relevance FROM node_members {_BETWEEN} ORDER BY node, row"
_LINKED_EDGES = "SELECT source, target, type FROM edges WHERE scope = $scope ORDER BY source, target, type"
_LINKED_FACTS = "SELECT subject, object, predicate FROM facts WHERE scope = $scope AND object IS NOT NULL ORDER BY fact"

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
            _pairs(run(_LINKED_EDGES, at.scope).fetchnumpy(), index),
            _pairs(run(_LINKED_FACTS, at.scope).fetchnumpy(), index),
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


_NODES = f"SELECT {', '.join(STORED_NODE_FIELDS)} FROM nodes WHERE scope = $scope AND node IN (SELECT unnest($nodes))"
_NODE_IDS = "SELECT node, node_id, type, importance FROM nodes WHERE scope = $scope ORDER BY node"
_NAMED = """
    SELECT name, node FROM node_names
    WHERE scope = $scope AND is_whole = $is_whole AND name IN (SELECT unnest($names)) ORDER BY name, node"""
_VECTORS = "SELECT node, vector FROM node_vectors WHERE node BETWEEN $first_node AND $last_node ORDER BY node"
_EDGES = """
    SELECT source, target, type, weight, provenance, rows, created_at, updated_at FROM edges
    WHERE scope = $scope AND (source IN (SELECT unnest($nodes)) OR target IN (SELECT unnest($nodes)))
    ORDER BY source, target, type"""
_EDGES_WITHIN = _EDGES.replace("$nodes)) OR", "$nodes)) AND")
_FACT_COLUMNS = """
    SELECT fact_id, subject, predicate, object, value, is_negated, modality, valid_from, valid_until, is_latest,
           rows, confidence
    FROM facts"""
_FACTS = f"""{_FACT_COLUMNS}
    WHERE scope = $scope AND (subject IN (SELECT unnest($nodes)) OR object IN (SELECT unnest($nodes)))
    ORDER BY fact"""
_FACTS_WITHIN = f"""{_FACT_COLUMNS}
    WHERE scope = $scope AND subject IN (SELECT unnest($nodes))
      AND (object IS NULL OR object IN (SELECT unnest($nodes)))
    ORDER BY fact"""
_FACTS_OF_ROWS = f"""{_FACT_COLUMNS}
    WHERE scope = $scope AND fact IN (
        SELECT fact FROM fact_members
        WHERE row BETWEEN $first AND $last AND row IN (SELECT unnest($rows)))
    ORDER BY fact"""


class DuckDBGraph:
    """See GraphScope.

    Args:
        view: of the scope.

    Raises:
        PalimpsestError: the build was made before nodes were indexed.
    """

    def __init__(self, view: DuckDBScope):
        self._view, self._at = view, view.at
        try:
            self._index = view.cached("nodes", self._load_index)
        except duckdb.CatalogException:
            raise PalimpsestError("graph: this build has no nodes; run palimpsest build again") from None

    def nodes(self, ids: Sequence[str]) -> dict[str, Node]:
        """See GraphScope."""
        found = self._run(_NODES, {"nodes": self._numbers(ids)})
        return {values[0]: _node(values) for values in found}

    def nodes_named(self, names: Sequence[str]) -> dict[str, list[str]]:
        """See GraphScope."""
        return self._named(names, is_whole=True)

    def nodes_with_word(self, words: Sequence[str]) -> dict[str, list[str]]:
        """See GraphScope."""
        return self._named(words, is_whole=False)

    def nodes_of_type(self, types: Sequence[str], n: int) -> list[str]:
        """See GraphScope."""
        index = self._index
        places = np.flatnonzero(np.isin(index.types, list(types))) if types else np.arange(len(index.ids))
        best = places[np.argsort(-index.importance[places], kind="stable")[:n]]
        ids: list[str] = index.ids[best].tolist()
        return ids

    def nearest_nodes(self, vector: np.ndarray, n: int, types: Sequence[str] = ()) -> list[tuple[str, float]]:
        """See GraphScope."""
        return self._vectors().nearest(vector, n, types)

    def node_cosines(self, vector: np.ndarray, ids: Sequence[str]) -> dict[str, float]:
        """See GraphScope."""
        return self._vectors().cosines_of(vector, ids)

    def edges_of(self, node_ids: Sequence[str], types: Sequence[str] = (), *, within: bool = False) -> list[Edge]:
        """See GraphScope."""
        found = self._run(_EDGES_WITHIN if within else _EDGES, {"nodes": self._numbers(node_ids)})
        memory_ids = self._view.ids
        return [self._edge(values, memory_ids) for values in found if not types or values[2] in types]

    def facts_of(self, node_ids: Sequence[str], *, within: bool = False) -> list[Fact]:
        """See GraphScope."""
        found = self._run(_FACTS_WITHIN if within else _FACTS, {"nodes": self._numbers(node_ids)})
        memory_ids = self._view.ids
        return [self._fact(values, memory_ids) for values in found]

    def facts_of_memories(self, memory_ids: Sequence[str]) -> list[Fact]:
        """See GraphScope."""
        found = self._run(_FACTS_OF_ROWS, {**self._at.rows, "rows": self._rows(memory_ids)})
        ids = self._view.ids
        return [self._fact(values, ids) for values in found]

    def members_of(self, node_ids: Sequence[str]) -> dict[str, Mapping[str, float]]:
        """See GraphScope."""
        links, ids = self._links(), self._view.ids
        found: dict[str, Mapping[str, float]] = {}
        for node_id, place in sorted(known_rows(self._index.ids, node_ids).items()):
            rows, relevance = links.members(place)
            if len(rows):
                found[node_id] = dict(zip(ids[rows].tolist(), relevance.tolist(), strict=True))
        return found

    def nodes_of_memories(self, memory_ids: Sequence[str]) -> dict[str, list[str]]:
        """See GraphScope."""
        links, ids = self._links(), self._index.ids
        found: dict[str, list[str]] = {}
        for memory_id, row in sorted(known_rows(self._view.ids, memory_ids).items()):
            if len(places := links.nodes[row]):
                found[memory_id] = ids[places].tolist()
        return found

    def links_of(self, node_ids: Sequence[str], types: Sequence[str] = ()) -> tuple[list[Ends], list[Ends]]:
        """See GraphScope."""
        links = self._links()
        places = list(known_rows(self._index.ids, node_ids).values())
        return self._ends(links.edges.touching(places, types)), self._ends(links.facts.touching(places, types))

    def named_together(self, node_ids: Sequence[str], n: int, memories: int) -> list[NamedTogether]:
        """See GraphScope."""
        links, ids, memory_ids = self._links(), self._index.ids, self._view.ids
        return [
            NamedTogether((node_id, ids[other]), share, tuple(memory_ids[rows].tolist()))
            for node_id, place in sorted(known_rows(ids, node_ids).items())
            for other, share, rows in links.together(place, n, memories)
        ]

    def _ends(self, places: np.ndarray) -> list[Ends]:
        sources, targets = (self._index.ids[places[:, side]].tolist() for side in (0, 1))
        return list(zip(sources, targets, strict=True))

    def _named(self, names: Sequence[str], *, is_whole: bool) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, node in self._run(_NAMED, {"names": sorted(set(names)), "is_whole": is_whole}):
            found.setdefault(name, []).append(self._node_id(node))
        return found

    def _run(self, sql: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Returns the rows of a statement that reads by the number of the scope."""
        return self._read(sql, {**self._at.scope, **values})

    def _read(self, sql: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Returns the rows of a statement; none where what it looks for is an empty list, which has no type."""
        if any(value == [] for value in values.values()):
            return []
        rows: list[tuple[Any, ...]] = self._view.run(sql, values).fetchall()
        return rows

    def _numbers(self, node_ids: Sequence[str]) -> list[int]:
        return sorted(self._index.first + place for place in known_rows(self._index.ids, node_ids).values())

    def _rows(self, memory_ids: Sequence[str]) -> list[int]:
        return sorted(self._at.first + row for row in known_rows(self._view.ids, memory_ids).values())

    def _node_id(self, number: int) -> str:
        return str(self._index.ids[number - self._index.first])

    def _edge(self, values: Sequence[Any], memory_ids: np.ndarray) -> Edge:
        source, target, kind, weight, provenance, rows, created, updated = values
        ends = self._node_id(source), self._node_id(target)
        return Edge(*ends, kind, weight, provenance, self._ids_of(rows, memory_ids), _utc(created), _utc(updated))

    def _fact(self, values: Sequence[Any], memory_ids: np.ndarray) -> Fact:
        fact_id, subject, predicate, other, value, is_negated, modality, since, until, is_latest, rows, confidence = (
            values
        )
        return Fact(
            fact_id,
            self._node_id(subject),
            predicate,
            None if other is None else self._node_id(other),
            value,
            bool(is_negated),
            modality,
            _utc(since),
            _utc(until),
            is_latest,
            self._ids_of(rows, memory_ids),
            confidence,
        )

    def _ids_of(self, rows: Sequence[int], memory_ids: np.ndarray) -> tuple[str, ...]:
        first = self._at.first
        return tuple(memory_ids[row - first] for row in rows)

    def _load_index(self) -> NodeIndex:
        found = self._view.run(_NODE_IDS, self._at.scope).fetchnumpy()
        importance = np.ma.filled(np.ma.asarray(found["importance"], np.float64), 0.0)
        ids, types = (np.asarray(found[n], dtype=object) for n in ("node_id", "type"))
        return NodeIndex(int(found["node"][0]) if len(ids) else 0, ids, types, importance)

    def _links(self) -> NodeLinks:
        return self._view.cached("node links", lambda: NodeLinks.load(self._view.run, self._at, self._index))

    def _vectors(self) -> NodeVectors:
        return self._view.cached("node vectors", self._load_vectors)

    def _load_vectors(self) -> NodeVectors:
        index = self._index
        found = self._read(_VECTORS, index.bounds)
        places = np.array([node for node, _ in found], np.int64) - index.first
        return NodeVectors.from_bytes(
            index.ids[places].tolist(), index.types[places].tolist(), [vector for _, vector in found]
        )


def _node(values: Sequence[Any]) -> Node:
    fields = dict(zip(STORED_NODE_FIELDS, values, strict=True))
    times = {name: _utc(fields[name]) for name in NODE_TIMES}
    count = fields["memory_count"] or 0
    return Node(**(fields | times | {"aliases": tuple(fields["aliases"] or ()), "memory_count": count}))


def _utc(time: dt.datetime | None) -> dt.datetime | None:
    return time.replace(tzinfo=dt.UTC) if time else None
