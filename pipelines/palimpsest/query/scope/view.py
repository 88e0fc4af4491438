"""A scope as dense arrays by local row: what scorers need that look at every memory, the same over every backend."""

import datetime as dt
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.request.types import Filters, Link
from palimpsest.query.request.where import Kind, Where
from palimpsest.query.scope.byte_cache import Sized
from palimpsest.query.scope.field_values import FieldValues
from palimpsest.query.scope.passage_graph import PassageGraph, Sentences
from palimpsest.query.scope.reading_order import ReadingOrder, TurnOrder
from palimpsest.query.scope.scope_arrays import Arrays, Flags, Postings, Priors, RetirementReasons, known_rows
from palimpsest.query.scope.scope_graph import Adjacency, ScopeLinks
from palimpsest.text.date_mentions import MemoryPeriods
from palimpsest.text.terms import SentenceTerms, find_named_entities, name_key


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

    @cached_property
    def of_key(self) -> dict[int, tuple[int]]:
        """The entity of each `name_key`."""
        of_key: dict[int, tuple[int]] = {}
        for entity, name in enumerate(self.names.tolist()):
            of_key.setdefault(name_key(str(name)), (entity,))
        return of_key

    def in_text(self, text: str) -> list[int]:
        """Returns the entities that a text names, ascending."""
        return find_named_entities(text, lambda key: self.of_key.get(key, ()))

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
    """

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

    def _load_periods(self) -> MemoryPeriods:
        arrays, nothing = self._arrays("periods"), np.zeros(0)
        row, begins, ends = (arrays.get(n, nothing) for n in ("row", "begins", "ends"))
        return MemoryPeriods(row.astype(np.int64), begins, ends)

    @property
    @abstractmethod
    def _size(self) -> int:
        """How many memories the scope has."""

    @abstractmethod
    def _cached(self, name: str, load: Callable[[], Part]) -> Part:
        """Returns what is cached under a name, made by `load` where it is not."""

    @abstractmethod
    def _arrays(self, part: str) -> Arrays:
        """Returns the arrays of a part, as `scope_parts` reads them from an index; empty where there are none."""
