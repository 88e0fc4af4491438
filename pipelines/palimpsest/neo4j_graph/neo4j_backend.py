"""The served backend: one build in a Neo4j server, by number; the same answers as the embedded one.

A scope is ranked over its vectors, read as packed blocks and cached by the reader: exact, and as fast as the embedded
backend. For a scope too large for memory the filtered vector index proposes and exact cosines decide; mean and
deviation over all its candidates come from stored statistics. Words, hops and history come from packed arrays. Filters
and citations are Cypher.
"""

import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from palimpsest.core.errors import PalimpsestError
from palimpsest.neo4j_graph import cypher
from palimpsest.neo4j_graph.connect import Connection, connect
from palimpsest.neo4j_graph.graph_rows import graph_space
from palimpsest.neo4j_graph.identity import served_id
from palimpsest.neo4j_graph.model import FORMAT, MAX_CACHED_VECTORS, NODE_EDGES, VECTOR_INDEX, VectorSpace
from palimpsest.neo4j_graph.neo4j_scope import BuildReads, Neo4jScope, SizedValue, conditions_of
from palimpsest.query.ranking.scoring import best_seeds, score_stats, top
from palimpsest.query.request.types import (
    FACT_TIMES,
    NODE_TIMES,
    STORED_NODE_FIELDS,
    CollectionInfo,
    Edge,
    Fact,
    Filters,
    Link,
    Memory,
    Node,
    Scope,
    Seeds,
)
from palimpsest.query.request.where import Kind
from palimpsest.query.scope.backend import collection_infos
from palimpsest.query.scope.graph_reads import Ends, GraphScope, NamedTogether, NodeVectors
from palimpsest.query.scope.scope_arrays import ByteCache, known_rows, rows_of

# The graph of a scope in Neo4j, one Cypher statement a read; implements `query.scope.graph_scope.GraphScope`.


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


CACHE_BYTES = 512 * 2**20
_PROPOSALS = 1000  # of 5 proposals 25 to 60 % are among the true best five; 1,000 contain all five, at 42,925 memories
_BEST_BY_WORDS = 100  # scored as well


class Neo4jBackend:
    """Implements `palimpsest.query.scope.backend.Backend` over what a server shows of a home.

    Raises:
        PalimpsestError: the server has nothing of this home, or what another version loaded.
        ComponentFailed: it does not answer.
    """

    def __init__(self, home_id: str, connection: Connection, cache_bytes: int = CACHE_BYTES, owned: bool = False):
        self._home, self._connection, self._owned, self._cache_bytes = home_id, connection, owned, cache_bytes
        found = connection.read(cypher.SERVED, home=home_id)
        if not found:
            raise PalimpsestError("neo4j: no build of this home is loaded; run palimpsest build --graph")
        build = found[0]
        if build["format"] != FORMAT:
            raise PalimpsestError("neo4j: the build was loaded by another version; run palimpsest build --graph")
        self.number, self._begun = int(build["number"]), str(build["begun"])
        self.load = _load_of(build)
        self.build_id = str(build["build_id"])
        is_measured = build["vector_index"] not in (None, VECTOR_INDEX)
        self._measured_space = VectorSpace.of_measured(home_id) if is_measured else None
        self._meta: dict[str, Any] = json.loads(build["collections"])
        self._scopes = sorted(Scope(*json.loads(s)) for s in build["scopes"])
        self._known = frozenset(self._scopes)
        self._reads = BuildReads(connection, home_id, self.number, self._begun, self.build_id)
        self._cache = ByteCache(cache_bytes)

    def renewed(self) -> "Neo4jBackend":
        """Returns this backend, or where another build is published by now a backend of that one, over one driver."""
        found = self._connection.read(cypher.SERVED, home=self._home)
        if found and (found[0]["number"], found[0]["begun"]) == (self.number, self._begun):
            return self
        later = Neo4jBackend(self._home, self._connection, self._cache_bytes, self._owned)
        self._owned = False
        return later

    def shown_load(self) -> str:
        """Returns the load that the server shows now: another one than `load` where the home was loaded since.

        Raises:
            ComponentFailed: it does not answer.
        """
        found = self._connection.query(cypher.SHOWN_LOAD, {"home": self._home})
        return _load_of(found[0]) if found else ""

    def collections(self) -> dict[str, CollectionInfo]:
        """See Backend."""
        return self._collections

    @cached_property
    def _collections(self) -> dict[str, CollectionInfo]:
        meta = self._meta
        weights, spaces = meta.get("weights", {}), meta.get("spaces", {})
        return collection_infos(self._scopes, meta["collections"], meta["strategies"], weights, spaces)

    def scopes(self) -> list[Scope]:
        """See Backend."""
        return list(self._scopes)

    def view(self, scope: Scope) -> Neo4jScope | None:
        """See Backend: None above `MAX_CACHED_VECTORS` memories."""
        found = self._scope(scope)
        return found if found is not None and found.stats.mean is None else None

    def seeds(
        self, scope: Scope, filters: Filters, vector: np.ndarray, terms: Sequence[str], weight: float, n: int
    ) -> Seeds:
        """See Backend. Above `MAX_CACHED_VECTORS` memories, statistics of cosines are those of all latest memories."""
        if (found := self._scope(scope)) is None:
            return Seeds()
        rows = np.flatnonzero(found.allowed(filters))
        if len(rows) == 0:
            return Seeds()
        stats, words = found.stats, found.words(terms)[rows]
        if stats.mean is None or len(rows) <= MAX_CACHED_VECTORS // 4:
            cosines = found.cosines_of(vector, rows)
            vector_stats, proposed = score_stats(cosines), np.arange(len(rows))
        else:
            vector_stats = stats.cosine_stats(vector)
            proposed, cosines = self._propose(found, filters, vector, rows, words, n)
        ids = stats.ids[rows[proposed]]
        return best_seeds(ids, cosines, words[proposed], weight, n, len(rows), vector_stats, score_stats(words))

    def _propose(
        self, found: Neo4jScope, filters: Filters, vector: np.ndarray, rows: np.ndarray, words: np.ndarray, n: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns indices of `rows`, ascending, and exact cosines: proposals of the index and the best by words."""
        ids, withheld = found.ids, found.withheld()
        best = top(words, _BEST_BY_WORDS)
        worded = ids[rows[best[words[best] > 0]]].tolist()
        filters = withheld.narrowed(filters.stored)
        conditions, values = conditions_of(filters, withheld)
        wide = max(_PROPOSALS, 2 * n) if filters == Filters() else 4 * max(_PROPOSALS, 2 * n)
        statement = cypher.nearest(self._space_of(found.scope), conditions)
        read = self._reads.read(found.scope, statement, values, vector=vector.tolist(), ids=worded, wide=wide)
        known = known_rows(ids[rows], (i for i, _ in read))  # fields are not compared by the server
        nearest = [(i, cosine) for i, cosine in read if i in known]
        at = np.array([known[i] for i, _ in nearest], np.int64)
        order = np.argsort(at)
        return at[order], np.array([cosine for _, cosine in nearest])[order]

    def scores(self, scope: Scope, vector: np.ndarray, terms: Sequence[str], ids: Sequence[str]) -> np.ndarray:
        """See Backend."""
        found = Neo4jScope(scope, self._reads, self._cache)
        rows = rows_of(found.ids, ids)
        return np.stack([found.cosines_of(vector, rows), found.words(terms)[rows]], axis=1)

    def neighbors(self, scope: Scope, filters: Filters, ids: Sequence[str], n: int) -> list[Link]:
        """See Backend."""
        found = self._scope(scope)
        return found.neighbors(filters, ids, n) if found else []

    def passing(self, scope: Scope, filters: Filters, ids: Sequence[str]) -> set[str]:
        """See Backend."""
        found = self._scope(scope)
        return found.passing(filters, ids) if found else set()

    def memories(self, scope: Scope, ids: Sequence[str]) -> dict[str, Memory]:
        """See Backend."""
        found = self._scope(scope)
        return found.memories(ids) if found else {}

    def chains(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[str]]:
        """See Backend."""
        found = self._scope(scope)
        return found.chains(ids) if found else {}

    def field_kinds(self, scope: Scope, filters: Filters) -> dict[str, frozenset[Kind]]:
        """See Backend."""
        found = self._scope(scope)
        return found.field_kinds(filters) if found else {}

    def languages(self, scope: Scope) -> tuple[str, ...]:
        """See Backend."""
        found = self._scope(scope)
        return found.languages() if found else ()

    def observed(self, scope: Scope) -> tuple[dt.datetime, dt.datetime] | None:
        """See Backend."""
        if scope not in self._known:
            return None
        cached: SizedValue = self._cache.get((scope, "observed"), lambda: SizedValue(self._load_observed(scope), 200))
        oldest, newest = cached.value
        return (oldest, newest) if oldest and newest else None

    def reasons(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[str]]:
        """See Backend."""
        found = self._scope(scope)
        return found.reasons().select(ids) if found else {}

    def graph(self, scope: Scope) -> GraphScope | None:
        """See Backend."""
        return Neo4jGraphScope(scope, self._reads, self._cache) if scope in self._known else None

    def close(self) -> None:
        """See Backend."""
        self._cache.clear()
        if self._owned:
            self._connection.close()

    def _scope(self, scope: Scope) -> Neo4jScope | None:
        return Neo4jScope(scope, self._reads, self._cache) if scope in self._known else None

    def _space_of(self, scope: Scope) -> VectorSpace:
        info = self.collections().get(scope.collection)
        return self._measured_space or graph_space(info.space if info else None)

    def _load_observed(self, scope: Scope) -> list[dt.datetime | None]:
        (both,) = self._reads.read(scope, cypher.OBSERVED, {})
        return [time.to_native() if time is not None else None for time in both]


def _load_of(row: Mapping[str, object]) -> str:
    """Returns the name of a load: its number, and when the numbering began."""
    return f"{row['begun']}:{row['number']}"


def open_neo4j(home: Path, connection: Connection | None = None) -> Neo4jBackend:
    """Opens what the server shows of a home: NEO4J_URI, else the local server.

    Raises:
        PalimpsestError: the home was never loaded there, or the server refuses.
        ComponentFailed: no server answers.
    """
    name = served_id(home)
    if name is None:
        raise PalimpsestError(f"home {home}: never loaded into Neo4j; run palimpsest build --graph --home {home}")
    used = connection or connect()
    try:
        return Neo4jBackend(name, used, owned=connection is None)
    except BaseException:
        if connection is None:
            used.close()
        raise
