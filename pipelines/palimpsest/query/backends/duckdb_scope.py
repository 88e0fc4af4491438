"""A scope of a DuckDB index as dense arrays, cached once read; implements `scope.view.ScopeView`."""

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeAlias

import duckdb
import numpy as np

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.times import is_of_own_clock
from palimpsest.query.backends.scope_parts import Query, Range, read_clocks, read_part
from palimpsest.query.request.types import Filters, Memory
from palimpsest.query.scope.scope_arrays import Arrays, ByteCache, Flags, Postings, ScopeVectors
from palimpsest.query.scope.scope_graph import NO_SENTENCES, MemorySentences, PassageGraph
from palimpsest.query.scope.view import CachedScopeView, Withheld
from palimpsest.text.terms import SentenceTerms

# What the DuckDB backend caches of a scope besides the arrays that scorers read: ids, terms, memories.


@dataclass(frozen=True)
class ScopeIds:
    """Memory ids by local row, ascending."""

    values: np.ndarray

    @property
    def nbytes(self) -> int:
        """Size in bytes: about 73 for each string of 16 characters."""
        return 73 * len(self.values)


@dataclass(frozen=True)
class Vocabulary:
    """Every term of a scope and its postings."""

    postings: dict[str, Postings]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return sum(p.nbytes for p in self.postings.values())


@dataclass(frozen=True)
class TermIndex:
    """Where the postings of a scope's terms are: terms, ascending, the first posting of each and how many."""

    names: np.ndarray
    first: np.ndarray
    df: np.ndarray

    @property
    def nbytes(self) -> int:
        """Size in bytes: about 64 for each term."""
        return 64 * len(self.names) + self.first.nbytes + self.df.nbytes

    def find(self, terms: Iterable[str]) -> list[tuple[str, int, int]]:
        """Returns (term, first, df) of those terms that occur, ascending."""
        found = []
        for term in sorted(set(terms)):
            at = int(np.searchsorted(self.names, term))
            if at < len(self.names) and self.names[at] == term:
                found.append((term, int(self.first[at]), int(self.df[at])))
        return found


@dataclass(frozen=True)
class CachedMemories:
    """Memories in the order of their rows: those of a small scope, or one of a larger scope."""

    values: Sequence[Memory]

    @property
    def nbytes(self) -> int:
        """Size in bytes: about 1,500 for a memory without its text."""
        return sum(1500 + 2 * len(m.text) for m in self.values)


# The SQL conditions of filters.

SqlParameters: TypeAlias = Mapping[str, object]
"""Values of a statement's parameters, by name."""

_OWN_CLOCK = "observed_at + to_minutes(coalesce(utc_offset, 0))"
# Each filter's condition; its value is bound under the same name.
_CONDITIONS = {
    "session": "session_id = $session",
    "types": "list_contains($types, type)",
    "tags": "list_has_any(tags, $tags)",
    "since": "{observed_at} >= $since",
    "until": "{observed_at} <= $until",
    # A memory retired on an unknown day is not offered as valid then; nor is an undated one before the home knew it.
    "as_of": "(coalesce(valid_from, known_from) IS NULL OR coalesce(valid_from, known_from) <= $as_of) AND "
    "(valid_until > $as_of OR (valid_until IS NULL AND is_latest))",
    "now": "(valid_from IS NULL OR valid_from <= $now) AND (valid_until IS NULL OR valid_until > $now)",
    "clock": "(retention_until IS NULL OR retention_until > $clock)",
}
_EXCLUSIONS = {"hidden": "user_visible IS DISTINCT FROM false", "pii": "pii IS DISTINCT FROM true"}


def conditions_of(filters: Filters, withheld: Withheld) -> tuple[list[str], SqlParameters]:
    """Returns the conditions of filters in a scope, and the values of their parameters.

    Args:
        filters: as `withheld.narrowed` returns them.
        withheld: what the scope does not serve by default.
    """
    values = {name: _as_stored(v) for name in _CONDITIONS if (v := getattr(filters, name)) not in (None, ())}
    conditions = [_CONDITIONS[name].format(observed_at=_observed_at(getattr(filters, name))) for name in values]
    conditions += [_EXCLUSIONS[name] for name in withheld.conditions(filters)]
    if filters.as_of is None and not filters.history:
        conditions.append("is_latest")
    return conditions, values


def _observed_at(limit: object) -> str:
    """Returns what compares with a limit: a time without an offset is one of each speaker's own clock."""
    return _OWN_CLOCK if is_of_own_clock(limit) else "observed_at"


def _as_stored(value: object) -> object:
    """Returns a time as UTC without a zone, for which DuckDB needs an extension, and names as a list."""
    if isinstance(value, tuple):
        return list(value)
    if not isinstance(value, dt.datetime):
        return value
    return value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value


# Reads the postings of a scope's terms from an index.

RANGES_AT_ONCE = 32  # terms read by one statement
NO_POSTINGS = Postings(np.zeros(0, np.int32), np.zeros(0, np.float32))
_TERMS = "SELECT term, first, df FROM terms WHERE scope = $scope ORDER BY first"
_POSTINGS = "SELECT row, score FROM postings"  # + ranges of rowid, which DuckDB finds without a scan


def read_term_index(query: Query, at: Range) -> TermIndex:
    """Returns where the postings of every term of a scope are."""
    found = query(_TERMS, at.scope).fetchnumpy()
    return TermIndex(np.asarray(found["term"], dtype=object), np.asarray(found["first"]), np.asarray(found["df"]))


def read_vocabulary(query: Query, at: Range) -> Vocabulary:
    """Returns every term of a scope with its postings."""
    terms = query(_TERMS, at.scope).fetchall()
    if not terms:
        return Vocabulary({})
    start, end = terms[0][1], terms[-1][1] + terms[-1][2]  # a scope's postings are adjacent, in order of its terms
    found = query(f"{_POSTINGS} WHERE rowid BETWEEN $a AND $b", {"a": start, "b": end - 1}).fetchnumpy()
    rows, scores = np.asarray(found["row"]) - np.int32(at.first), np.asarray(found["score"])
    return Vocabulary(
        {
            term: Postings(rows[first - start : first - start + df], scores[first - start : first - start + df])
            for term, first, df in terms
        }
    )


def read_postings(query: Query, at: Range, terms: list[tuple[str, int, int]]) -> dict[str, Postings]:
    """Returns the postings of (term, first, df), ascending by first, read by one statement in that order."""
    values = {f"{k}{i}": v for i, (_, first, df) in enumerate(terms) for k, v in (("a", first), ("b", first + df - 1))}
    where = " OR ".join(f"rowid BETWEEN $a{i} AND $b{i}" for i in range(len(terms)))
    found = query(f"{_POSTINGS} WHERE {where}", values).fetchnumpy()
    rows, scores = np.asarray(found["row"]) - np.int32(at.first), np.asarray(found["score"])
    ends = np.cumsum([df for _, _, df in terms])
    assert len(rows) == ends[-1]
    return {
        term: Postings(rows[end - df : end].copy(), scores[end - df : end].copy())
        for (term, _, df), end in zip(terms, ends.tolist(), strict=True)
    }


# Reads the vectors of a scope from an index.

_BATCH = 16_384  # vectors read at a time
_VECTORS = "SELECT row, vector FROM {table} WHERE row BETWEEN $first AND $last"
_NAME = re.compile(r"vectors(_[0-9]+)?")
TABLE, DIMENSIONS = "vectors", 384

_RowsAndMatrices = tuple[np.ndarray, tuple[np.ndarray, ...]]


class VectorTable(NamedTuple):
    """A table of vectors of one space."""

    name: str = TABLE
    dimensions: int = DIMENSIONS

    @property
    def select(self) -> str:
        """The statement that reads the vectors of some rows.

        Raises:
            PalimpsestError: the name is none that this project writes; a table cannot be a parameter.
        """
        if not _NAME.fullmatch(self.name):
            raise PalimpsestError(f"index: {self.name[:40]!r} is no table of vectors; build it again")
        return _VECTORS.format(table=self.name)


def read_vectors(cursor: duckdb.DuckDBPyConnection, at: Range, table: VectorTable) -> ScopeVectors:
    """Returns the vectors of every memory of a scope."""
    read = _read_numpy if find_spec("pyarrow") is None else _read_arrow
    rows, matrices = read(cursor, at.rows, table)
    starts = np.searchsorted(rows, np.arange(at.first, at.first + at.size))
    return ScopeVectors(matrices, starts, len(rows))


def _read_arrow(cursor: duckdb.DuckDBPyConnection, bounds: dict[str, Any], table: VectorTable) -> _RowsAndMatrices:
    """Returns rows and vectors without a copy."""
    batches = list(cursor.sql(table.select, params=bounds).to_arrow_reader(_BATCH))
    matrices = tuple(_as_numpy(b.column(1).values, np.float32).reshape(-1, table.dimensions) for b in batches)
    return np.concatenate([_as_numpy(b.column(0), np.int32) for b in batches]), matrices


def _read_numpy(cursor: duckdb.DuckDBPyConnection, bounds: dict[str, Any], table: VectorTable) -> _RowsAndMatrices:
    """Returns the same without pyarrow, which the base install leaves out: half as fast, one copy."""
    found = cursor.execute(table.select, bounds).fetchnumpy()
    matrix = np.stack(list(found["vector"])) if len(found["row"]) else np.empty((0, table.dimensions), np.float32)
    return np.asarray(found["row"], np.int32), (matrix,)


def _as_numpy(array: Any, dtype: type[np.generic]) -> np.ndarray:
    """Returns an Arrow array without nulls as numpy, not copied: `to_numpy` would import pandas, for 1 s."""
    data = array.buffers()[1]
    return np.frombuffer(data, dtype, len(array), array.offset * np.dtype(dtype).itemsize)


SMALL_SCOPE = 1000
"""Memories of a scope that is read whole: most of a statement is planning, so all its rows cost what ten do."""

_IDS = "SELECT memory_id FROM memories WHERE row BETWEEN $first AND $last ORDER BY row"
_CANDIDATES = "SELECT row FROM memories WHERE row BETWEEN $first AND $last"
_OBSERVED = "SELECT min(observed_at), max(observed_at) FROM memories WHERE row BETWEEN $first AND $last"
_SENTENCES = "SELECT row, spans, counts, entities, vectors, term_counts, terms FROM sentences"
_BARE_SENTENCES = "SELECT row, spans, counts, entities, vectors FROM sentences"
_TEXTS = "SELECT row, text FROM memories"


class _StoredSentences(NamedTuple):
    """A row of the table `sentences`; see `palimpsest.index.graph_tables`."""

    row: int
    spans: list[int]
    counts: list[int]
    entities: list[int]
    vectors: bytes | None
    term_counts: list[int] | None = None
    terms: bytes | None = None


class DuckDBScope(CachedScopeView):
    """See ScopeView.

    Args:
        at: where the scope is in the tables.
        cursor: returns this thread's cursor.
        cache: of everything that is read.
        table: where its vectors are.
    """

    def __init__(
        self, at: Range, cursor: Callable[[], duckdb.DuckDBPyConnection], cache: ByteCache, table: VectorTable
    ):
        super().__init__(cache, at.number)
        self.at, self._cursor, self._table = at, cursor, table

    @property
    def ids(self) -> np.ndarray:
        """See ScopeView."""
        known: ScopeIds = self._cached("ids", self._load_ids)
        return known.values

    @property
    def vectors(self) -> ScopeVectors:
        """The vectors of every memory."""
        return self._cached("vectors", lambda: read_vectors(self._cursor(), self.at, self._table))

    def observed(self) -> tuple[dt.datetime, dt.datetime] | None:
        """Returns when the oldest and the newest memory were observed."""
        (found,) = self._run(_OBSERVED, self.at.rows).fetchall()
        return (found[0].replace(tzinfo=dt.UTC), found[1].replace(tzinfo=dt.UTC)) if found[0] else None

    def run(self, sql: str, values: SqlParameters, /) -> duckdb.DuckDBPyConnection:
        """Runs a statement of the index with this thread's cursor."""
        return self._run(sql, values)

    def passages(self) -> PassageGraph | None:
        """See ScopeView."""
        graph = self._cached("passages", lambda: PassageGraph.from_arrays(self._arrays("passages"), self._size))
        return graph if len(graph.keys) else None

    def cosines(self, vector: np.ndarray) -> np.ndarray:
        """See ScopeView."""
        return self.vectors.cosines(vector)

    def estimated_cosines(self, vector: np.ndarray) -> np.ndarray | None:
        """See ScopeView."""
        return self.vectors.estimated_cosines(vector)

    def cosines_of(self, vector: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """See ScopeView."""
        return self.vectors.cosines_of(rows, vector)

    def window_cosines(self, vector: np.ndarray, rows: np.ndarray) -> list[np.ndarray] | None:
        """See ScopeView."""
        return self.vectors.window_cosines(rows, vector)

    def windows(self) -> np.ndarray | None:
        """See ScopeView."""
        return self.vectors.windows()

    def postings(self, terms: Sequence[str]) -> list[Postings]:
        """See ScopeView."""
        if self.at.size <= SMALL_SCOPE:
            words: Vocabulary = self._cached("words", lambda: read_vocabulary(self._run, self.at))
            return [words.postings.get(t, NO_POSTINGS) for t in sorted(set(terms))]
        return super().postings(terms)

    def _stored_allowed(self, filters: Filters) -> np.ndarray:
        filters = self.withheld().narrowed(filters)
        flags: Flags = self._cache.get((self.at.number, "allowed", filters), lambda: Flags(self._load_allowed(filters)))
        return flags.values

    @property
    def _size(self) -> int:
        return self.at.size

    def _run(self, sql: str, values: SqlParameters, /) -> duckdb.DuckDBPyConnection:
        return self._cursor().execute(sql, values)

    def _arrays(self, part: str) -> Arrays:
        return read_part(self._run, self.at, part)

    def _load_sentences(self, rows: Sequence[int]) -> dict[int, MemorySentences]:
        places = [row + self.at.first for row in rows]
        try:
            stored = self._run(*rows_statement(_SENTENCES, places)).fetchall()
        except duckdb.BinderException:  # an index of an earlier version has no words of sentences
            stored = self._run(*rows_statement(_BARE_SENTENCES, places)).fetchall()
        read = {s.row - self.at.first: s for s in (_StoredSentences(*row) for row in stored)}
        graph = self.passages() if any(s.counts for s in read.values()) else None
        first = graph.first_entity if graph else 0
        return {row: self._unpack(read[row], first) if row in read else NO_SENTENCES for row in rows}

    def _unpack(self, s: "_StoredSentences", first_entity: int) -> MemorySentences:
        spans = np.array(s.spans, "<i4").reshape(-1, 2)
        vectors = None if s.vectors is None else np.frombuffer(s.vectors, "<f2").reshape(-1, self._table.dimensions)
        words = None
        if s.terms is not None:
            words = SentenceTerms(spans, np.array(s.term_counts, "<i4"), np.frombuffer(s.terms, "<i8"))
        counts = np.array(s.counts, np.int64) if s.counts else None
        return MemorySentences(spans, counts, np.array(s.entities, np.int64) - first_entity, vectors, words)

    def _texts_of(self, rows: Sequence[int]) -> dict[int, str]:
        places = [row + self.at.first for row in rows]
        found = self._run(*rows_statement(_TEXTS, places)).fetchall() if rows else []
        return {place - self.at.first: text for place, text in found}

    def _load_ids(self) -> ScopeIds:
        return ScopeIds(np.asarray(self._run(_IDS, self.at.rows).fetchnumpy()["memory_id"], dtype=object))

    def _load_postings(self, missing: list[str]) -> dict[str, Postings]:
        loaded = dict.fromkeys(missing, NO_POSTINGS)
        index: TermIndex = self._cached("terms", lambda: read_term_index(self._run, self.at))
        found = sorted(index.find(missing), key=lambda term: term[1])
        for i in range(0, len(found), RANGES_AT_ONCE):
            loaded |= read_postings(self._run, self.at, found[i : i + RANGES_AT_ONCE])
        for term, postings in loaded.items():
            self._cache.put((self.at.number, "term", term), postings)
        return loaded

    def _load_allowed(self, filters: Filters) -> np.ndarray:
        conditions, values = conditions_of(filters, self.withheld())
        sql = " AND ".join([_CANDIDATES, *conditions])
        rows = read_clocks(self._run, sql, {**self.at.rows, **values}).fetchnumpy()["row"]
        allowed = np.zeros(self.at.size, bool)
        allowed[np.asarray(rows, np.int64) - self.at.first] = True
        return allowed


def rows_statement(select: str, rows: Sequence[int]) -> tuple[str, SqlParameters]:
    """Returns a statement that reads given rows of a table in their order, and its values.

    The index on `row` finds them: without it, whole vectors of each column are read for each row.
    """
    return f"{select} WHERE row IN (SELECT unnest($places)) ORDER BY row", {"places": list(rows)}
