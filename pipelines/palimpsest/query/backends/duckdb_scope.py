"""A scope of a DuckDB index as dense arrays, cached once read; implements `scope.view.ScopeView`."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import duckdb
import numpy as np

from palimpsest.query.backends.duckdb_arrays import ScopeIds, TermIndex, Vocabulary
from palimpsest.query.backends.duckdb_filters import SqlParameters, conditions_of
from palimpsest.query.backends.duckdb_postings import (
    NO_POSTINGS,
    RANGES_AT_ONCE,
    read_postings,
    read_term_index,
    read_vocabulary,
)
from palimpsest.query.backends.duckdb_vectors import VectorTable, read_vectors
from palimpsest.query.backends.part_query import Range, read_clocks
from palimpsest.query.backends.scope_parts import read_part
from palimpsest.query.request.types import Filters
from palimpsest.query.scope.byte_cache import ByteCache
from palimpsest.query.scope.memory_sentences import NO_SENTENCES, MemorySentences, join_named
from palimpsest.query.scope.passage_graph import PassageGraph, Sentences
from palimpsest.query.scope.scope_arrays import Arrays, Flags, Postings, ScopeVectors, word_sums
from palimpsest.query.scope.view import CachedScopeView, Part
from palimpsest.text.sentence_terms import SentenceTerms, keys_of_sentences

SMALL_SCOPE = 1000
"""Memories of a scope that is read whole: most of a statement is planning, so all its rows cost what ten do."""

_IDS = "SELECT memory_id FROM memories WHERE row BETWEEN $first AND $last ORDER BY row"
_CANDIDATES = "SELECT row FROM memories WHERE row BETWEEN $first AND $last"
_OBSERVED = "SELECT min(observed_at), max(observed_at) FROM memories WHERE row BETWEEN $first AND $last"
_SENTENCES = "SELECT row, spans, counts, entities, vectors, term_counts, terms FROM sentences"
_BARE_SENTENCES = "SELECT row, spans, counts, entities, vectors FROM sentences"
_TEXTS = "SELECT row, text FROM memories"


class _StoredSentences(NamedTuple):
    """A row of the table `sentences`; see `palimpsest.index.passage_tables`."""

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
        self.at, self._cursor, self._cache, self._table = at, cursor, cache, table

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

    def sentences(self, rows: np.ndarray) -> Sentences:
        """See ScopeView."""
        found = {row: s for row, s in self._read_sentences(rows).items() if s.counts is not None}
        embedded = all(s.vectors is not None for s in found.values())
        return join_named(found, {} if embedded else self._words_of(found))

    def sentence_terms(self, rows: np.ndarray) -> dict[int, SentenceTerms]:
        """See ScopeView."""
        return self._words_of({row: s for row, s in self._read_sentences(rows).items() if len(s.spans)})

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

    def words(self, terms: Sequence[str]) -> np.ndarray:
        """Returns the BM25 sum of each local row."""
        return word_sums(self.postings(terms), self.at.size)

    def postings(self, terms: Sequence[str]) -> list[Postings]:
        """See ScopeView."""
        if self.at.size <= SMALL_SCOPE:
            words: Vocabulary = self._cached("words", lambda: read_vocabulary(self._run, self.at))
            return [words.postings.get(t, NO_POSTINGS) for t in sorted(set(terms))]
        found = {t: self._cache.peek((self.at.number, "term", t)) for t in terms}
        if missing := [t for t, postings in found.items() if postings is None]:
            found |= self._load_postings(missing)
        return [postings for _, postings in sorted(found.items())]

    def _stored_allowed(self, filters: Filters) -> np.ndarray:
        filters = self.withheld().narrowed(filters)
        flags: Flags = self._cache.get((self.at.number, "allowed", filters), lambda: Flags(self._load_allowed(filters)))
        return flags.values

    @property
    def _size(self) -> int:
        return self.at.size

    def _run(self, sql: str, values: SqlParameters, /) -> duckdb.DuckDBPyConnection:
        return self._cursor().execute(sql, values)

    def _cached(self, name: str, load: Callable[[], Part]) -> Part:
        value: Part = self._cache.get((self.at.number, name), load)
        return value

    def _arrays(self, part: str) -> Arrays:
        return read_part(self._run, self.at, part)

    def _read_sentences(self, rows: np.ndarray) -> dict[int, MemorySentences]:
        """Returns the sentences of some memories by local row, ascending."""
        keys = {row: (self.at.number, "sentences", row) for row in np.sort(rows).tolist()}
        return self._cache.get_each(keys, self._load_sentences)

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

    def _words_of(self, found: Mapping[int, MemorySentences]) -> dict[int, SentenceTerms]:
        """Returns the words of sentences; those of an index of an earlier version are made of the texts."""
        bare = [row for row, s in found.items() if s.words is None]
        places = [row + self.at.first for row in bare]
        texts = dict(self._run(*rows_statement(_TEXTS, places)).fetchall()) if bare else {}
        words = {}
        for row, s in found.items():
            text = texts.get(row + self.at.first, "")
            words[row] = s.words or SentenceTerms(s.spans, *keys_of_sentences(text[a:b] for a, b in s.spans.tolist()))
        return words

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
