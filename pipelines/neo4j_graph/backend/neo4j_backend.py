"""The served backend: one build in a Neo4j server, by number; the same answers as the embedded one.

A scope is ranked over its vectors, read as packed blocks and held by the reader: exact, and as fast as the embedded
backend. Of a scope too large to hold the filtered vector index proposes and exact cosines decide; mean and deviation
over all its candidates come from stored moments. Words score by the postings of the build. Hops, filters, history and
citations are Cypher.
"""

import datetime as dt
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.ids import content_id
from palimpsest.core.scopes import scope_parts
from palimpsest.neo4j_graph.arrays import unpack_arrays
from palimpsest.neo4j_graph.backend.neo4j_rows import conditions_of, memory_of, newest_first, sharing, withheld_of
from palimpsest.neo4j_graph.backend.neo4j_scope import Neo4jScope
from palimpsest.neo4j_graph.connect import Connection, connect
from palimpsest.neo4j_graph.cypher import querying
from palimpsest.neo4j_graph.identity import served_id
from palimpsest.neo4j_graph.model import DIMENSIONS, MAX_CACHED_VECTORS, VECTOR_INDEX, VectorSpace
from palimpsest.neo4j_graph.packed import ScopeStats, blocks_for, bucket_of, unpack_block, unpack_postings
from palimpsest.query.ranking.fusion import moments, standardise, top
from palimpsest.query.ranking.scope_cache import ByteCache, Postings, ScopeVectors, Told, rows_of
from palimpsest.query.ranking.scope_graph import WIDEST
from palimpsest.query.request.types import CollectionInfo, Filters, Link, Memory, Scope, Seeds
from palimpsest.query.request.withheld import Withheld

CACHE_BYTES = 512 * 2**20
_WIDE = 1000  # of 5 proposals a quarter to six tenths are right, of so many the best five: measured at 42,925 memories
_BLOCKS_AT_ONCE = 64  # some 50 MiB
_WORDY = 100  # best by words, scored as well
_LABELS = {"UPDATES": "UPDATE", "EXTENDS": "EXTEND", "DERIVES": "DERIVE"}


class Neo4jBackend:
    """Implements `palimpsest.query.ranking.backend.Backend` over what a server shows of a home.

    Raises:
        PalimpsestError: the server holds nothing of this home.
        ComponentFailed: it does not answer.
    """

    def __init__(self, home_id: str, connection: Connection, cache_bytes: int = CACHE_BYTES, owned: bool = False):
        self._home, self._connection, self._owned, self._cache_bytes = home_id, connection, owned, cache_bytes
        found = connection.read(querying.SERVED, home=home_id)
        if not found:
            raise PalimpsestError("neo4j: nothing of this home is published there; run palimpsest build --graph")
        told = found[0]
        self.number, self._begun = int(told["number"]), str(told["begun"])
        self.build_id = str(told["build_id"])
        own = told["vector_index"] not in (None, VECTOR_INDEX)
        self._space = VectorSpace.of_measured(home_id) if own else VectorSpace()
        self._told = json.loads(told["collections"])
        self._scopes = sorted(Scope(*json.loads(s)) for s in told["scopes"])
        self._known = frozenset(self._scopes)
        self._cache = ByteCache(cache_bytes)

    def renewed(self) -> "Neo4jBackend":
        """Returns this backend, or where another build is published by now a backend of that one, over one driver."""
        told = self._connection.read(querying.SERVED, home=self._home)
        if told and (told[0]["number"], told[0]["begun"]) == (self.number, self._begun):
            return self
        later = Neo4jBackend(self._home, self._connection, self._cache_bytes, self._owned)
        self._owned = False
        return later

    def collections(self) -> dict[str, CollectionInfo]:
        """See Backend."""
        told, strategies, weights = self._told["collections"], self._told["strategies"], self._told.get("weights", {})
        return {
            n: CollectionInfo(
                name=n,
                default=bool(told.get(n, {}).get("default", False)),
                user_id=told.get(n, {}).get("user_id"),
                strategy=strategies.get(n, "hybrid"),
                weights=weights.get(n, {}),
            )
            for n in sorted({s.collection for s in self._scopes} | set(told))
        }

    def scopes(self) -> list[Scope]:
        """See Backend."""
        return list(self._scopes)

    def view(self, scope: Scope) -> Neo4jScope | None:
        """See Backend: None above `MAX_CACHED_VECTORS` memories."""
        if scope not in self._known or (stats := self._stats(scope)).mean is not None:
            return None

        def parts(names: Iterable[str], keep: bool = False) -> dict[str, bytes]:
            held = {name: self._cache.peek((scope, "part", name)) for name in names}
            ids = {f"{_scope_id(scope)}:{name}": name for name, part in held.items() if part is None}
            found = self._packed(querying.ARRAYS, ids=sorted(ids)) if ids else []
            read = {ids[r["id"]]: bytes(r["data"]) for r in found}
            for name, data in read.items() if keep else ():
                self._cache.put((scope, "part", name), _Sized(data, len(data) + 400))
            return {name: part.value for name, part in held.items() if part is not None} | read

        return Neo4jScope(
            stats,
            lambda filters: self._rows(scope, filters, stats),
            lambda vector: self._cosines(scope, vector, stats, np.arange(len(stats.ids))),
            lambda terms: self._postings(scope, terms),
            parts,
            lambda n, load: self._cache.get((scope, n), load),
            lambda ids: {i: m.text for i, m in self.memories(scope, ids).items()},
            lambda: self._withheld(scope),
        )

    def seeds(
        self, scope: Scope, filters: Filters, vector: np.ndarray, terms: Sequence[str], weight: float, n: int
    ) -> Seeds:
        """See Backend. Above `MAX_CACHED_VECTORS` memories, moments of cosines are those of all latest memories."""
        if scope not in self._known:
            return Seeds()
        stats = self._stats(scope)
        rows = self._rows(scope, filters, stats)
        if len(rows) == 0:
            return Seeds()
        words = self._words(scope, terms, stats)[rows]
        if stats.mean is None or len(rows) <= MAX_CACHED_VECTORS // 4:
            cosines = self._cosines(scope, vector, stats, rows)
            of_vector, asked = moments(cosines), np.arange(len(rows))
        else:
            of_vector = stats.cosine_moments(vector)
            asked, cosines = self._proposed(scope, filters, vector, stats, rows, words, n)
        of_words = moments(words)
        fused = standardise(cosines, of_vector) + weight * standardise(words[asked], of_words)
        best = np.sort(top(fused, n))
        chosen = rows[asked[best]]
        return Seeds(stats.ids[chosen].tolist(), cosines[best], words[asked[best]], len(rows), of_vector, of_words)

    def _proposed(
        self,
        scope: Scope,
        filters: Filters,
        vector: np.ndarray,
        stats: ScopeStats,
        rows: np.ndarray,
        words: np.ndarray,
        n: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns places in `rows`, ascending, and exact cosines: what the index proposes and the best by words."""
        wordy = top(words, _WORDY)
        ids = stats.ids[rows[wordy[words[wordy] > 0]]].tolist()
        withheld = self._withheld(scope)
        filters = withheld.narrowed(filters)
        conditions, values = conditions_of(filters, withheld)
        wide = max(_WIDE, 2 * n) if filters == Filters() else 4 * max(_WIDE, 2 * n)
        found = self._read(
            scope, querying.nearest(self._space, conditions), values, vector=vector.tolist(), ids=ids, wide=wide
        )
        at = rows_of(stats.ids[rows], (i for i, _ in found))
        order = np.argsort(at)
        return at[order], np.array([cosine for _, cosine in found])[order]

    def scores(self, scope: Scope, vector: np.ndarray, terms: Sequence[str], ids: Sequence[str]) -> np.ndarray:
        """See Backend."""
        stats = self._stats(scope)
        rows = rows_of(stats.ids, ids)
        words = self._words(scope, terms, stats)[rows]
        return np.stack([self._cosines(scope, vector, stats, rows), words], axis=1)

    def neighbours(self, scope: Scope, filters: Filters, ids: Sequence[str], n: int) -> list[Link]:
        """See Backend."""
        if scope not in self._known or not ids:
            return []
        conditions, values = conditions_of(filters, self._withheld(scope))
        size = len(self._stats(scope).ids)
        widest = int(min(WIDEST, max(5, 0.05 * size)))
        found = self._read(scope, querying.neighbours(conditions, n > 0), values, ids=list(ids), widest=widest)
        related: dict[str, list[Any]] = {i: [] for i in ids}
        shared: dict[str, list[Any]] = {i: [] for i in ids}
        for source, kind, newer, targets, weight, via in found:
            if newer is None:
                shared[source].append((via, kind, weight, sorted(targets)))
            else:
                related[source].append((not newer, targets[0], _LABELS[kind], via, weight))
        links: list[Link] = []
        for source in ids:
            links += [Link(source, target, label, w) for _, target, label, _, w in sorted(set(related[source]))]
            links += sharing(source, sorted(shared[source]), size, n)
        return links

    def passing(self, scope: Scope, filters: Filters, ids: Sequence[str]) -> set[str]:
        """See Backend."""
        if scope not in self._known:
            return set()
        stats, wanted = self._stats(scope), sorted(set(ids))
        at = np.searchsorted(stats.ids, np.array(wanted, dtype=object))
        held = {i: int(r) for i, r in zip(wanted, at, strict=True) if r < len(stats.ids) and stats.ids[r] == i}
        if (view := self.view(scope)) is not None:
            allowed = view.allowed(filters)
            return {i for i, r in held.items() if allowed[r]}
        rows = set(self._rows(scope, filters, stats).tolist())
        return {i for i, r in held.items() if r in rows}

    def memories(self, scope: Scope, ids: Sequence[str]) -> dict[str, Memory]:
        """See Backend."""
        if scope not in self._known or not ids:
            return {}
        found = self._read(scope, querying.MEMORIES, {}, ids=sorted(set(ids)))
        for told, _, newer in found:
            if not newer:
                self._cache.put((scope, "replaced nothing", told["memory_id"]), _NOTHING)
        return {told["memory_id"]: memory_of(told, source or {}) for told, source, _ in found}

    def history(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[Memory]]:
        """See Backend."""
        asked = sorted({i for i in ids if self._cache.peek((scope, "replaced nothing", i)) is None})
        if scope not in self._known or not asked:
            return {}
        found = self._read(scope, querying.HISTORY, {}, ids=asked)
        chains = {i: [o for o in older if o != i] for i, older in found}
        held = self.memories(scope, sorted({o for chain in chains.values() for o in chain}))
        return {i: sorted((held[o] for o in chain), key=newest_first) for i, chain in chains.items() if chain}

    def observed(self, scope: Scope) -> tuple[dt.datetime, dt.datetime] | None:
        """See Backend."""
        if scope not in self._known:
            return None
        held: _Sized = self._cache.get((scope, "observed"), lambda: _Sized(self._load_observed(scope), 200))
        oldest, newest = held.value
        return (oldest, newest) if oldest and newest else None

    def _load_observed(self, scope: Scope) -> list[dt.datetime | None]:
        (both,) = self._read(scope, querying.OBSERVED, {})
        return [moment.to_native() if moment is not None else None for moment in both]

    def reasons(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[str]]:
        """See Backend."""
        if scope not in self._known:
            return {}
        told: Told = self._cache.get((scope, "reasons"), lambda: self._load_told(scope))
        return told.among(ids)

    def _load_told(self, scope: Scope) -> Told:
        found = self._packed(querying.ARRAYS, ids=[f"{_scope_id(scope)}:reasons"])
        a = unpack_arrays(bytes(found[0]["data"])) if found else {"ids": [], "told": []}
        return Told.of(zip(a["ids"], a["told"], strict=True))

    def close(self) -> None:
        """See Backend."""
        self._cache.clear()
        if self._owned:
            self._connection.close()

    def _read(self, scope: Scope, statement: str, values: dict[str, Any], **more: Any) -> list[Any]:
        """Returns what was read, if this build was still kept after reading it: sweeping tells before it begins."""
        told = values | more | {"home": self._home, "number": self.number, "begun": self._begun}
        told |= {"collection": scope.collection, "user": scope.user_id, "project": scope.project_id}
        found = self._connection.query(statement, told)
        self._kept(bool(found) and found[0]["kept"])
        return list(found[0]["found"])

    def _packed(self, statement: str, **values: Any) -> list[Any]:
        """Returns what is too large to be collected; asks afterwards whether the build was still kept."""
        told = {"home": self._home, "number": self.number, "begun": self._begun} | values
        found, kept = self._connection.query(statement, told), self._connection.query(querying.STILL_KEPT, told)
        self._kept(bool(kept) and kept[0]["kept"])
        return found

    def _kept(self, kept: bool) -> None:
        if not kept:
            raise ComponentFailed(f"neo4j: build {self.build_id} is served no longer; refresh or open the reader again")

    def _stats(self, scope: Scope) -> ScopeStats:
        held: tuple[ScopeStats, int] = self._cache.get((scope, "stats"), lambda: self._load_stats(scope)).value
        return held[0]

    def _load_stats(self, scope: Scope) -> "_Sized":
        found = self._packed(querying.SCOPE_STATS, scope_id=_scope_id(scope))[0]
        stats = ScopeStats.unpack(bytes(found["data"]))
        return _Sized((stats, int(found["buckets"])), stats.nbytes)

    def _withheld(self, scope: Scope) -> Withheld:
        held: Withheld = self._cache.get((scope, "withheld"), lambda: self._load_withheld(scope))
        return held

    def _load_withheld(self, scope: Scope) -> Withheld:
        found = self._packed(querying.ARRAYS, ids=[f"{_scope_id(scope)}:withheld"])
        return withheld_of(unpack_arrays(bytes(found[0]["data"])) if found else {})

    def _rows(self, scope: Scope, filters: Filters, stats: ScopeStats) -> np.ndarray:
        """Returns the local rows of the candidates, ascending."""
        withheld = self._withheld(scope)
        filters = withheld.narrowed(filters)
        if not withheld.conditions(filters):
            if filters == Filters():
                return np.flatnonzero(stats.latest)
            if filters == Filters(history=True):
                return np.arange(len(stats.ids))
        conditions, values = conditions_of(filters, withheld)
        ids = self._read(scope, querying.candidates(conditions), values)
        return np.sort(rows_of(stats.ids, ids))

    def _cosines(self, scope: Scope, vector: np.ndarray, stats: ScopeStats, rows: np.ndarray) -> np.ndarray:
        if stats.mean is None:
            held: ScopeVectors = self._cache.get((scope, "vectors"), lambda: self._load_vectors(scope, stats))
            return held.cosines(vector)[rows] if len(rows) > len(stats.ids) // 4 else held.cosines_of(rows, vector)
        ids = stats.ids[rows].tolist()
        found = self._read(scope, querying.COSINES, {}, vector=vector.tolist(), ids=ids)
        told = dict(found)
        return np.array([told[i] for i in ids], np.float64)

    def _load_vectors(self, scope: Scope, stats: ScopeStats) -> ScopeVectors:
        blocks = blocks_for(stats.vectors)
        names = [f"{_scope_id(scope)}:{b}" for b in range(blocks)]
        held: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for i in range(0, blocks, _BLOCKS_AT_ONCE):
            found = self._packed(querying.BLOCKS, ids=names[i : i + _BLOCKS_AT_ONCE])
            held |= {r["id"]: unpack_block(bytes(r["data"])) for r in found}
        block = np.array([bucket_of(i, blocks) for i in stats.ids])
        counts = np.empty(len(stats.ids), np.int64)
        for b in np.unique(block).tolist():
            counts[block == b] = held[names[b]][0]
        starts = np.cumsum(counts) - counts
        matrix = np.empty((stats.vectors, DIMENSIONS), np.float32)
        of_memory = np.repeat(block, counts)
        for b in np.unique(block).tolist():
            matrix[of_memory == b] = held[names[b]][1]
        return ScopeVectors((matrix,), starts, stats.vectors)

    def _words(self, scope: Scope, terms: Sequence[str], stats: ScopeStats) -> np.ndarray:
        """Returns the BM25 sum of each local row; terms are added in their order, for sums of floats depend on it."""
        sums = np.zeros(len(stats.ids))
        for _, postings in sorted(self._postings(scope, terms).items()):
            sums[postings.rows] += postings.scores
        return sums

    def _postings(self, scope: Scope, terms: Sequence[str]) -> dict[str, Postings]:
        held = {t: self._cache.peek((scope, "term", t)) for t in terms}
        if missing := [t for t, postings in held.items() if postings is None]:
            buckets = self._cache.get((scope, "stats"), lambda: self._load_stats(scope)).value[1]
            ids = sorted({f"{_scope_id(scope)}:{bucket_of(t, buckets)}" for t in missing})
            found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
            for r in self._packed(querying.POSTINGS, ids=ids):
                found |= unpack_postings(bytes(r["data"]))
            nothing = (np.zeros(0, np.int32), np.zeros(0, np.float32))
            for term in missing:
                rows, scores = found.get(term, nothing)
                held[term] = Postings(rows.copy(), scores.copy())
                self._cache.put((scope, "term", term), held[term])
        return held


class _Sized:
    """A value and the bytes it holds, the bookkeeping of one entry included."""

    def __init__(self, value: Any, nbytes: int):
        self.value, self.nbytes = value, nbytes


_NOTHING = _Sized(True, 400)


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


def _scope_id(scope: Scope) -> str:
    return content_id("scope", *scope_parts(*scope))
