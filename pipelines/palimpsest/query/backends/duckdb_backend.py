"""The embedded backend: one DuckDB file, read only; what a scope needs at every query is cached in memory.

Cosines are matrix-vector products over the scope's rows and BM25 sums are additions along posting lists: both are
exact, and both give every candidate's score for the statistics that z-scores need. SQL serves what is sparse.
"""

import datetime as dt
import json
import threading
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from palimpsest.core.errors import PalimpsestError, first_line_of
from palimpsest.core.files import FORMAT
from palimpsest.query.backends.duckdb_graph import DuckDBGraph
from palimpsest.query.backends.duckdb_scope import (
    DIMENSIONS,
    SMALL_SCOPE,
    TABLE,
    CachedMemories,
    DuckDBScope,
    VectorTable,
    rows_statement,
)
from palimpsest.query.backends.scope_parts import Range, read_clocks
from palimpsest.query.ranking.scoring import best_seeds, score_stats
from palimpsest.query.request.types import (
    MEMORY_TIMES,
    STORED_FIELDS,
    CollectionInfo,
    Filters,
    Link,
    Memory,
    Scope,
    Seeds,
    stored_memory,
)
from palimpsest.query.request.where import Kind
from palimpsest.query.scope.backend import collection_infos
from palimpsest.query.scope.scope_arrays import ByteCache, known_rows, rows_of
from palimpsest.query.scope.view import CachedScopeView

CACHE_BYTES = 512 * 2**20
_MAX_INDEXED_ROWS = 2048
_BYTES_OF_A_MEMORY = 3_400
"""What a query of a large scope keeps of each memory: 1,536 bytes of MiniLM's vector, its id, order, priors, words."""

_META = "SELECT key, value FROM meta"
_SCOPES = "SELECT collection, user_id, project_id, first_row, size, scope FROM scopes ORDER BY scope"
_COLUMNS = tuple(name for name in STORED_FIELDS if name not in Scope._fields)
_MEMORIES = f"SELECT {', '.join(_COLUMNS)} FROM memories"
_ALL_MEMORIES = f"{_MEMORIES} WHERE row BETWEEN $first AND $last ORDER BY row"


class DuckDBBackend:
    """Implements `palimpsest.query.scope.backend.Backend` over an index file.

    Args:
        path: the index file.
        cache_bytes: limit of the cache; None means `CACHE_BYTES`, or more where the largest scope needs more.

    Raises:
        PalimpsestError: the file is missing, is no index, or has another format.
    """

    def __init__(self, path: Path, cache_bytes: int | None = None):
        if not path.is_file():
            raise PalimpsestError(f"index {path}: no such file; run palimpsest build")
        try:
            self._db = duckdb.connect(str(path), read_only=True)
            # Its tasks here are too small to share out, and a busy machine makes sharing cost more than it gains.
            self._db.execute("SET threads = 1").fetchall()
            # Up to so many rows are found by the index on `row`; above its default of 50, the whole table is scanned.
            self._db.execute(f"SET dynamic_or_filter_threshold = {_MAX_INDEXED_ROWS}").fetchall()
            meta = {key: json.loads(value) for key, value in self._db.execute(_META).fetchall()}
            scopes = self._db.execute(_SCOPES).fetchall()
        except duckdb.Error as e:
            raise PalimpsestError(
                f"index {path}: cannot be read ({first_line_of(e)}); run palimpsest build --repair"
            ) from None
        if meta.get("format") != FORMAT:
            raise PalimpsestError(
                f"index {path}: format {meta.get('format')}, this version reads {FORMAT}; run palimpsest build"
            )
        self.path = path
        self.meta: dict[str, Any] = meta
        self.build_id = str(meta.get("build_id", ""))
        self._scopes = {Scope(*row[:3]): Range(*row[3:]) for row in scopes}
        self._threads = threading.local()
        self._cursors: list[duckdb.DuckDBPyConnection] = []
        self._cache = ByteCache(self._needed_cache() if cache_bytes is None else cache_bytes)

    def collections(self) -> dict[str, CollectionInfo]:
        """See Backend."""
        return self._collections

    @cached_property
    def _collections(self) -> dict[str, CollectionInfo]:
        settings, strategies, weights = (self.meta.get(k, {}) for k in ("collections", "strategies", "weights"))
        return collection_infos(self._scopes, settings, strategies, weights, self.meta.get("spaces", {}))

    def scopes(self) -> list[Scope]:
        """See Backend."""
        return sorted(self._scopes)

    def view(self, scope: Scope) -> DuckDBScope | None:
        """See Backend."""
        at = self._scopes.get(scope)
        return DuckDBScope(at, self._cursor, self._cache, self._vector_table(scope)) if at else None

    def seeds(
        self, scope: Scope, filters: Filters, vector: np.ndarray, terms: Sequence[str], weight: float, n: int
    ) -> Seeds:
        """See Backend."""
        view = self.view(scope)
        return view_seeds(view, filters, vector, terms, weight, n) if view else Seeds()

    def scores(self, scope: Scope, vector: np.ndarray, terms: Sequence[str], ids: Sequence[str]) -> np.ndarray:
        """See Backend."""
        view = DuckDBScope(self._scopes[scope], self._cursor, self._cache, self._vector_table(scope))
        return view_scores(view, vector, terms, ids)

    def neighbors(self, scope: Scope, filters: Filters, ids: Sequence[str], n: int) -> list[Link]:
        """See Backend."""
        view = self.view(scope)
        return view.neighbors(filters, ids, n) if view else []

    def passing(self, scope: Scope, filters: Filters, ids: Sequence[str]) -> set[str]:
        """See Backend."""
        view = self.view(scope)
        return view.passing(filters, ids) if view else set()

    def memories(self, scope: Scope, ids: Sequence[str]) -> dict[str, Memory]:
        """See Backend."""
        if (view := self.view(scope)) is None or not ids:
            return {}
        at = view.at
        rows = sorted(known_rows(view.ids, ids).values())
        if at.size <= SMALL_SCOPE:
            cached: CachedMemories = self._cache.get((at.number, "memories"), lambda: self._load_memories(scope, at))
            found = [cached.values[row] for row in rows]
        else:
            keys = {row: (at.number, "memory", row) for row in rows}
            read = self._cache.get_each(keys, partial(self._read_memories, scope, at))
            found = [m for one in read.values() for m in one.values]
        return {m.memory_id: m for m in found}

    def chains(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[str]]:
        """See Backend."""
        view = self.view(scope)
        return view.chains(ids) if view else {}

    def field_kinds(self, scope: Scope, filters: Filters) -> dict[str, frozenset[Kind]]:
        """See Backend."""
        view = self.view(scope)
        return view.field_kinds(filters) if view else {}

    def languages(self, scope: Scope) -> tuple[str, ...]:
        """See Backend."""
        view = self.view(scope)
        return view.languages() if view else ()

    def observed(self, scope: Scope) -> tuple[dt.datetime, dt.datetime] | None:
        """See Backend."""
        view = self.view(scope)
        return view.observed() if view else None

    def reasons(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[str]]:
        """See Backend."""
        view = self.view(scope)
        return view.reasons().select(ids) if view else {}

    def graph(self, scope: Scope) -> DuckDBGraph | None:
        """See Backend."""
        view = self.view(scope)
        return DuckDBGraph(view) if view else None

    def close(self) -> None:
        """See Backend."""
        self._cache.clear()
        # While one cursor is open, this process goes on seeing this file under its path, whatever replaced it.
        for cursor in self._cursors:
            cursor.close()
        self._db.close()

    def _needed_cache(self) -> int:
        """Returns the limit of the cache: with less than its largest scope, each query would read it again."""
        return max(CACHE_BYTES, _BYTES_OF_A_MEMORY * max((at.size for at in self._scopes.values()), default=0))

    def _vector_table(self, scope: Scope) -> VectorTable:
        """Returns where the vectors of a scope are; indexes of earlier versions have one table, of MiniLM."""
        space = self.meta.get("spaces", {}).get(scope.collection, {})
        table = self.meta.get("vector_tables", {}).get(scope.collection, TABLE)
        return VectorTable(str(table), int(space.get("dimensions", DIMENSIONS)))

    def _load_memories(self, scope: Scope, at: Range) -> CachedMemories:
        found = read_clocks(self._cursor().execute, _ALL_MEMORIES, at.rows).fetchall()
        return CachedMemories([_memory(scope, values) for values in found])

    def _read_memories(self, scope: Scope, at: Range, rows: Sequence[int]) -> dict[int, CachedMemories]:
        statement = rows_statement(_MEMORIES, [at.first + row for row in rows])
        found = read_clocks(self._cursor().execute, *statement).fetchall()
        return {row: CachedMemories([_memory(scope, values)]) for row, values in zip(rows, found, strict=True)}

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        """Returns this thread's cursor: one connection must not be used by two threads at once."""
        cursor: duckdb.DuckDBPyConnection | None = getattr(self._threads, "cursor", None)
        if cursor is None:
            cursor = self._threads.cursor = self._db.cursor()
            self._cursors.append(cursor)
        return cursor


def view_seeds(
    view: CachedScopeView, filters: Filters, vector: np.ndarray, terms: Sequence[str], weight: float, n: int
) -> Seeds:
    """Returns `Backend.seeds` of a scope in memory."""
    ids, cosines, words = view.ids, view.cosines(vector), view.words(terms)
    rows = np.flatnonzero(view.allowed(filters))
    if len(rows) == 0:
        return Seeds()
    if len(rows) < len(ids):
        ids, cosines, words = ids[rows], cosines[rows], words[rows]
    return best_seeds(ids, cosines, words, weight, n, len(rows), score_stats(cosines), score_stats(words))


def view_scores(view: CachedScopeView, vector: np.ndarray, terms: Sequence[str], ids: Sequence[str]) -> np.ndarray:
    """Returns `Backend.scores` of a scope in memory."""
    rows = rows_of(view.ids, ids)
    words = sum((p.scores_of(rows) for p in view.postings(terms)), np.zeros(len(rows)))
    return np.stack([view.cosines_of(vector, rows), words], axis=1)


def _memory(scope: Scope, values: Sequence[Any]) -> Memory:
    fields = dict(zip(_COLUMNS, values, strict=True))
    for name in MEMORY_TIMES:
        fields[name] = fields[name].replace(tzinfo=dt.UTC) if fields[name] else None
    return stored_memory(fields | scope._asdict() | {"tags": tuple(fields["tags"] or ())})
