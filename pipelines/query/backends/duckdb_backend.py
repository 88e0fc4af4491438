"""The embedded backend: one DuckDB file, read only; what a scope needs at every query is held in memory.

Cosines are matrix-vector products over the scope's rows and BM25 sums are additions along posting lists: both are
exact, and both leave every candidate's score at hand for the moments that z-scores need. SQL serves what is sparse.
"""

import datetime as dt
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.backends.duckdb_scope import WHOLE, DuckDBScope, Range, looked_up
from palimpsest.query.ranking.fusion import moments, standardise, top
from palimpsest.query.ranking.scope_cache import ByteCache, Rows
from palimpsest.query.request.types import CollectionInfo, Filters, Link, Memory, Scope, Seeds

FORMAT = 8
CACHE_BYTES = 512 * 2**20

_META = "SELECT key, value FROM meta"
_SCOPES = "SELECT collection, user_id, project_id, first_row, size, scope FROM scopes ORDER BY scope"
_COLUMNS = (
    "memory_id",
    "text",
    "type",
    "unit",
    "session_id",
    "document_id",
    "ordinal",
    "title",
    "heading",
    "page",
    "speaker",
    "char_start",
    "char_end",
    "observed_at",
    "valid_from",
    "valid_until",
    "is_latest",
    "superseded_by",
    "confidence",
    "importance",
    "kind",
    "confidence_source",
    "importance_source",
    "tags",
    "token_count",
    "uri",
    "document_title",
    "created_at",
    "updated_at",
)
_TIMES = ("observed_at", "valid_from", "valid_until", "created_at", "updated_at")
_MEMORIES = f"SELECT {', '.join(_COLUMNS)} FROM memories"  # a row's number is its place in the table
_ALL_MEMORIES = f"{_MEMORIES} WHERE row BETWEEN $first AND $last ORDER BY row"


class DuckDBBackend:
    """Implements `palimpsest.query.ranking.backend.Backend` over an index file.

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
        self._scopes = {Scope(*told[:3]): Range(*told[3:]) for told in scopes}
        self._threads = threading.local()
        self._cursors: list[duckdb.DuckDBPyConnection] = []
        self._cache = ByteCache(cache_bytes)

    def collections(self) -> dict[str, CollectionInfo]:
        """See Backend."""
        told, strategies, weights = (self.meta.get(k, {}) for k in ("collections", "strategies", "weights"))
        names = sorted({s.collection for s in self._scopes} | set(told))
        return {
            n: CollectionInfo(
                name=n,
                default=bool(told.get(n, {}).get("default", False)),
                user_id=told.get(n, {}).get("user_id"),
                strategy=strategies.get(n, "hybrid"),
                weights=weights.get(n, {}),
            )
            for n in names
        }

    def scopes(self) -> list[Scope]:
        """See Backend."""
        return sorted(self._scopes)

    def view(self, scope: Scope) -> DuckDBScope | None:
        """See Backend."""
        at = self._scopes.get(scope)
        return DuckDBScope(at, self._cursor, self._cache) if at else None

    def seeds(
        self, scope: Scope, filters: Filters, vector: np.ndarray, terms: Sequence[str], weight: float, n: int
    ) -> Seeds:
        """See Backend."""
        if (held := self.view(scope)) is None:
            return Seeds()
        cosines, words = held.cosines(vector), held.words(terms)
        rows = np.flatnonzero(held.allowed(filters))
        if len(rows) == 0:
            return Seeds()
        if len(rows) < held.at.size:
            cosines, words = cosines[rows], words[rows]
        of_vector, of_words = moments(cosines), moments(words)
        fused = standardise(cosines, of_vector) + weight * standardise(words, of_words)
        best = np.sort(top(fused, n))
        ids = held.ids[rows[best]].tolist()
        return Seeds(ids, cosines[best], words[best], len(rows), of_vector, of_words)

    def scores(self, scope: Scope, vector: np.ndarray, terms: Sequence[str], ids: Sequence[str]) -> np.ndarray:
        """See Backend."""
        held = self._held(scope)
        rows = np.array([held.known.row(i) for i in ids], np.int64)
        words = sum((p.scores_of(rows) for p in held.postings(terms)), np.zeros(len(rows)))
        return np.stack([held.vectors.cosines_of(rows, vector), words], axis=1)

    def neighbours(self, scope: Scope, filters: Filters, ids: Sequence[str], n: int) -> list[Link]:
        """See Backend."""
        if (held := self.view(scope)) is None:
            return []
        graph, allowed, known = held.graph(n > 0), held.allowed(filters), held.known
        links = []
        for source in ids:
            row = known.row(source)
            links += [Link(source, known.values[r], label, w) for r, w, label in graph.related(row) if allowed[r]]
            if n > 0:
                links += [Link(source, known.values[r], "entity", w, e) for r, w, e in graph.sharing(row, allowed, n)]
        return links

    def passing(self, scope: Scope, filters: Filters, ids: Sequence[str]) -> set[str]:
        """See Backend."""
        if (held := self.view(scope)) is None:
            return set()
        allowed = held.allowed(filters)
        return {i for i in ids if (row := held.known.row(i)) >= 0 and allowed[row]}

    def memories(self, scope: Scope, ids: Sequence[str]) -> dict[str, Memory]:
        """See Backend."""
        if (held := self.view(scope)) is None or not ids:
            return {}
        at = held.at
        rows = sorted({row for row in map(held.known.row, ids) if row >= 0})
        if at.size <= WHOLE:
            whole: Rows = self._cache.get((at.number, "memories"), lambda: self._load_memories(at))
            found = [whole.values[row] for row in rows]
        else:
            found = self._cursor().execute(*looked_up(_MEMORIES, [at.first + row for row in rows])).fetchall()
        return {values[0]: _memory(scope, values) for values in found}

    def history(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[Memory]]:
        """See Backend."""
        if (held := self.view(scope)) is None:
            return {}
        chains = {i: chain for i in ids if (chain := held.known.chain(i))}
        told = self.memories(scope, sorted({older for chain in chains.values() for older in chain})) if chains else {}
        return {i: sorted((told[o] for o in chain), key=_newest_first) for i, chain in chains.items()}

    def observed(self, scope: Scope) -> tuple[dt.datetime, dt.datetime] | None:
        """See Backend."""
        held = self.view(scope)
        return held.observed() if held else None

    def reasons(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[str]]:
        """See Backend."""
        held = self.view(scope)
        return held.told().among(ids) if held else {}

    def close(self) -> None:
        """See Backend."""
        self._cache.clear()
        # While one cursor is open, this process goes on seeing this file under its path, whatever replaced it.
        for cursor in self._cursors:
            cursor.close()
        self._db.close()

    def _load_memories(self, at: Range) -> Rows:
        values = self._cursor().execute(_ALL_MEMORIES, at.bounds).fetchall()
        return Rows(values, sum(len(v[_COLUMNS.index("text")]) for v in values))

    def _held(self, scope: Scope) -> DuckDBScope:
        return DuckDBScope(self._scopes[scope], self._cursor, self._cache)

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        """Returns this thread's cursor: one connection must not be used by two threads at once."""
        cursor: duckdb.DuckDBPyConnection | None = getattr(self._threads, "cursor", None)
        if cursor is None:
            cursor = self._threads.cursor = self._db.cursor()
            self._cursors.append(cursor)
        return cursor


def _memory(scope: Scope, values: Sequence[Any]) -> Memory:
    told = dict(zip(_COLUMNS, values, strict=True))
    for name in _TIMES:
        told[name] = told[name].replace(tzinfo=dt.UTC) if told[name] else None
    return Memory(**(told | {"tags": tuple(told["tags"] or ())}), **scope._asdict())


def _newest_first(memory: Memory) -> tuple[float, str]:
    seen = memory.valid_from or memory.observed_at
    return (-seen.timestamp() if seen else float("inf"), memory.memory_id)
