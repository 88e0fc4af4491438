"""A scope of a DuckDB index as dense arrays: what is read once is held by a cache; implements `view.ScopeView`."""

import datetime as dt
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import duckdb
import numpy as np

from palimpsest.query.ranking.named import Named
from palimpsest.query.ranking.passage_graph import PassageGraph, Sentences
from palimpsest.query.ranking.places import Places
from palimpsest.query.ranking.priors import Standing
from palimpsest.query.ranking.scope_cache import (
    ByteCache,
    Flags,
    Ids,
    Postings,
    ScopeVectors,
    Terms,
    Told,
    Topics,
    Vocabulary,
)
from palimpsest.query.ranking.scope_graph import ScopeGraph
from palimpsest.query.ranking.turns import TurnOrder
from palimpsest.query.ranking.view import HeldParts, word_sums
from palimpsest.query.request.types import Filters
from palimpsest.query.request.withheld import Withheld
from palimpsest.text.memory_periods import MemoryPeriods

_Rows = tuple[np.ndarray, tuple[np.ndarray, ...]]

_BATCH = 16_384  # vectors read at a time
_RANGES = 32  # terms read by one statement
_PLACES = 10  # rows up to which ranges are quicker than a join: planning grows with them
# Memories of a scope that is read whole: most of a statement is planning, so all its rows cost what ten of them do.
WHOLE = 1000

_IDS = "SELECT memory_id FROM memories WHERE row BETWEEN $first AND $last ORDER BY row"
_REPLACED = """
    SELECT superseded_by, memory_id FROM memories
    WHERE row BETWEEN $first AND $last AND superseded_by IS NOT NULL ORDER BY row"""
_VECTORS = "SELECT row, vector FROM vectors WHERE row BETWEEN $first AND $last"
_CANDIDATES = "SELECT row FROM memories WHERE row BETWEEN $first AND $last"
_TERMS = "SELECT term, first, df FROM terms WHERE scope = $scope ORDER BY first"
_POSTINGS = "SELECT row, score FROM postings"  # + ranges of rowid, which DuckDB finds without a scan
_MENTIONS = "SELECT row, entity FROM mentions WHERE row BETWEEN $first AND $last"
_ENTITIES = "SELECT entity, name, df FROM entities WHERE scope = $scope ORDER BY entity"
_LINKS = """
    SELECT newer_row, older_row, label, confidence FROM links
    WHERE scope = $scope ORDER BY newer_row, older_row, label"""
# The loader of Neo4j reads the same of an index.
FOLLOWING = "SELECT row, next_row FROM following WHERE row BETWEEN $first AND $last ORDER BY row"
TOKENS = "SELECT token_count FROM memories WHERE row BETWEEN $first AND $last ORDER BY row"
WRITTEN = "SELECT row, next_row FROM written WHERE row BETWEEN $first AND $last ORDER BY row"
PERIODS = "SELECT row, begins, ends FROM periods WHERE row BETWEEN $first AND $last ORDER BY row, begins, ends"
TOPICS = "SELECT row, topic_id, relevance FROM topic_memories WHERE row BETWEEN $first AND $last ORDER BY row, topic_id"
STANDING = """
    SELECT epoch(observed_at) AS observed, importance, support FROM memories
    WHERE row BETWEEN $first AND $last ORDER BY row"""
LABELS = "SELECT topic_id, label, parent_id FROM topics WHERE scope = $scope ORDER BY topic_id"
_OBSERVED = "SELECT min(observed_at), max(observed_at) FROM memories WHERE row BETWEEN $first AND $last"
REASONS = "SELECT memory_id, told FROM reasons WHERE row BETWEEN $first AND $last ORDER BY memory_id, told"
NAMES = "SELECT key, entity FROM names WHERE scope = $scope ORDER BY key, entity"
TITLES = "SELECT row, entity FROM titles WHERE row BETWEEN $first AND $last ORDER BY row, entity"
_SENTENCES = "SELECT row, spans, counts, entities, vectors FROM sentences"
_TEXTS = "SELECT row, text FROM memories"

WITHHELD = """
    SELECT bool_or(user_visible = false), bool_or(pii), list_sort(list_distinct(list(retention_until)))
    FROM memories WHERE row BETWEEN $first AND $last"""

_NOWHERE = Postings(np.zeros(0, np.int32), np.zeros(0, np.float32))
# Each filter's condition; its value is bound under the same name.
_CONDITIONS = {
    "session": "session_id = $session",
    "type": "type = $type",
    "tag": "list_contains(tags, $tag)",
    "since": "observed_at >= $since",
    "until": "observed_at <= $until",
    # What was retired on a day that nobody knows is not offered as what held then; nor is what has no date before the
    # home knew it.
    "as_of": "(coalesce(valid_from, known_from) IS NULL OR coalesce(valid_from, known_from) <= $as_of) AND "
    "(valid_until > $as_of OR (valid_until IS NULL AND is_latest))",
    "now": "(valid_from IS NULL OR valid_from <= $now) AND (valid_until IS NULL OR valid_until > $now)",
    "clock": "(retention_until IS NULL OR retention_until > $clock)",
}
_LEFT_OUT = {"hidden": "user_visible IS DISTINCT FROM false", "pii": "pii IS DISTINCT FROM true"}


class Range(NamedTuple):
    """Where a scope lies in the tables: its first row, how many, and its number."""

    first: int
    size: int
    number: int

    @property
    def bounds(self) -> dict[str, int]:
        """Values of a statement that reads its rows."""
        return {"first": self.first, "last": self.first + self.size - 1}


class DuckDBScope(HeldParts):
    """See ScopeView.

    Args:
        at: where the scope lies.
        cursor: gives this thread's cursor.
        cache: what holds that which is read.
    """

    def __init__(self, at: Range, cursor: Callable[[], duckdb.DuckDBPyConnection], cache: ByteCache):
        self.at, self._cursor, self._cache = at, cursor, cache

    @property
    def ids(self) -> np.ndarray:
        """See ScopeView."""
        return self.known.values

    @property
    def known(self) -> Ids:
        """Ids by local row, and what replaced what."""
        held: Ids = self._held("ids", self._load_ids)
        return held

    @property
    def withheld(self) -> Withheld:
        """What the scope does not serve unless asked."""
        held: Withheld = self._held("withheld", self._load_withheld)
        return held

    @property
    def vectors(self) -> ScopeVectors:
        """The vectors of every memory."""
        held: ScopeVectors = self._held("vectors", self._load_vectors)
        return held

    def graph(self, shared: bool) -> ScopeGraph:
        """Returns relations, and shared entities where they are wanted: they are far more."""
        held: ScopeGraph = self._held(f"graph {shared}", lambda: self._load_graph(shared))
        return held

    def observed(self) -> tuple[dt.datetime, dt.datetime] | None:
        """When the oldest and the newest memory were observed."""
        (found,) = self._run(_OBSERVED, self.at.bounds).fetchall()
        return (found[0].replace(tzinfo=dt.UTC), found[1].replace(tzinfo=dt.UTC)) if found[0] else None

    def told(self) -> Told:
        """Why memories were retired or kept."""
        held: Told = self._held("reasons", self._load_told)
        return held

    def passages(self) -> PassageGraph | None:
        """See ScopeView."""
        held: PassageGraph = self._held("passages", self._load_passages)
        return held if len(held.keys) else None

    def sentences(self, rows: np.ndarray) -> Sentences:
        """See ScopeView."""
        places = (np.sort(rows) + self.at.first).tolist()
        found = [told for told in self._run(*looked_up(_SENTENCES, places)).fetchall() if told[2]]
        graph = self.passages()
        first = graph.first_entity if graph else 0
        of, entities, vectors = [], [], []
        for row, _, counts, named, data in found:
            of += [row - self.at.first] * len(counts)
            entities += np.split(np.asarray(named, np.int64) - first, np.cumsum(counts)[:-1])
            if data is not None:
                vectors.append(np.frombuffer(data, "<f2").reshape(-1, 384).astype(np.float32))
        if found and len(vectors) == len(found):
            return Sentences(np.asarray(of, np.int64), [], entities, np.concatenate(vectors))
        told = dict(self._run(*looked_up(_TEXTS, places)).fetchall())
        texts = [told[row][a:b] for row, spans, *_ in found for a, b in zip(spans[::2], spans[1::2], strict=True)]
        return Sentences(np.asarray(of, np.int64), texts, entities, None)

    def cosines(self, vector: np.ndarray) -> np.ndarray:
        """See ScopeView."""
        return self.vectors.cosines(vector)

    def words(self, terms: Sequence[str]) -> np.ndarray:
        """Returns the BM25 sum of each local row."""
        return word_sums(self.postings(terms), self.at.size)

    def postings(self, terms: Sequence[str]) -> list[Postings]:
        """See ScopeView: in the order of the terms, for sums of floats depend on it."""
        if self.at.size <= WHOLE:
            words: Vocabulary = self._held("words", self._load_words)
            return [words.postings.get(t, _NOWHERE) for t in sorted(set(terms))]
        held = {t: self._cache.peek((self.at.number, "term", t)) for t in terms}
        missing = [t for t, postings in held.items() if postings is None]
        if missing:
            loaded = dict.fromkeys(missing, _NOWHERE)
            terms_of: Terms = self._held("terms", self._load_terms)
            found = sorted(terms_of.find(missing), key=lambda told: told[1])
            for i in range(0, len(found), _RANGES):
                loaded |= self._load_postings(found[i : i + _RANGES])
            for term, postings in loaded.items():
                self._cache.put((self.at.number, "term", term), postings)
            held |= loaded
        return [postings for _, postings in sorted(held.items())]

    def allowed(self, filters: Filters) -> np.ndarray:
        """See ScopeView."""
        filters = self.withheld.narrowed(filters)
        key = (self.at.number, "allowed", filters)
        flags: Flags = self._cache.get(key, lambda: Flags(self._load_allowed(filters)))
        return flags.values

    def _run(self, sql: str, values: dict[str, Any]) -> duckdb.DuckDBPyConnection:
        return self._cursor().execute(sql, values)

    def _held(self, name: str, load: Callable[[], Any]) -> Any:
        return self._cache.get((self.at.number, name), load)

    def _load_ids(self) -> Ids:
        replaced: dict[str, list[str]] = {}
        for newer, older in self._run(_REPLACED, self.at.bounds).fetchall():
            replaced.setdefault(newer, []).append(older)
        return Ids(np.asarray(self._run(_IDS, self.at.bounds).fetchnumpy()["memory_id"], dtype=object), replaced)

    def _load_withheld(self) -> Withheld:
        ((hidden, pii, ends),) = self._run(WITHHELD, self.at.bounds).fetchall()
        return Withheld(tuple(e.replace(tzinfo=dt.UTC) for e in ends or ()), bool(hidden), bool(pii))

    def _load_vectors(self) -> ScopeVectors:
        read = _numpy_vectors if find_spec("pyarrow") is None else _arrow_vectors
        rows, matrices = read(self._cursor(), self.at.bounds)
        starts = np.searchsorted(rows, np.arange(self.at.first, self.at.first + self.at.size))
        return ScopeVectors(matrices, starts, len(rows))

    def _load_order(self) -> TurnOrder:
        found = self._run(FOLLOWING, self.at.bounds).fetchnumpy()
        rows, following = (np.asarray(found[name], np.int64) - self.at.first for name in ("row", "next_row"))
        tokens = self._run(TOKENS, self.at.bounds).fetchnumpy()["token_count"]
        return TurnOrder.of(rows, following, np.asarray(tokens, np.int64))

    def _load_places(self) -> Places:
        found = [self._run(sql, self.at.bounds).fetchnumpy() for sql in (FOLLOWING, WRITTEN)]
        rows, following = (
            np.concatenate([np.asarray(f[n], np.int64) for f in found]) - self.at.first for n in ("row", "next_row")
        )
        return Places.of(rows, following, self.at.size)

    def _load_periods(self) -> MemoryPeriods:
        found = self._run(PERIODS, self.at.bounds).fetchnumpy()
        rows = np.asarray(found["row"], np.int64) - self.at.first
        return MemoryPeriods(rows, np.asarray(found["begins"], np.float64), np.asarray(found["ends"], np.float64))

    def _load_told(self) -> Told:
        try:
            return Told.of(self._run(REASONS, self.at.bounds).fetchall())
        except duckdb.CatalogException:
            return Told({})  # an index of an earlier version tells no reasons

    def _load_topics(self) -> Topics:
        labels = self._run(LABELS, {"scope": self.at.number}).fetchall()
        number = {topic_id: i for i, (topic_id, *_) in enumerate(labels)}
        found = self._run(TOPICS, self.at.bounds).fetchall()
        return Topics(
            np.array([row - self.at.first for row, _, _ in found], np.int64),
            np.array([number[topic] for _, topic, _ in found], np.int64),
            np.array([relevance for _, _, relevance in found], np.float64),
            np.array([label for _, label, _ in labels], dtype=object),
            np.array([number.get(parent, -1) for *_, parent in labels], np.int64),
        )

    def _load_named(self) -> Named:
        graph = self.graph(True)
        return Named.of(graph.names, graph.weight, graph.rows)

    def _load_standing(self) -> Standing:
        return Standing(*standing_arrays(self._run(STANDING, self.at.bounds).fetchnumpy()))

    def _load_passages(self) -> PassageGraph:
        names = self._run(NAMES, {"scope": self.at.number}).fetchnumpy()
        titles = self._run(TITLES, self.at.bounds).fetchnumpy()
        entities = self._run(_ENTITIES, {"scope": self.at.number}).fetchnumpy()
        mentions = self._run(_MENTIONS, self.at.bounds).fetchnumpy()
        first = int(entities["entity"][0]) if len(entities["entity"]) else 0  # those of a scope follow each other

        def local(found: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
            return np.asarray(found["row"], np.int64) - self.at.first, np.asarray(found["entity"], np.int64) - first

        return PassageGraph.build(
            self.at.size,
            local(mentions),
            local(titles),
            np.asarray(entities["name"], dtype=object),
            (np.asarray(names["key"], np.int64), np.asarray(names["entity"], np.int64) - first),
            first,
        )

    def _load_terms(self) -> Terms:
        found = self._run(_TERMS, {"scope": self.at.number}).fetchnumpy()
        return Terms(np.asarray(found["term"], dtype=object), np.asarray(found["first"]), np.asarray(found["df"]))

    def _load_words(self) -> Vocabulary:
        terms = self._run(_TERMS, {"scope": self.at.number}).fetchall()
        if not terms:
            return Vocabulary({})
        first, end = terms[0][1], terms[-1][1] + terms[-1][2]  # a scope's postings lie together, in order of its terms
        found = self._run(f"{_POSTINGS} WHERE rowid BETWEEN $a AND $b", {"a": first, "b": end - 1}).fetchnumpy()
        rows, scores = np.asarray(found["row"]) - np.int32(self.at.first), np.asarray(found["score"])
        return Vocabulary(
            {t: Postings(rows[a - first : a - first + df], scores[a - first : a - first + df]) for t, a, df in terms}
        )

    def _load_postings(self, terms: list[tuple[str, int, int]]) -> dict[str, Postings]:
        """Reads (term, first, df), ascending by first, in one statement: the postings come in that order too."""
        values = {
            f"{k}{i}": v for i, (_, first, df) in enumerate(terms) for k, v in (("a", first), ("b", first + df - 1))
        }
        where = " OR ".join(f"rowid BETWEEN $a{i} AND $b{i}" for i in range(len(terms)))
        found = self._run(f"{_POSTINGS} WHERE {where}", values).fetchnumpy()
        rows, scores = np.asarray(found["row"]) - np.int32(self.at.first), np.asarray(found["score"])
        ends = np.cumsum([df for _, _, df in terms])
        assert len(rows) == ends[-1]
        return {
            term: Postings(rows[end - df : end].copy(), scores[end - df : end].copy())
            for (term, _, df), end in zip(terms, ends.tolist(), strict=True)
        }

    def _load_allowed(self, filters: Filters) -> np.ndarray:
        values = {name: _sql(v) for name in _CONDITIONS if (v := getattr(filters, name)) is not None}
        conditions = [_CONDITIONS[name] for name in values]
        conditions += [_LEFT_OUT[name] for name in self.withheld.conditions(filters)]
        if filters.as_of is None and not filters.history:
            conditions.append("is_latest")
        rows = self._run(" AND ".join([_CANDIDATES, *conditions]), {**self.at.bounds, **values}).fetchnumpy()["row"]
        allowed = np.zeros(self.at.size, bool)
        allowed[np.asarray(rows, np.int64) - self.at.first] = True
        return allowed

    def _load_graph(self, shared: bool) -> ScopeGraph:
        links = self._run(_LINKS, {"scope": self.at.number}).fetchnumpy()
        nothing = np.zeros(0, np.int64)
        mentions, entities = (nothing, nothing), (np.array([], dtype=object), np.zeros(0))
        if shared:
            known = self._run(_ENTITIES, {"scope": self.at.number}).fetchnumpy()
            found = self._run(_MENTIONS, self.at.bounds).fetchnumpy()
            first = int(known["entity"][0]) if len(known["entity"]) else 0  # those of a scope follow each other
            mentions = np.asarray(found["row"], np.int64) - self.at.first, np.asarray(found["entity"], np.int64) - first
            entities = np.asarray(known["name"], dtype=object), np.asarray(known["df"], np.float64)
        relations = (
            np.asarray(links["newer_row"], np.int64) - self.at.first,
            np.asarray(links["older_row"], np.int64) - self.at.first,
            np.asarray(links["label"], dtype=object),
            np.asarray(links["confidence"], np.float64),
        )
        return ScopeGraph.build(self.at.size, mentions, entities, relations)


def looked_up(select: str, places: Sequence[int]) -> tuple[str, dict[str, Any]]:
    """Returns a statement that reads the rows at given places in the order of them, without a scan, and its values."""
    if len(places) > _PLACES:
        return f"{select} WHERE rowid IN (SELECT unnest($places)) ORDER BY row", {"places": list(places)}
    where = " OR ".join(f"rowid BETWEEN $at{i} AND $at{i}" for i in range(len(places))) or "false"
    return f"{select} WHERE {where} ORDER BY row", {f"at{i}": place for i, place in enumerate(places)}


def standing_arrays(found: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the columns of `STANDING` as `Standing` takes them: unknown is NaN."""
    observed, importance = (
        np.ma.filled(np.ma.asarray(found[n], np.float64), np.nan) for n in ("observed", "importance")
    )
    return observed, importance, np.asarray(found["support"], np.int64)


def _arrow_vectors(cursor: duckdb.DuckDBPyConnection, bounds: dict[str, Any]) -> _Rows:
    """Returns rows and vectors without a copy."""
    batches = list(cursor.sql(_VECTORS, params=bounds).to_arrow_reader(_BATCH))
    matrices = tuple(_view(b.column(1).values, np.float32).reshape(-1, 384) for b in batches)
    return np.concatenate([_view(b.column(0), np.int32) for b in batches]), matrices


def _numpy_vectors(cursor: duckdb.DuckDBPyConnection, bounds: dict[str, Any]) -> _Rows:
    """Returns the same where pyarrow is not installed, which the base install leaves out: half as fast, one copy."""
    found = cursor.execute(_VECTORS, bounds).fetchnumpy()
    matrix = np.stack(list(found["vector"])) if len(found["row"]) else np.empty((0, 384), np.float32)
    return np.asarray(found["row"], np.int32), (matrix,)


def _view(array: Any, dtype: type[np.generic]) -> np.ndarray:
    """Returns an Arrow array without nulls as numpy sees it, not copied: `to_numpy` would import pandas, for 1 s."""
    data = array.buffers()[1]
    return np.frombuffer(data, dtype, len(array), array.offset * np.dtype(dtype).itemsize)


def _sql(value: Any) -> Any:
    """Times lie in the file as UTC without a zone: DuckDB needs an extension for zones."""
    return value.astimezone(dt.UTC).replace(tzinfo=None) if isinstance(value, dt.datetime) else value
