"""A scope in Neo4j as dense arrays, from packed parts; implements `palimpsest.query.scope.view.ScopeView`."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from palimpsest.core.errors import ComponentFailed
from palimpsest.core.ids import content_id, scope_parts
from palimpsest.core.times import is_of_own_clock
from palimpsest.neo4j_graph import cypher
from palimpsest.neo4j_graph.connect import Connection, CypherParameters
from palimpsest.neo4j_graph.model import DIMENSIONS
from palimpsest.neo4j_graph.packed import (
    ScopeStats,
    blocks_for,
    bucket_of,
    sentence_blocks_for,
    unpack_arrays,
    unpack_block,
    unpack_postings,
)
from palimpsest.query.request.types import MEMORY_TIMES, Filters, Memory, Scope, stored_memory
from palimpsest.query.scope.scope_arrays import Arrays, ByteCache, Flags, Postings, ScopeVectors, rows_of
from palimpsest.query.scope.scope_graph import NO_SENTENCES, MemorySentences, PassageGraph
from palimpsest.query.scope.view import CachedScopeView, Withheld
from palimpsest.text.terms import SentenceTerms

# Reads of one build in a server: a build that was swept meanwhile is an error, never a part of an answer.


@dataclass(frozen=True)
class BuildReads:
    """Runs statements over one build.

    Attributes:
        connection: to the server.
        home_id: of the home.
        number: of the build there.
        begun: when its numbering began.
        build_id: of the build, for errors.
    """

    connection: Connection
    home_id: str
    number: int
    begun: str
    build_id: str

    def read(self, scope: Scope, statement: str, values: CypherParameters, **more: object) -> list[Any]:
        """Returns the rows of a scope, if this build was still retained after reading them.

        Raises:
            ComponentFailed: it was not.
        """
        key = {"collection": scope.collection, "user": scope.user_id, "project": scope.project_id}
        parameters = {**values, **more, **self._build, **key}
        found = self.connection.query(statement, parameters)
        self._check(bool(found) and found[0]["kept"])
        return list(found[0]["found"])

    def packed(self, statement: str, **values: object) -> list[Any]:
        """Returns rows too large to be collected; checks afterwards whether the build was still retained.

        Raises:
            ComponentFailed: it was not.
        """
        parameters = {**self._build, **values}
        found = self.connection.query(statement, parameters)
        retained = self.connection.query(cypher.STILL_KEPT, parameters)
        self._check(bool(retained) and retained[0]["kept"])
        return found

    @property
    def _build(self) -> CypherParameters:
        return {"home": self.home_id, "number": self.number, "begun": self.begun}

    def _check(self, retained: bool) -> None:
        if not retained:
            raise ComponentFailed(f"neo4j: build {self.build_id} is no longer served; refresh or reopen the reader")


# Filters as Cypher conditions, and nodes of Neo4j as memories.

_BOUND = {"since": "observed_since", "until": "observed_until"}
_UTC = ZoneInfo("UTC")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def conditions_of(filters: Filters, withheld: Withheld) -> tuple[tuple[str, ...], CypherParameters]:
    """Returns the conditions of filters in a scope, and the values of their parameters."""
    filters = withheld.narrowed(filters)
    given = {name: v for name in cypher.CONDITIONS if (v := getattr(filters, name)) not in (None, ())}
    conditions = [cypher.CONDITIONS[name].replace("{observed_at}", _observed_at(v)) for name, v in given.items()]
    conditions += [cypher.LEFT_OUT[name] for name in withheld.conditions(filters)]
    if filters.as_of is None and not filters.history:
        conditions.append(cypher.LATEST)
    return tuple(conditions), {_BOUND.get(name, name): _as_stored(v) for name, v in given.items()}


def _observed_at(limit: object) -> str:
    """Returns what compares with a limit: a time without an offset is one of each speaker's own clock."""
    return cypher.OWN_CLOCK if is_of_own_clock(limit) else "m.observed_at"


def _as_stored(value: object) -> object:
    """Returns a time in the zone named UTC, for to Neo4j the same time in `+00:00` is unequal, and names as a list."""
    if isinstance(value, tuple):
        return list(value)
    if not isinstance(value, dt.datetime):
        return value
    return value.astimezone(_UTC) if value.tzinfo else value.replace(tzinfo=_UTC)


def memories_of(memories: Sequence[Mapping[str, Any]], revisions: Sequence[Sequence[Sequence[Any]]]) -> list[Memory]:
    """Returns memories of one document from their nodes and their places in its revisions, as MEMORIES returns both."""
    places = {memory_id: place for revision in revisions for memory_id, *place in revision}
    return [_memory_of(node, places.get(node["memory_id"], ())) for node in memories]


def _memory_of(node: Mapping[str, Any], place: Sequence[Any]) -> Memory:
    fields = {name: value for name, value in node.items() if value is not None}  # a node has no nulls: defaults
    for name in MEMORY_TIMES:
        if name in fields:
            fields[name] = _EPOCH + dt.timedelta(microseconds=fields[name])
    of_document = dict(zip(cypher.PLACE, place, strict=False))  # none where the home read no document
    for name in ("page", "ordinal", "char_start", "char_end"):
        if of_document.get(name) == -1:
            of_document[name] = None
    return stored_memory(fields | of_document | {"tags": tuple(fields.get("tags", ()))})


# The passages of a scope in Neo4j, and the sentences of some memories from their packed blocks.


@dataclass(frozen=True)
class Passages:
    """The passage graph of a scope, and what its sentences need.

    Attributes:
        graph: None where the scope has no names.
        entity_of: local numbers of entities by the hash of their ids.
    """

    graph: PassageGraph | None
    entity_of: dict[int, int]

    @classmethod
    def from_arrays(cls, arrays: Arrays, size: int) -> "Passages":
        """Makes it of the part `passages` of a scope of `size` memories."""
        if not arrays:
            return cls(None, {})
        numbers = {h: i for i, h in enumerate(arrays["hashes"].tolist())}
        return cls(PassageGraph.from_arrays(arrays, size), numbers)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return (self.graph.nbytes if self.graph else 0) + 100 * len(self.entity_of)


def sentences_of(
    blocks: Iterable[Arrays], wanted: dict[str, int], entity_of: dict[int, int]
) -> dict[int, MemorySentences]:
    """Returns the sentences of memories, by local row.

    Args:
        blocks: unpacked blocks of sentences.
        wanted: local rows by memory id.
        entity_of: see `Passages`.
    """
    out = {}
    for block in blocks:
        ends = np.cumsum(block["sizes"])
        first = _starts(block["counts"])
        terms_at = _starts(block["term_counts"]) if "terms" in block else None
        spans = block["spans"].reshape(-1, 2)
        for i, memory_id in enumerate(block["ids"]):
            if memory_id not in wanted:
                continue
            a, b = int(ends[i] - block["sizes"][i]), int(ends[i])
            hashes = [block["entities"][first[k] : first[k + 1]].tolist() for k in range(a, b)]
            entities = np.array([e for of in hashes for e in sorted(entity_of[h] for h in of)], np.int64)
            words = None
            if terms_at is not None:
                keys = block["terms"][terms_at[a] : terms_at[b]].copy()
                words = SentenceTerms(spans[a:b].copy(), block["term_counts"][a:b].copy(), keys)
            is_named = bool(block["named"][i]) if "named" in block else True
            counts = block["counts"][a:b].astype(np.int64) if is_named else None
            vectors = block["vectors"][a:b].copy()  # copied: a view would keep the whole block
            vectors = vectors if len(vectors) == b - a else None
            out[wanted[memory_id]] = MemorySentences(spans[a:b].copy(), counts, entities, vectors, words)
    return out


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)])


_BLOCKS_AT_ONCE = 64  # some 50 MiB


class SizedValue:
    """A value and its size in bytes, the bookkeeping of one cache entry included."""

    def __init__(self, value: Any, nbytes: int):
        self.value, self.nbytes = value, nbytes


class Neo4jScope(CachedScopeView):
    """See ScopeView.

    Args:
        scope: the scope; the build has memories of it.
        reads: of the build.
        cache: of everything that is read.
    """

    def __init__(self, scope: Scope, reads: BuildReads, cache: ByteCache):
        super().__init__(cache, scope)
        self.scope, self._reads = scope, reads
        self._id = content_id("scope", *scope_parts(*scope))

    @property
    def ids(self) -> np.ndarray:
        """See ScopeView."""
        return self.stats.ids

    @property
    def stats(self) -> ScopeStats:
        """Ids, which are latest, and statistics of the vectors of a large scope."""
        return self._stats_and_buckets()[0]

    def _stored_allowed(self, filters: Filters) -> np.ndarray:
        filters = self.withheld().narrowed(filters)

        def load() -> Flags:
            allowed = np.zeros(len(self.ids), bool)
            allowed[self._candidate_rows(filters)] = True
            return Flags(allowed)

        flags: Flags = self._cache.get((self.scope, ("allowed", filters)), load)
        return flags.values

    def _candidate_rows(self, filters: Filters) -> np.ndarray:
        """Returns the local rows of the candidates, ascending; `filters` are narrowed."""
        stats, withheld = self.stats, self.withheld()
        if not withheld.conditions(filters):
            if filters == Filters():
                return np.flatnonzero(stats.latest)
            if filters == Filters(history=True):
                return np.arange(len(stats.ids))
        conditions, values = conditions_of(filters, withheld)
        ids = self._reads.read(self.scope, cypher.candidates(conditions), values)
        return np.sort(rows_of(stats.ids, ids))

    def cosines(self, vector: np.ndarray) -> np.ndarray:
        """See ScopeView."""
        return self.cosines_of(vector, np.arange(len(self.ids)))

    def estimated_cosines(self, vector: np.ndarray) -> np.ndarray | None:
        """See ScopeView."""
        return self._vectors().estimated_cosines(vector) if self.stats.mean is None else None

    def cosines_of(self, vector: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Returns the exact cosines of some local rows, shape (len(rows),) float64; of a large scope by the server."""
        stats = self.stats
        if stats.mean is None:
            vectors = self._vectors()
            if len(rows) > len(stats.ids) // 4:
                cosines: np.ndarray = vectors.cosines(vector)[rows]
                return cosines
            return vectors.cosines_of(rows, vector)
        ids = stats.ids[rows].tolist()
        cosine = dict(self._reads.read(self.scope, cypher.COSINES, {}, vector=vector.tolist(), ids=ids))
        return np.array([cosine[i] for i in ids], np.float64)

    def window_cosines(self, vector: np.ndarray, rows: np.ndarray) -> list[np.ndarray] | None:
        """See ScopeView."""
        return self._vectors().window_cosines(rows, vector) if self.stats.mean is None else None

    def windows(self) -> np.ndarray | None:
        """See ScopeView."""
        return self._vectors().windows()

    def passages(self) -> PassageGraph | None:
        """See ScopeView."""
        return self._passages().graph

    def _load_sentences(self, rows: Sequence[int]) -> dict[int, MemorySentences]:
        wanted = {str(self.ids[r]): r for r in rows}
        blocks = sentence_blocks_for(self._size)
        keys = {b: (self.scope, ("sentence block", b)) for b in sorted({bucket_of(i, blocks) for i in wanted})}
        read = self._cache.get_each(keys, self._read_sentence_blocks)
        unpacked = (unpack_arrays(b.value) for b in read.values() if b.value)
        found = sentences_of(unpacked, wanted, self._passages().entity_of)
        return {row: found.get(row, NO_SENTENCES) for row in rows}

    def _read_sentence_blocks(self, blocks: Sequence[int]) -> dict[int, SizedValue]:
        """Returns the bytes of blocks; of one whose memories have no sentences none are stored."""
        ids = {b: f"{self._id}:sentences:{b}" for b in blocks}
        found = dict(self._reads.read(self.scope, cypher.SENTENCES, {}, ids=list(ids.values())))
        read = {b: bytes(found.get(name, b"")) for b, name in ids.items()}
        return {b: SizedValue(data, len(data) + 400) for b, data in read.items()}

    def _texts_of(self, rows: Sequence[int]) -> dict[int, str]:
        memories = self.memories([str(self.ids[row]) for row in rows])
        return {row: memories[str(self.ids[row])].text for row in rows}

    def memories(self, ids: Sequence[str]) -> dict[str, Memory]:
        """Returns the memories of the scope among `ids`."""
        found = self._reads.read(self.scope, cypher.MEMORIES, {}, ids=sorted(set(ids))) if ids else []
        return {m.memory_id: m for group in found for m in memories_of(*group)}

    @property
    def _size(self) -> int:
        return len(self.ids)

    def _arrays(self, part: str) -> Arrays:
        found = self._reads.packed(cypher.PART, ids=[f"{self._id}:{part}"])
        return unpack_arrays(bytes(found[0]["data"])) if found else {}

    def _passages(self) -> Passages:
        return self._cached("passages", lambda: Passages.from_arrays(self._arrays("passages"), self._size))

    def _stats_and_buckets(self) -> tuple[ScopeStats, int]:
        value: tuple[ScopeStats, int] = self._cached("stats", self._load_stats).value
        return value

    def _load_stats(self) -> SizedValue:
        found = self._reads.packed(cypher.SCOPE_STATS, scope_id=self._id)[0]
        stats = ScopeStats.unpack(bytes(found["data"]))
        return SizedValue((stats, int(found["buckets"])), stats.nbytes)

    def _load_postings(self, missing: Sequence[str]) -> dict[str, Postings]:
        _, buckets = self._stats_and_buckets()
        ids = sorted({f"{self._id}:{bucket_of(t, buckets)}" for t in missing})
        found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for data in self._reads.read(self.scope, cypher.POSTINGS, {}, ids=ids):
            found |= unpack_postings(bytes(data))
        nothing = (np.zeros(0, np.int32), np.zeros(0, np.float32))
        loaded = {}
        for term in missing:
            rows, scores = found.get(term, nothing)
            loaded[term] = Postings(rows.copy(), scores.copy())
            self._cache.put((self.scope, "term", term), loaded[term])
        return loaded

    def _vectors(self) -> ScopeVectors:
        return self._cached("vectors", self._load_vectors)

    def _load_vectors(self) -> ScopeVectors:
        stats = self.stats
        blocks = blocks_for(stats.vectors)
        names = [f"{self._id}:{b}" for b in range(blocks)]
        unpacked: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for i in range(0, blocks, _BLOCKS_AT_ONCE):
            found = self._reads.packed(cypher.BLOCKS, ids=names[i : i + _BLOCKS_AT_ONCE])
            unpacked |= {r["id"]: unpack_block(bytes(r["data"])) for r in found}
        block = np.array([bucket_of(i, blocks) for i in stats.ids])
        counts = np.empty(len(stats.ids), np.int64)
        for b in np.unique(block).tolist():
            counts[block == b] = unpacked[names[b]][0]
        starts = np.cumsum(counts) - counts
        dimensions = next((v.shape[1] for _, v in unpacked.values() if v.ndim == 2), DIMENSIONS)
        matrix = np.empty((stats.vectors, dimensions), np.float32)
        of_memory = np.repeat(block, counts)
        for b in np.unique(block).tolist():
            matrix[of_memory == b] = unpacked[names[b]][1]
        return ScopeVectors((matrix,), starts, stats.vectors)
