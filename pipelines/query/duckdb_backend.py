"""The embedded backend: one DuckDB file, read only; what a scope needs at every query is held in memory.

Cosines are matrix-vector products over the scope's rows and BM25 sums are additions along posting lists: both are
exact, and both leave every candidate's score at hand for the moments that z-scores need. SQL serves what is sparse.
"""

import datetime as dt
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np

from pipelines.errors import PalimpsestError
from pipelines.query.fusion import moments, standardise, top
from pipelines.query.scope_cache import ByteCache, Flags, Ids, Postings, Rows, ScopeVectors, Vocabulary
from pipelines.query.scope_graph import ScopeGraph
from pipelines.query.types import CollectionInfo, Filters, Link, Memory, Scope, Seeds

FORMAT = 1
CACHE_BYTES = 512 * 2**20
_BATCH = 16_384  # vectors read at a time
_RANGES = 32  # terms read by one statement
# Memories of a scope that is read whole: most of a statement is planning, so all its rows cost what ten of them do.
WHOLE = 1000

_META = "SELECT key, value FROM meta"
_SCOPES = "SELECT collection, user_id, first_row, size, scope FROM scopes ORDER BY scope"
_IDS = "SELECT memory_id FROM memories WHERE row BETWEEN $first AND $last ORDER BY row"
_REPLACED = """
    SELECT superseded_by, memory_id FROM memories
    WHERE row BETWEEN $first AND $last AND superseded_by IS NOT NULL ORDER BY row"""
_VECTORS = "SELECT row, vector FROM vectors WHERE row BETWEEN $first AND $last"
_CANDIDATES = "SELECT row FROM memories WHERE row BETWEEN $first AND $last"
_TERMS = "SELECT term, first, df FROM terms WHERE scope = $scope AND list_contains($terms, term) ORDER BY first"
_ALL_TERMS = "SELECT term, first, df FROM terms WHERE scope = $scope ORDER BY first"
_POSTINGS = "SELECT row, score FROM postings"  # + ranges of rowid, which DuckDB finds without a scan
_MENTIONS = "SELECT row, entity FROM mentions WHERE row BETWEEN $first AND $last"
_ENTITIES = "SELECT entity, name, df FROM entities WHERE scope = $scope ORDER BY entity"
_LINKS = """
    SELECT newer_row, older_row, label, confidence FROM links
    WHERE scope = $scope ORDER BY newer_row, older_row, label"""
_COLUMNS = (
    "memory_id", "text", "type", "unit", "project_id", "session_id", "document_id", "ordinal", "title", "heading",
    "page", "speaker", "char_start", "char_end", "observed_at", "valid_from", "valid_until", "is_latest",
    "superseded_by", "confidence", "importance", "tags", "token_count", "uri", "document_title",
)  # fmt: skip
_TIMES = ("observed_at", "valid_from", "valid_until")
# A row's number is its place in the table, and that is what DuckDB finds without a scan.
_MEMORIES = f"SELECT {', '.join(_COLUMNS)} FROM memories WHERE rowid IN (SELECT unnest($rows)) ORDER BY row"
_ALL_MEMORIES = f"SELECT {', '.join(_COLUMNS)} FROM memories WHERE row BETWEEN $first AND $last ORDER BY row"

# Each filter's condition; its value is bound under the same name.
_CONDITIONS = {
    "project": "project_id = $project",
    "session": "session_id = $session",
    "type": "type = $type",
    "tag": "list_contains(tags, $tag)",
    "since": "observed_at >= $since",
    "until": "observed_at <= $until",
    # What was retired on a day that nobody knows is not offered as what held then.
    "as_of": "(valid_from IS NULL OR valid_from <= $as_of) AND "
    "(valid_until > $as_of OR (valid_until IS NULL AND is_latest))",
    "now": "(valid_from IS NULL OR valid_from <= $now) AND (valid_until IS NULL OR valid_until > $now)",
}


class _Range(NamedTuple):
    first: int
    size: int
    number: int

    @property
    def bounds(self) -> dict[str, int]:
        return {"first": self.first, "last": self.first + self.size - 1}


class DuckDBBackend:
    """Implements `pipelines.query.backend.Backend` over an index file.

    Raises:
        PalimpsestError: the file is missing, is no index, or has another format.
    """

    def __init__(self, path: Path, cache_bytes: int = CACHE_BYTES):
        if not path.is_file():
            raise PalimpsestError(f"index {path}: no such file; run palimpsest build")
        try:
            self._db = duckdb.connect(str(path), read_only=True)
            # Its tasks here are too small to share out, and a busy machine makes sharing cost more than it gains.
            self._db.execute("SET threads = 1").fetchall()
            meta = {key: json.loads(value) for key, value in self._db.execute(_META).fetchall()}
            scopes = self._db.execute(_SCOPES).fetchall()
        except duckdb.Error as e:
            raise PalimpsestError(f"index {path}: cannot be read ({str(e).splitlines()[0]}); build it again") from None
        if meta.get("format") != FORMAT:
            raise PalimpsestError(
                f"index {path}: format {meta.get('format')}, this version reads {FORMAT}; build it again"
            )
        self.path = path
        self.meta: dict[str, Any] = meta
        self.build_id = str(meta.get("build_id", ""))
        self._scopes = {Scope(c, u): _Range(first, size, number) for c, u, first, size, number in scopes}
        self._threads = threading.local()
        self._cursors: list[duckdb.DuckDBPyConnection] = []
        self._cache = ByteCache(cache_bytes)

    def collections(self) -> dict[str, CollectionInfo]:
        """See Backend."""
        told, strategies = self.meta.get("collections", {}), self.meta.get("strategies", {})
        names = sorted({s.collection for s in self._scopes} | set(told))
        return {
            n: CollectionInfo(
                name=n,
                default=bool(told.get(n, {}).get("default", False)),
                user_id=told.get(n, {}).get("user_id"),
                strategy=strategies.get(n, "hybrid"),
            )
            for n in names
        }

    def scopes(self) -> list[Scope]:
        """See Backend."""
        return sorted(self._scopes)

    def seeds(
        self, scope: Scope, filters: Filters, vector: np.ndarray, terms: Sequence[str], weight: float, n: int
    ) -> Seeds:
        """See Backend."""
        if (at := self._scopes.get(scope)) is None:
            return Seeds()
        cosines, words = self._vectors(at).cosines(vector), self._words(at, terms)
        rows = np.flatnonzero(self._allowed(at, filters))
        if len(rows) == 0:
            return Seeds()
        if len(rows) < at.size:
            cosines, words = cosines[rows], words[rows]
        of_vector, of_words = moments(cosines), moments(words)
        fused = standardise(cosines, of_vector) + weight * standardise(words, of_words)
        best = np.sort(top(fused, n))
        ids = self._ids(at).values[rows[best]].tolist()
        return Seeds(ids, cosines[best], words[best], len(rows), of_vector, of_words)

    def scores(self, scope: Scope, vector: np.ndarray, terms: Sequence[str], ids: Sequence[str]) -> np.ndarray:
        """See Backend."""
        at = self._scopes[scope]
        rows = np.array([self._ids(at).row(i) for i in ids], np.int64)
        words = sum((p.scores_of(rows) for _, p in sorted(self._postings(at, terms).items())), np.zeros(len(rows)))
        return np.stack([self._vectors(at).cosines_of(rows, vector), words], axis=1)

    def neighbours(self, scope: Scope, filters: Filters, ids: Sequence[str], n: int) -> list[Link]:
        """See Backend."""
        if (at := self._scopes.get(scope)) is None:
            return []
        graph, allowed, known = self._graph(at), self._allowed(at, filters), self._ids(at)
        links = []
        for source in ids:
            row = known.row(source)
            links += [Link(source, known.values[r], label, w) for r, w, label in graph.related(row) if allowed[r]]
            links += [Link(source, known.values[r], "entity", w, e) for r, w, e in graph.sharing(row, allowed, n)]
        return links

    def memories(self, scope: Scope, ids: Sequence[str]) -> dict[str, Memory]:
        """See Backend."""
        if (at := self._scopes.get(scope)) is None or not ids:
            return {}
        known = self._ids(at)
        rows = sorted({row for row in map(known.row, ids) if row >= 0})
        if at.size <= WHOLE:
            held = self._cache.get((at.number, "memories"), lambda: self._load_memories(at))
            found = [held.values[row] for row in rows]
        else:
            found = self._run(_MEMORIES, {"rows": [at.first + row for row in rows]}).fetchall()
        return {values[0]: _memory(scope, values) for values in found}

    def history(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[Memory]]:
        """See Backend."""
        if (at := self._scopes.get(scope)) is None:
            return {}
        known = self._ids(at)
        chains = {i: chain for i in ids if (chain := known.chain(i))}
        held = self.memories(scope, sorted({older for chain in chains.values() for older in chain})) if chains else {}
        return {i: sorted((held[o] for o in chain), key=_newest_first) for i, chain in chains.items()}

    def close(self) -> None:
        """See Backend."""
        self._cache.clear()
        # While one cursor is open, this process goes on seeing this file under its path, whatever replaced it.
        for cursor in self._cursors:
            cursor.close()
        self._db.close()

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        """Returns this thread's cursor: one connection must not be used by two threads at once."""
        cursor: duckdb.DuckDBPyConnection | None = getattr(self._threads, "cursor", None)
        if cursor is None:
            cursor = self._threads.cursor = self._db.cursor()
            self._cursors.append(cursor)
        return cursor

    def _run(self, sql: str, values: dict[str, Any]) -> duckdb.DuckDBPyConnection:
        return self._cursor().execute(sql, values)

    def _ids(self, at: _Range) -> Ids:
        return self._cache.get((at.number, "ids"), lambda: self._load_ids(at))

    def _load_ids(self, at: _Range) -> Ids:
        replaced: dict[str, list[str]] = {}
        for newer, older in self._run(_REPLACED, at.bounds).fetchall():
            replaced.setdefault(newer, []).append(older)
        return Ids(np.asarray(self._run(_IDS, at.bounds).fetchnumpy()["memory_id"], dtype=object), replaced)

    def _load_memories(self, at: _Range) -> Rows:
        values = self._run(_ALL_MEMORIES, at.bounds).fetchall()
        return Rows(values, sum(len(v[_COLUMNS.index("text")]) for v in values))

    def _vectors(self, at: _Range) -> ScopeVectors:
        return self._cache.get((at.number, "vectors"), lambda: self._load_vectors(at))

    def _load_vectors(self, at: _Range) -> ScopeVectors:
        batches = list(self._cursor().sql(_VECTORS, params=at.bounds).to_arrow_reader(_BATCH))
        matrices = tuple(_view(b.column(1).values, np.float32).reshape(-1, 384) for b in batches)
        rows = np.concatenate([_view(b.column(0), np.int32) for b in batches])
        starts = np.searchsorted(rows, np.arange(at.first, at.first + at.size))
        return ScopeVectors(matrices, starts, len(rows))

    def _words(self, at: _Range, terms: Sequence[str]) -> np.ndarray:
        """Returns the BM25 sum of each local row; terms are added in their order, for sums of floats depend on it."""
        sums = np.zeros(at.size)
        for _, postings in sorted(self._postings(at, terms).items()):
            sums[postings.rows] += postings.scores
        return sums

    def _postings(self, at: _Range, terms: Sequence[str]) -> dict[str, Postings]:
        if at.size <= WHOLE:
            words: Vocabulary = self._cache.get((at.number, "words"), lambda: self._load_words(at))
            return {t: words.postings[t] for t in terms if t in words.postings}
        held = {t: self._cache.peek((at.number, "term", t)) for t in terms}
        missing = [t for t, postings in held.items() if postings is None]
        if missing:
            loaded = {t: Postings(np.zeros(0, np.int32), np.zeros(0, np.float32)) for t in missing}
            found = self._run(_TERMS, {"scope": at.number, "terms": missing}).fetchall()
            for i in range(0, len(found), _RANGES):
                loaded |= self._load_postings(at, found[i : i + _RANGES])
            for term, postings in loaded.items():
                self._cache.put((at.number, "term", term), postings)
            held |= loaded
        return held

    def _load_words(self, at: _Range) -> Vocabulary:
        terms = self._run(_ALL_TERMS, {"scope": at.number}).fetchall()
        if not terms:
            return Vocabulary({})
        first, end = terms[0][1], terms[-1][1] + terms[-1][2]  # a scope's postings lie together, in order of its terms
        found = self._run(f"{_POSTINGS} WHERE rowid BETWEEN $a AND $b", {"a": first, "b": end - 1}).fetchnumpy()
        rows, scores = np.asarray(found["row"]) - np.int32(at.first), np.asarray(found["score"])
        return Vocabulary(
            {t: Postings(rows[a - first : a - first + df], scores[a - first : a - first + df]) for t, a, df in terms}
        )

    def _load_postings(self, at: _Range, terms: list[tuple[str, int, int]]) -> dict[str, Postings]:
        """Reads (term, first, df), ascending by first, in one statement: the postings come in that order too."""
        values = {
            f"{k}{i}": v for i, (_, first, df) in enumerate(terms) for k, v in (("a", first), ("b", first + df - 1))
        }
        where = " OR ".join(f"rowid BETWEEN $a{i} AND $b{i}" for i in range(len(terms)))
        found = self._run(f"{_POSTINGS} WHERE {where}", values).fetchnumpy()
        rows, scores = np.asarray(found["row"]) - np.int32(at.first), np.asarray(found["score"])
        ends = np.cumsum([df for _, _, df in terms])
        assert len(rows) == ends[-1]
        return {
            term: Postings(rows[end - df : end].copy(), scores[end - df : end].copy())
            for (term, _, df), end in zip(terms, ends.tolist(), strict=True)
        }

    def _allowed(self, at: _Range, filters: Filters) -> np.ndarray:
        """Returns which local rows are candidates, shape (size,) bool."""
        if filters == Filters():
            flags: Flags = self._cache.get((at.number, "latest"), lambda: Flags(self._load_allowed(at, filters)))
            return flags.values
        return self._load_allowed(at, filters)

    def _load_allowed(self, at: _Range, filters: Filters) -> np.ndarray:
        values = {name: _sql(v) for name in _CONDITIONS if (v := getattr(filters, name)) is not None}
        conditions = [_CONDITIONS[name] for name in values]
        if filters.as_of is None and not filters.history:
            conditions.append("is_latest")
        rows = self._run(" AND ".join([_CANDIDATES, *conditions]), {**at.bounds, **values}).fetchnumpy()["row"]
        allowed = np.zeros(at.size, bool)
        allowed[np.asarray(rows, np.int64) - at.first] = True
        return allowed

    def _graph(self, at: _Range) -> ScopeGraph:
        return self._cache.get((at.number, "graph"), lambda: self._load_graph(at))

    def _load_graph(self, at: _Range) -> ScopeGraph:
        entities = self._run(_ENTITIES, {"scope": at.number}).fetchnumpy()
        mentions = self._run(_MENTIONS, at.bounds).fetchnumpy()
        links = self._run(_LINKS, {"scope": at.number}).fetchnumpy()
        known = np.asarray(entities["entity"], np.int64)
        return ScopeGraph.build(
            at.size,
            (np.asarray(mentions["row"], np.int64) - at.first, np.searchsorted(known, mentions["entity"])),
            (np.asarray(entities["name"], dtype=object), np.asarray(entities["df"], np.float64)),
            (
                np.asarray(links["newer_row"], np.int64) - at.first,
                np.asarray(links["older_row"], np.int64) - at.first,
                np.asarray(links["label"], dtype=object),
                np.asarray(links["confidence"], np.float64),
            ),
        )


def _view(array: Any, dtype: type[np.generic]) -> np.ndarray:
    """Returns an Arrow array without nulls as numpy sees it, not copied: `to_numpy` would import pandas, for 1 s."""
    data = array.buffers()[1]
    return np.frombuffer(data, dtype, len(array), array.offset * np.dtype(dtype).itemsize)


def _memory(scope: Scope, values: Sequence[Any]) -> Memory:
    told = dict(zip(_COLUMNS, values, strict=True))
    for name in _TIMES:
        told[name] = told[name].replace(tzinfo=dt.UTC) if told[name] else None
    return Memory(**(told | {"tags": tuple(told["tags"] or ())}), collection=scope.collection, user_id=scope.user_id)


def _sql(value: Any) -> Any:
    """Times lie in the file as UTC without a zone: DuckDB needs an extension for zones."""
    return value.astimezone(dt.UTC).replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def _newest_first(memory: Memory) -> tuple[float, str]:
    seen = memory.valid_from or memory.observed_at
    return (-seen.timestamp() if seen else float("inf"), memory.memory_id)
