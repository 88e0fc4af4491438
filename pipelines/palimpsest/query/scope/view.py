"""A scope as dense arrays by local row: what scorers need that look at every memory, the same over every backend."""

import datetime as dt
import json
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.request.types import Filters, Link
from palimpsest.query.request.where import Condition, Expression, Junction, Kind, Negation, Value, Where, parse_date
from palimpsest.query.scope.scope_arrays import (
    Arrays,
    ByteCache,
    Flags,
    Postings,
    Priors,
    ReadingOrder,
    RetirementReasons,
    Sized,
    TurnOrder,
    known_rows,
    word_sums,
)
from palimpsest.query.scope.scope_graph import (
    Adjacency,
    MemorySentences,
    PassageGraph,
    ScopeLinks,
    Sentences,
    join_named,
)
from palimpsest.text.date_mentions import MemoryPeriods
from palimpsest.text.languages import ENGLISH
from palimpsest.text.terms import SentenceTerms, keys_of_sentences

# The fields of a scope's memories that `where` filters by, the same over every backend.

TEXTS = ("type", "unit", "kind", "session_id", "speaker", "title", "heading", "uri", "document_title", "language")
NUMBERS = ("page", "confidence", "importance", "token_count")
TIMES = ("observed_at", "valid_from", "valid_until", "created_at", "updated_at")
CLOCK = "clock"
"""How many minutes east of UTC the clock of each memory's speaker is: a day of `observed_at` is one of that clock."""
BOOLEANS = ("is_latest", "pii", "user_visible")
MEMORY_FIELDS: dict[str, Kind] = {
    **dict.fromkeys(TEXTS, "text"),
    "tags": "text",
    **dict.fromkeys(NUMBERS, "number"),
    **dict.fromkeys(TIMES, "date"),
    **dict.fromkeys(BOOLEANS, "boolean"),
}
"""The fields that every memory has, and what each is; any other name is metadata of its document."""
METADATA = "metadata."
"""Begins the name of a field of the metadata that is named like one of a memory."""

_NO_NUMBERS = np.zeros(0)
_NO_PLACES = np.zeros(0, np.int64)


@dataclass(frozen=True)
class FieldColumn:
    """The values of one field: of memories by local row, or of documents by their number.

    Attributes:
        size: how many memories or documents.
        texts: distinct texts.
        text_codes: one of `texts` for each entry.
        text_at: the memory or document of each entry.
        numbers: numbers, and 0 or 1 for booleans.
        number_at: the memory or document of each.
        number_kind: of each: 0 a number, 1 a time in seconds since 1970, 2 a boolean.
        clock: seconds that the clock is ahead of UTC by which a day compares with each time.
    """

    size: int
    texts: list[str] = field(default_factory=list)
    text_codes: np.ndarray = field(default_factory=lambda: _NO_PLACES)
    text_at: np.ndarray = field(default_factory=lambda: _NO_PLACES)
    numbers: np.ndarray = field(default_factory=lambda: _NO_NUMBERS)
    number_at: np.ndarray = field(default_factory=lambda: _NO_PLACES)
    number_kind: np.ndarray = field(default_factory=lambda: _NO_PLACES)
    clock: np.ndarray = field(default_factory=lambda: np.zeros(1))

    def exists(self) -> np.ndarray:
        """Returns which memories or documents have a value, shape (size,) bool."""
        return self._marked([self.text_at, self.number_at])

    def kinds(self, among: np.ndarray) -> frozenset[Kind]:
        """Returns the kinds of the values of those that `among` marks; a text that states a date is of both kinds."""
        found = {_NUMBER_KINDS[k] for k in np.unique(self.number_kind[among[self.number_at]]).tolist()}
        codes = np.unique(self.text_codes[among[self.text_at]])
        if len(codes):
            found.add("text")
            found |= {"date"} if any(parse_date(self.texts[c]) for c in codes.tolist()) else set()
        return frozenset(found)

    def matches(self, operator: str, value: Value) -> np.ndarray:
        """Returns which memories or documents have a value that compares so, shape (size,) bool."""
        if value.kind == "text":
            wanted = [bool(_COMPARE[operator](text, value.value)) for text in self.texts]
            date = parse_date(str(value.value))
            return self._marked([self._texts_at(wanted), *([self._times_at(operator, *date)] if date else [])])
        if value.kind == "date":
            begin, end = float(value.value), value.until
            dates = [parse_date(text) for text in self.texts]
            wanted = [d is not None and bool(_compare_periods(operator, *d, begin, end)) for d in dates]
            return self._marked([self._texts_at(wanted), self._times_at(operator, begin, end)])
        of_kind = self.number_kind == (2 if value.kind == "boolean" else 0)
        return self._marked([self.number_at[of_kind & _COMPARE[operator](self.numbers, value.value)]])

    def satisfies(self, condition: Condition) -> np.ndarray:
        """Returns which memories or documents satisfy a condition, shape (size,) bool; none without a value does."""
        if condition.operator == "exists":
            return self.exists()
        negated = condition.operator in ("!=", "not in")
        operator = "=" if condition.operator in ("!=", "not in", "in") else condition.operator
        found: np.ndarray = np.logical_or.reduce([self.matches(operator, value) for value in condition.values])
        return self.exists() & ~found if negated else found

    def _texts_at(self, wanted: list[bool]) -> np.ndarray:
        found: np.ndarray = self.text_at[np.array(wanted, bool)[self.text_codes]] if wanted else _NO_PLACES
        return found

    def _times_at(self, operator: str, begin: float, end: float) -> np.ndarray:
        times = self.numbers + self.clock if end > begin else self.numbers  # a day, not an instant
        found = _compare_periods(operator, times, times, begin, end)
        places: np.ndarray = self.number_at[(self.number_kind == 1) & found]
        return places

    def _marked(self, places: list[np.ndarray]) -> np.ndarray:
        marked = np.zeros(self.size, bool)
        for at in places:
            marked[at] = True
        return marked


def satisfied(expression: Expression, of_condition: Callable[[Condition], np.ndarray]) -> np.ndarray:
    """Returns what satisfies an expression, from what satisfies each of its conditions, both shape (size,) bool."""
    if isinstance(expression, Negation):
        return ~satisfied(expression.part, of_condition)
    if isinstance(expression, Junction):
        combine = np.logical_and if expression.operator == "and" else np.logical_or
        found: np.ndarray = combine.reduce([satisfied(part, of_condition) for part in expression.parts])
        return found
    return of_condition(expression)


class FieldValues:
    """The fields of a scope's memories, made of the parts `fields` and `metadata` of the scope."""

    def __init__(self, fields: Arrays, metadata: Arrays, size: int):
        self.size, self._document = size, metadata.get("document", np.full(size, -1, "<i4"))
        self.is_indexed = bool(fields)
        self._memory = _memory_columns(fields, size) if fields else {}
        self._metadata = _metadata_columns(metadata) if metadata else {}
        self.nbytes = sum(a.nbytes if isinstance(a, np.ndarray) else 60 * len(a) for a in (fields | metadata).values())

    def kinds(self, allowed: np.ndarray) -> dict[str, frozenset[Kind]]:
        """Returns the fields of the metadata of memories that `allowed` marks, and the kinds of their values."""
        documents = np.zeros(int(self._document.max(initial=-1)) + 1, bool)
        documents[self._document[allowed & (self._document >= 0)]] = True
        found = {name: column.kinds(documents) for name, column in self._metadata.items()}
        return {name: kinds for name, kinds in found.items() if kinds}

    def mask(self, expression: Expression) -> np.ndarray:
        """Returns which memories satisfy an expression, shape (size,) bool."""
        return satisfied(expression, self._condition)

    def _condition(self, condition: Condition) -> np.ndarray:
        """Compares one field; what has no value satisfies only the absence of `exists`, `!=` and `not in` included."""
        name = condition.field
        of_memory = name in MEMORY_FIELDS
        column = self._memory.get(name) if of_memory else self._metadata.get(name.removeprefix(METADATA))
        if column is None:
            return np.zeros(self.size, bool)
        found = column.satisfies(condition)
        if of_memory:
            return found
        of_documents: np.ndarray = np.append(found, False)[self._document]  # -1, without metadata, is the last
        return of_documents


_NUMBER_KINDS: tuple[Kind, ...] = ("number", "date", "boolean")
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _compare_periods(operator: str, a_begin: Any, a_end: Any, begin: float, end: float) -> Any:
    """Compares periods: `=` is inside, `<` is before the begin, `<=` is not after the end."""
    if operator == "=":
        return (a_begin >= begin) & (a_end <= end)
    a, b = {"<": (a_begin, begin), "<=": (a_begin, end), ">": (a_end, end), ">=": (a_end, begin)}[operator]
    return _COMPARE[operator](a, b)


def _memory_columns(fields: Arrays, size: int) -> dict[str, FieldColumn]:
    columns = {}
    for name in TEXTS:
        at = np.flatnonzero(fields[name] >= 0)
        columns[name] = FieldColumn(size, fields[f"{name}.texts"], fields[name][at], at)
    columns["tags"] = FieldColumn(size, fields["tags.texts"], fields["tags"], fields["tags.row"])
    for kind, names in enumerate((NUMBERS, TIMES, BOOLEANS)):
        for name in names:
            numbers = np.asarray(fields[name], np.float64)
            at = np.flatnonzero(numbers >= 0 if kind == 2 else ~np.isnan(numbers))
            kinds, clock = np.full(len(at), kind, np.int64), np.zeros(1)
            if name == "observed_at" and CLOCK in fields:  # a graph that an earlier version loaded has none
                clock = 60.0 * np.asarray(fields[CLOCK])[at]
            columns[name] = FieldColumn(size, numbers=numbers[at], number_at=at, number_kind=kinds, clock=clock)
    return columns


def _metadata_columns(metadata: Arrays) -> dict[str, FieldColumn]:
    of, number, code = metadata["of"], metadata["field"], metadata["value"]
    values = [json.loads(v) for v in metadata["values"]]
    size, columns = int(of.max()) + 1, {}
    is_text = np.array([isinstance(v, str) for v in values])
    numbers = np.array([0.0 if isinstance(v, str) else float(v) for v in values])
    kinds = np.array([2 if isinstance(v, bool) else 0 for v in values])
    order = np.argsort(number, kind="stable")
    starts = np.searchsorted(number[order], np.arange(len(metadata["fields"]) + 1))
    for i, name in enumerate(metadata["fields"]):
        entries = order[starts[i] : starts[i + 1]]
        texts, others = entries[is_text[code[entries]]], entries[~is_text[code[entries]]]
        distinct, codes = np.unique(code[texts], return_inverse=True)
        columns[name] = FieldColumn(
            size, [values[c] for c in distinct.tolist()], codes, of[texts],
            numbers[code[others]], of[others], kinds[code[others]],
        )  # fmt: skip
    return columns


# The formed memories of a scope by local row: their kinds, and the memories they rest on.


@dataclass(frozen=True)
class FormedRows:
    """Pairs of a formed memory and one that it rests on, sorted.

    Attributes:
        rows: the formed memory of each pair.
        evidence: the other one of each pair.
        kind: number in `kinds` of each pair's formed memory, -1 for none.
        kinds: names of kinds of items.
    """

    rows: np.ndarray
    evidence: np.ndarray
    kind: np.ndarray
    kinds: tuple[str, ...]

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "FormedRows":
        """Makes it of the part `formed` of a scope."""
        nothing = np.zeros(0, np.int64)
        rows, evidence, kind = (np.asarray(arrays.get(n, nothing), np.int64) for n in ("row", "evidence", "kind"))
        return cls(rows, evidence, kind, tuple(str(k) for k in arrays.get("kinds", ())))

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.rows.nbytes + self.evidence.nbytes + self.kind.nbytes

    def of_kinds(self, kinds: Collection[str]) -> np.ndarray:
        """Returns the rows of formed memories of some kinds, and of the memory that one rests on where it is one."""
        wanted = np.isin(self.kind, [i for i, name in enumerate(self.kinds) if name in kinds])
        return np.unique(np.concatenate([self.rows[wanted], self.evidence[wanted & self._is_single]]))

    @cached_property
    def _is_single(self) -> np.ndarray:
        """Which pairs are the only one of their formed memory, shape (pairs,) bool."""
        is_single: np.ndarray = np.bincount(self.rows)[self.rows] == 1
        return is_single


# Entities rare enough to link memories: those that a question names, and the memories that share one.


@dataclass(frozen=True)
class NamedEntities:
    """Entities of a scope.

    Attributes:
        names: of each.
        weight: of each, by `scope_graph.idf_weight`.
        rows: local rows of the memories that name each.
        of_row: entities that each memory names.
    """

    names: np.ndarray
    weight: np.ndarray
    rows: Adjacency
    of_row: Adjacency

    @classmethod
    def from_arrays(cls, arrays: Arrays, size: int) -> "NamedEntities":
        """Makes it of the part `named` of a scope of `size` memories."""
        nothing = np.zeros(0, np.int64)
        names = np.asarray(arrays.get("names", []), dtype=object)
        entity, row = (arrays.get(n, nothing).astype(np.int64) for n in ("entity", "row"))
        rows, of_row = Adjacency.of(entity, row, len(names)), Adjacency.of(row, entity, size)
        return cls(names, arrays.get("weight", np.zeros(0)), rows, of_row)

    @property
    def nbytes(self) -> int:
        """Size in bytes; names and keys count 200 each."""
        return self.weight.nbytes + self.rows.nbytes + self.of_row.nbytes + 200 * len(self.names)

    def sharing(self, row: int, allowed: np.ndarray, n: int) -> list[tuple[int, float, str]]:
        """Returns (row, weight, entity name) of the `n` allowed rows that share the heaviest entities with `row`."""
        found: dict[int, tuple[int, float, str]] = {}
        mine = self.of_row[row]
        for entity in mine[np.argsort(-self.weight[mine], kind="stable")].tolist():
            others = self.rows[entity]
            for other in others[allowed[others]].tolist():
                if other != row and other not in found:
                    found[other] = (other, float(self.weight[entity]), str(self.names[entity]))
            if len(found) >= n:
                break
        return list(found.values())[:n]


# What a scope does not serve by default: memories past their retention, hidden ones and those with personal data.

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Withheld:
    """Which of the three a scope has at all: a scope with none skips their conditions.

    Attributes:
        ends: distinct retention_until of its memories, ascending.
        hidden: whether any memory is not user_visible.
        pii: whether any memory has personal data.
    """

    ends: tuple[dt.datetime, ...] = ()
    hidden: bool = False
    pii: bool = False

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "Withheld":
        """Makes it of the part `withheld` of a scope: `ends` in microseconds since 1970, `flags` hidden and pii."""
        if not arrays:
            return cls()
        hidden, pii = arrays["flags"].tolist()
        ends = tuple(_EPOCH + dt.timedelta(microseconds=m) for m in arrays["ends"].tolist())
        return cls(ends, bool(hidden), bool(pii))

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return 64 + 56 * len(self.ends)

    def narrowed(self, filters: Filters) -> Filters:
        """Returns filters that pass the same memories of this scope and compare equal as long as those are the same.

        `clock` becomes the last retention that ended by then, so that the result can be cached from query to query.
        """
        ended = bisect_right(self.ends, filters.clock) if filters.clock is not None else 0
        clock = self.ends[ended - 1] if ended else None
        hidden, pii = self.hidden and filters.include_hidden, self.pii and filters.include_pii
        if (clock, hidden, pii) == (filters.clock, filters.include_hidden, filters.include_pii):
            return filters
        return replace(filters, clock=clock, include_hidden=hidden, include_pii=pii)

    def conditions(self, filters: Filters) -> tuple[str, ...]:
        """Returns which of `hidden` and `pii` must be excluded; `clock` is a filter with a value of its own."""
        included = {"hidden": filters.include_hidden, "pii": filters.include_pii}
        return tuple(name for name, is_included in included.items() if getattr(self, name) and not is_included)


@dataclass(frozen=True)
class Languages:
    """The languages by which the texts of a scope are indexed, ISO 639-1, sorted."""

    codes: tuple[str, ...]

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "Languages":
        """Makes it of the part `languages` of a scope."""
        return cls(tuple(map(str, arrays.get("languages", (ENGLISH,)))))

    @property
    def nbytes(self) -> int:
        """Size in bytes: about 50 for each."""
        return 50 * len(self.codes)


Part = TypeVar("Part", bound=Sized)


class ScopeView(Protocol):
    """One scope of one build. Local rows are in the order of memory ids."""

    @property
    def ids(self) -> np.ndarray:
        """Memory ids, ascending, shape (memories,) object."""

    def allowed(self, filters: Filters) -> np.ndarray:
        """Returns which memories are candidates, shape (memories,) bool."""

    def cosines(self, vector: np.ndarray) -> np.ndarray:
        """Returns the cosine of each memory's best window with a unit vector, shape (memories,) float64."""

    def estimated_cosines(self, vector: np.ndarray) -> np.ndarray | None:
        """Returns about `cosines`, wrong by .003 at most, in a quarter of the time; None where those are fast."""

    def cosines_of(self, vector: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Returns `cosines` of some local rows, shape (len(rows),)."""

    def window_cosines(self, vector: np.ndarray, rows: np.ndarray) -> list[np.ndarray] | None:
        """Returns the cosines of the windows of some local rows, in order; None where they would cost a read."""

    def windows(self) -> np.ndarray | None:
        """Returns how many windows each memory has, shape (memories,); None where each has one."""

    def postings(self, terms: Sequence[str]) -> list[Postings]:
        """Returns the postings of terms, in alphabetical order of the terms."""

    def passages(self) -> PassageGraph | None:
        """Returns which memories name which entities, and whose titles they are; None where no names are indexed."""

    def sentences(self, rows: np.ndarray) -> Sentences:
        """Returns the sentences of some memories, by local row, in a scope searched over names."""

    def sentence_terms(self, rows: np.ndarray) -> dict[int, SentenceTerms]:
        """Returns the sentences of some memories and their words, by local row; memories without any are left out."""

    def periods(self) -> MemoryPeriods:
        """Returns the periods that memories state or were observed in."""

    def named_entities(self) -> NamedEntities:
        """Returns the entities rare enough to link memories, and the memories that name them."""

    def turn_order(self) -> TurnOrder:
        """Returns which turns follow each other."""

    def assistant_turns(self) -> Flags:
        """Returns which memories are by the assistant of a chat, where its turns are long; else none."""

    def reading_order(self) -> ReadingOrder:
        """Returns what precedes and follows memories, turns in their sessions and others in their documents."""

    def cached(self, name: str, load: Callable[[], Part]) -> Part:
        """Returns what is cached of the scope under a name, made by `load` where it is not."""

    def links(self) -> ScopeLinks:
        """Returns the relations between memories, and which memory replaced which."""

    def priors(self) -> Priors:
        """Returns how new, how much supported and how important memories are."""

    def formed(self) -> FormedRows:
        """Returns the memories that are formed from others, with these."""


class CachedScopeView(ABC):
    """The parts of a ScopeView that every store reads as arrays, makes once and caches under a name.

    What follows from them alone is here too, for scopes of any size: neighbors, and what a memory replaced.

    Args:
        cache: of everything that is read.
        place: what the scope has its entries under there.
    """

    def __init__(self, cache: ByteCache, place: Hashable):
        self._cache, self._place = cache, place

    @property
    @abstractmethod
    def ids(self) -> np.ndarray:
        """See ScopeView."""

    def allowed(self, filters: Filters) -> np.ndarray:
        """See ScopeView."""
        allowed = self._stored_allowed(filters.stored)
        if filters.where is not None:
            allowed = allowed & self._satisfying(filters.where)
        if filters.accessed is not None:
            accessed = np.zeros(self._size, bool)
            accessed[list(known_rows(self.ids, filters.accessed).values())] = True
            allowed = allowed & accessed
        return allowed

    def fields(self) -> FieldValues:
        """Returns the fields that `where` filters by.

        Raises:
            PalimpsestError: the build was made before fields were indexed.
        """
        values = self._cached(
            "fields", lambda: FieldValues(self._arrays("fields"), self._arrays("metadata"), self._size)
        )
        if not values.is_indexed:
            raise PalimpsestError("where: this build has no fields to filter by; run palimpsest build again")
        return values

    def field_kinds(self, filters: Filters) -> dict[str, frozenset[Kind]]:
        """See Backend."""
        return self.fields().kinds(self.allowed(filters))

    def _satisfying(self, where: Where) -> np.ndarray:
        return self._cached(f"where {where.expression!r}", lambda: Flags(self.fields().mask(where.expression))).values

    @abstractmethod
    def cosines(self, vector: np.ndarray) -> np.ndarray:
        """See ScopeView."""

    @abstractmethod
    def estimated_cosines(self, vector: np.ndarray) -> np.ndarray | None:
        """See ScopeView."""

    @abstractmethod
    def cosines_of(self, vector: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """See ScopeView."""

    @abstractmethod
    def window_cosines(self, vector: np.ndarray, rows: np.ndarray) -> list[np.ndarray] | None:
        """See ScopeView."""

    @abstractmethod
    def windows(self) -> np.ndarray | None:
        """See ScopeView."""

    @abstractmethod
    def passages(self) -> PassageGraph | None:
        """See ScopeView."""

    @abstractmethod
    def _stored_allowed(self, filters: Filters) -> np.ndarray:
        """Returns `allowed` of `Filters.stored`."""

    def neighbors(self, filters: Filters, ids: Sequence[str], n: int) -> list[Link]:
        """See Backend."""
        if not (rows := known_rows(self.ids, ids)):
            return []
        known, graph, allowed = self.ids, self.links(), self.allowed(filters)
        entities = self.named_entities() if n > 0 else None  # they are far more than relations
        out: list[Link] = []
        for source, row in rows.items():
            out += [Link(source, known[r], label, w) for r, w, label in graph.related(row) if allowed[r]]
            if entities is not None:
                out += [Link(source, known[r], "entity", w, e) for r, w, e in entities.sharing(row, allowed, n)]
        return out

    def passing(self, filters: Filters, ids: Sequence[str]) -> set[str]:
        """See Backend."""
        allowed = self.allowed(filters)
        return {i for i, row in known_rows(self.ids, ids).items() if allowed[row]}

    def chains(self, ids: Sequence[str]) -> dict[str, list[str]]:
        """Returns, for each of `ids` that replaced others, the ids of all that it replaced, through others too."""
        if not (rows := known_rows(self.ids, ids)):
            return {}
        known, graph = self.ids, self.links()
        chains = {i: graph.chain(row) for i, row in rows.items()}
        return {i: known[older].tolist() for i, older in chains.items() if older}

    def links(self) -> ScopeLinks:
        """Returns the relations between memories, and which memory replaced which."""
        return self._cached("links", lambda: ScopeLinks.from_arrays(self._arrays("links"), self._size))

    def turn_order(self) -> TurnOrder:
        """See ScopeView."""
        return self._cached("order", lambda: TurnOrder.from_arrays(self._arrays("order"), self._size))

    def assistant_turns(self) -> Flags:
        """See ScopeView."""
        return self._cached("assistant", lambda: Flags.from_rows(self._arrays("assistant").get("row", ()), self._size))

    def reading_order(self) -> ReadingOrder:
        """See ScopeView."""
        return self._cached(
            "reading order",
            lambda: ReadingOrder.from_arrays(self._arrays("order"), self._arrays("written"), self._size),
        )

    def periods(self) -> MemoryPeriods:
        """See ScopeView."""
        return self._cached("periods", self._load_periods)

    def named_entities(self) -> NamedEntities:
        """See ScopeView."""
        return self._cached("named", lambda: NamedEntities.from_arrays(self._arrays("named"), self._size))

    def cached(self, name: str, load: Callable[[], Part]) -> Part:
        """See ScopeView."""
        return self._cached(name, load)

    def priors(self) -> Priors:
        """See ScopeView."""
        return self._cached("priors", lambda: Priors.from_arrays(self._arrays("priors"), self._size))

    def formed(self) -> FormedRows:
        """See ScopeView."""
        return self._cached("formed", lambda: FormedRows.from_arrays(self._arrays("formed")))

    def reasons(self) -> RetirementReasons:
        """Returns why memories were retired or retained."""
        return self._cached("reasons", lambda: RetirementReasons.from_arrays(self._arrays("reasons")))

    def withheld(self) -> Withheld:
        """Returns what the scope does not serve unless the query includes it."""
        return self._cached("withheld", lambda: Withheld.from_arrays(self._arrays("withheld")))

    def languages(self) -> tuple[str, ...]:
        """See Backend."""
        return self._cached("languages", lambda: Languages.from_arrays(self._arrays("languages"))).codes

    def words(self, terms: Sequence[str]) -> np.ndarray:
        """Returns the BM25 sum of each local row."""
        return word_sums(self.postings(terms), self._size)

    def postings(self, terms: Sequence[str]) -> list[Postings]:
        """See ScopeView."""
        found = {t: self._cache.peek((self._place, "term", t)) for t in terms}
        if missing := [t for t, postings in found.items() if postings is None]:
            found |= self._load_postings(missing)
        return [postings for _, postings in sorted(found.items())]

    def sentences(self, rows: np.ndarray) -> Sentences:
        """See ScopeView."""
        found = {row: s for row, s in self._read_sentences(rows).items() if s.counts is not None}
        embedded = all(s.vectors is not None for s in found.values())
        return join_named(found, {} if embedded else self._words_of(found))

    def sentence_terms(self, rows: np.ndarray) -> dict[int, SentenceTerms]:
        """See ScopeView."""
        return self._words_of({row: s for row, s in self._read_sentences(rows).items() if len(s.spans)})

    def _read_sentences(self, rows: np.ndarray) -> dict[int, MemorySentences]:
        """Returns the sentences of some memories by local row, ascending."""
        keys = {row: (self._place, "sentences", row) for row in np.sort(rows).tolist()}
        return self._cache.get_each(keys, self._load_sentences)

    def _words_of(self, found: Mapping[int, MemorySentences]) -> dict[int, SentenceTerms]:
        """Returns the words of sentences; those that an earlier version stored without are made of the texts."""
        texts = self._texts_of([row for row, s in found.items() if s.words is None])
        words = {}
        for row, s in found.items():
            text = texts.get(row, "")
            spans = s.spans.tolist()
            words[row] = s.words or SentenceTerms(s.spans, *keys_of_sentences((text[a:b], None) for a, b in spans))
        return words

    def _cached(self, name: str, load: Callable[[], Part]) -> Part:
        """Returns what is cached under a name, made by `load` where it is not."""
        value: Part = self._cache.get((self._place, name), load)
        return value

    def _load_periods(self) -> MemoryPeriods:
        arrays, nothing = self._arrays("periods"), np.zeros(0)
        row, begins, ends = (arrays.get(n, nothing) for n in ("row", "begins", "ends"))
        return MemoryPeriods(row.astype(np.int64), begins, ends)

    @property
    @abstractmethod
    def _size(self) -> int:
        """How many memories the scope has."""

    @abstractmethod
    def _load_postings(self, missing: list[str]) -> dict[str, Postings]:
        """Reads the postings of terms, and caches them."""

    @abstractmethod
    def _load_sentences(self, rows: Sequence[int]) -> dict[int, MemorySentences]:
        """Reads the sentences of memories by local row."""

    @abstractmethod
    def _texts_of(self, rows: Sequence[int]) -> dict[int, str]:
        """Reads the texts of memories by local row."""

    @abstractmethod
    def _arrays(self, part: str) -> Arrays:
        """Returns the arrays of a part, as `scope_parts` reads them from an index; empty where there are none."""
