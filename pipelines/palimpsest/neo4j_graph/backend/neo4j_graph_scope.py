"""The graph of a scope in Neo4j, one Cypher statement a read; implements `query.scope.graph_scope.GraphScope`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from palimpsest.neo4j_graph.backend.neo4j_reads import BuildReads
from palimpsest.neo4j_graph.cypher import graph_querying as cypher
from palimpsest.neo4j_graph.model import NODE_EDGES
from palimpsest.query.request.graph_types import FACT_TIMES, NODE_TIMES, STORED_NODE_FIELDS, Edge, Fact, Node
from palimpsest.query.request.types import Scope
from palimpsest.query.scope.byte_cache import ByteCache
from palimpsest.query.scope.graph_scope import Ends, NamedTogether
from palimpsest.query.scope.node_vectors import NodeVectors


class Neo4jGraphScope:
    """See GraphScope.

    Args:
        scope: the scope; the build has memories of it.
        reads: of the build.
        cache: of the vectors of nodes.
    """

    def __init__(self, scope: Scope, reads: BuildReads, cache: ByteCache):
        self._scope, self._reads, self._cache = scope, reads, cache

    def nodes(self, ids: Sequence[str]) -> dict[str, Node]:
        """See GraphScope."""
        found = self._read(cypher.NODES, ids)
        return {values["node_id"]: _node(values) for values in sorted(found, key=lambda v: v["node_id"])}

    def nodes_named(self, names: Sequence[str]) -> dict[str, list[str]]:
        """See GraphScope."""
        return _lists(self._read(cypher.NAMED, names, "names"))

    def nodes_with_word(self, words: Sequence[str]) -> dict[str, list[str]]:
        """See GraphScope."""
        return _lists(self._read(cypher.WITH_WORD, words, "names"))

    def nodes_of_type(self, types: Sequence[str], n: int) -> list[str]:
        """See GraphScope."""
        return self._reads.read(self._scope, cypher.OF_TYPE, {}, types=list(types), n=n)

    def nearest_nodes(self, vector: np.ndarray, n: int, types: Sequence[str] = ()) -> list[tuple[str, float]]:
        """See GraphScope."""
        return self._vectors().nearest(vector, n, types)

    def node_cosines(self, vector: np.ndarray, ids: Sequence[str]) -> dict[str, float]:
        """See GraphScope."""
        return self._vectors().cosines_of(vector, ids)

    def edges_of(self, node_ids: Sequence[str], types: Sequence[str] = (), *, within: bool = False) -> list[Edge]:
        """See GraphScope."""
        found = [_edge(v) for v in self._read(cypher.EDGES_OF, node_ids, types=_edge_types(types), within=within)]
        return [edge for _, edge in sorted({(e.source_id, e.target_id, e.type): e for e in found}.items())]

    def facts_of(self, node_ids: Sequence[str], *, within: bool = False) -> list[Fact]:
        """See GraphScope."""
        return _facts(self._read(cypher.FACTS_OF, node_ids, within=within))

    def facts_of_memories(self, memory_ids: Sequence[str]) -> list[Fact]:
        """See GraphScope."""
        return _facts(self._read(cypher.FACTS_OF_MEMORIES, memory_ids))

    def members_of(self, node_ids: Sequence[str]) -> dict[str, Mapping[str, float]]:
        """See GraphScope."""
        found: dict[str, dict[str, float]] = {}
        for node, memory, relevance in self._read(cypher.MEMBERS_OF, node_ids):
            found.setdefault(node, {})[memory] = float(np.float32(relevance))
        return dict(found)

    def nodes_of_memories(self, memory_ids: Sequence[str]) -> dict[str, list[str]]:
        """See GraphScope."""
        return _lists(self._read(cypher.NODES_OF_MEMORIES, memory_ids))

    def links_of(self, node_ids: Sequence[str], types: Sequence[str] = ()) -> tuple[list[Ends], list[Ends]]:
        """See GraphScope."""
        edges = self._read(cypher.EDGE_ENDS, node_ids, types=_edge_types(types))
        facts = self._read(cypher.FACT_ENDS, node_ids, predicates=list(types))
        return _unique(edges), _unique(facts)

    def named_together(self, node_ids: Sequence[str], n: int, memories: int) -> list[NamedTogether]:
        """See GraphScope."""
        found = self._read(cypher.NAMED_TOGETHER, node_ids, n=n, memories=memories)
        return [NamedTogether((node, other), share, tuple(cited)) for node, other, share, cited in found]

    def _read(self, statement: str, wanted: Sequence[str], parameter: str = "ids", **more: object) -> list[Any]:
        """Returns what a statement finds of the ids, or of the names, that are wanted; nothing where none is."""
        if not wanted:
            return []
        return self._reads.read(self._scope, statement, {}, **{parameter: sorted(set(wanted))}, **more)

    def _vectors(self) -> NodeVectors:
        vectors: NodeVectors = self._cache.get((self._scope, "node vectors"), self._load_vectors)
        return vectors

    def _load_vectors(self) -> NodeVectors:
        scope = {"collection": self._scope.collection, "user": self._scope.user_id, "project": self._scope.project_id}
        found = self._reads.packed(cypher.VECTORS, **scope)
        ids, types = ([r[name] for r in found] for name in ("id", "type"))
        return NodeVectors.from_bytes(ids, types, [bytes(r["vector"]) for r in found])


def _edge_types(types: Sequence[str]) -> list[str]:
    return [t for t in NODE_EDGES if not types or t.lower() in types]


def _unique(ends: Iterable[Sequence[str]]) -> list[Ends]:
    return list(dict.fromkeys((source, target) for source, target in ends))


def _lists(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Returns the second of pairs by the first, in their order."""
    found: dict[str, list[str]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def _node(values: Mapping[str, Any]) -> Node:
    fields = {name: values[name] for name in STORED_NODE_FIELDS}
    aliases, count = tuple(fields["aliases"] or ()), fields["memory_count"] or 0
    return Node(**(fields | _times(values, NODE_TIMES) | {"aliases": aliases, "memory_count": count}))


def _edge(values: Mapping[str, Any]) -> Edge:
    memory_ids = tuple(sorted(values["memory_ids"] or ()))
    return Edge(
        **({**values} | _times(values, NODE_TIMES) | {"type": values["type"].lower(), "memory_ids": memory_ids})
    )


def _facts(found: Iterable[tuple[Mapping[str, Any], str, str | None]]) -> list[Fact]:
    """Returns facts by id; one that several memories state was found several times."""
    facts = {}
    for values, subject, object_id in found:
        memory_ids = tuple(sorted(values["memory_ids"] or ()))
        fields = {**values} | _times(values, FACT_TIMES)
        fields |= {"memory_ids": memory_ids, "is_negated": bool(values["is_negated"])}
        facts[values["fact_id"]] = Fact(subject_id=subject, object_id=object_id, **fields)
    return [fact for _, fact in sorted(facts.items())]


def _times(values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: values[name].to_native() if values[name] is not None else None for name in names}
