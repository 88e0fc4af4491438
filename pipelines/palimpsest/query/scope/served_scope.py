"""One scope of a build as a search reads it: without the memories that its filters leave out."""

import datetime as dt
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from palimpsest.core.times import comparable
from palimpsest.memories.vector_space import Space
from palimpsest.query.request.types import Filters, Link, Memory, Scope, Seeds
from palimpsest.query.request.where import Kind
from palimpsest.query.scope.backend import Backend, read_chains
from palimpsest.query.scope.view import ScopeView
from palimpsest.text.languages import question_languages
from palimpsest.text.terms import query_terms

ReasonRecord: TypeAlias = Mapping[str, Any]
"""A reason as `palimpsest.memories.version_reasons` writes it; `kind` says which of the other fields it has."""
PART, DISPUTED, LATER = OPEN_KINDS = ("part", "disputed", "later")
"""Kinds of reasons of a memory that is still latest: no history."""
_DOCUMENT_REASONS = ("edited", "replaced")
"""Kinds of reasons that name a document and not a memory."""


@dataclass(frozen=True)
class ServedScope:
    """A scope behind its filters: every text of an answer is read through it, also by id.

    Session, types, tags, since, until, where, accessed, retention, hidden and personal data apply to every text. A
    memory that is no longer latest is served, because history needs it. With `as_of` nothing is served that was
    observed later, unless it was valid then; with `now` nothing that is valid only later. A reason that names a memory
    left out is left out too.

    Attributes:
        backend: the store of the build.
        scope: the scope.
        filters: what the search leaves out.
    """

    backend: Backend
    scope: Scope
    filters: Filters
    _read: dict[str, Memory] = field(default_factory=dict, init=False, repr=False, compare=False)  # of this search
    _parsed: dict[str, list[ReasonRecord]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def space(self) -> Space | None:
        """The space of the scope's vectors; None means MiniLM's."""
        info = self.backend.collections().get(self.scope.collection)
        return info.space if info else None

    @property
    def has_formed(self) -> bool:
        """Whether the scope's collection forms memories from its conversations."""
        info = self.backend.collections().get(self.scope.collection)
        return bool(info and info.has_formed)

    def question_terms(self, text: str) -> list[str]:
        """Returns the distinct terms of a question, read in its language where the scope has it, else in all."""
        return query_terms(text, question_languages(text, self.backend.languages(self.scope)))

    def view(self) -> ScopeView | None:
        """See Backend; `allowed` of the view applies filters."""
        return self.backend.view(self.scope)

    def seeds(self, vector: np.ndarray, terms: Sequence[str], weight: float, n: int) -> Seeds:
        """See Backend."""
        return self.backend.seeds(self.scope, self.filters, vector, terms, weight, n)

    def scores(self, vector: np.ndarray, terms: Sequence[str], ids: Sequence[str]) -> np.ndarray:
        """See Backend."""
        return self.backend.scores(self.scope, vector, terms, ids)

    def neighbors(self, ids: Sequence[str], n: int) -> list[Link]:
        """See Backend."""
        return self.backend.neighbors(self.scope, self.filters, ids, n)

    def passing(self, ids: Sequence[str]) -> set[str]:
        """Returns which of `ids` are candidates of the search."""
        return self.backend.passing(self.scope, self.filters, ids)

    def memories(self, ids: Sequence[str]) -> dict[str, Memory]:
        """Returns those memories among `ids` that may be shown."""
        return self._visible(self._memories(ids))

    def read_ahead(self, ids: Sequence[str]) -> None:
        """Reads memories, those that they are related to, and what the reasons of all of them name."""
        wanted = sorted({*ids, *self.related_ids(ids)})
        self._memories(sorted({*wanted, *_named_in(self.all_reasons(wanted))}))

    def related_ids(self, ids: Sequence[str]) -> list[str]:
        """Returns the ids of what memories replaced and of what their reasons name, visible or not.

        `memories` reads them together with the results, so that `history` and `reasons` read nothing more.
        """
        older = {i for chain in self.backend.chains(self.scope, ids).values() for i in chain}
        return sorted(older | _named_in(self.all_reasons(ids)))

    def replacing_ids(self, memories: Iterable[Memory]) -> set[str]:
        """Returns the ids of the memories that replaced others; what a document version replaced has none.

        An index of an earlier version has no reasons: there the id of a document version may be among them.
        """
        newer = {m.memory_id: m.superseded_by for m in memories if m.superseded_by}
        reasons = self.all_reasons(sorted(newer))
        unexplained = {by for i, by in newer.items() if i not in reasons}
        return (_named_in(reasons) | unexplained) & {*newer.values()}

    def history(self, ids: Sequence[str]) -> dict[str, list[Memory]]:
        """Returns the visible memories that each of `ids` replaced, through others too, newest first."""
        found = read_chains(self.backend.chains(self.scope, ids), self._memories)
        visible = self._visible({m.memory_id: m for chain in found.values() for m in chain})
        chains = {i: [m for m in chain if m.memory_id in visible] for i, chain in found.items()}
        return {i: chain for i, chain in chains.items() if chain}

    def all_reasons(self, ids: Sequence[str]) -> dict[str, list[ReasonRecord]]:
        """Returns the reasons of those of `ids` that have some, also where they name what may not be shown."""
        if missing := [i for i in ids if i not in self._parsed]:
            lines = self.backend.reasons(self.scope, missing)
            self._parsed.update({i: [json.loads(line) for line in lines.get(i, ())] for i in missing})
        return {i: found for i in ids if (found := self._parsed[i])}

    def reasons(self, ids: Sequence[str]) -> dict[str, list[ReasonRecord]]:
        """Returns the reasons that name nothing left out, by id; see Backend."""
        found = self.all_reasons(ids)
        known = self._memories(sorted(_named_in(found)))
        left_out = known.keys() - self._visible(known).keys()
        visible = {
            i: [r for r in reasons if _is_visible_reason(r, left_out, self.filters)] for i, reasons in found.items()
        }
        return {i: of_memory for i, of_memory in visible.items() if of_memory}

    def field_kinds(self) -> dict[str, frozenset[Kind]]:
        """Returns the fields of the metadata of visible memories, and the kinds of their values; see Backend."""
        any_field = replace(_any_version(self.filters), where=None, accessed=None)
        return self.backend.field_kinds(self.scope, any_field)

    def observed(self) -> tuple[dt.datetime, dt.datetime] | None:
        """Returns when the oldest and newest visible memories were observed; None where none is dated."""
        view = self.view() if _excludes_any(self.filters) else None
        if view is None:
            return self.backend.observed(self.scope)
        seconds = view.priors().observed[view.allowed(_any_version(self.filters))]
        seconds = seconds[~np.isnan(seconds)]
        if self.filters.as_of is not None:
            seconds = seconds[seconds <= self.filters.as_of.timestamp()]
        if len(seconds) == 0:
            return None
        first, last = (dt.datetime.fromtimestamp(float(s), dt.UTC) for s in (seconds.min(), seconds.max()))
        return first, last

    def may_conceal(self) -> bool:
        """Returns whether anything of the scope may be left out: a name then needs a visible text that has it."""
        if self.filters.as_of is not None or self.filters.now is not None:
            return True
        view = self.view()
        return view is None or not bool(view.allowed(_any_version(self.filters)).all())

    def _memories(self, ids: Sequence[str]) -> dict[str, Memory]:
        """Returns memories by id, visible or not; each is read once."""
        if missing := [i for i in ids if i not in self._read]:
            self._read.update(self.backend.memories(self.scope, missing))
        return {i: self._read[i] for i in ids if i in self._read}

    def _visible(self, found: Mapping[str, Memory]) -> dict[str, Memory]:
        if not found:
            return {}
        passing = self.backend.passing(self.scope, _any_version(self.filters), sorted(found))
        later = {i for i in passing if _is_later(found[i], self.filters)}
        if later:  # a memory valid at the requested time is a result, whenever it was observed
            passing = passing - later | self.passing(sorted(later))
        return {i: m for i, m in found.items() if i in passing}


def _named_in(found: Mapping[str, Sequence[ReasonRecord]]) -> set[str]:
    """Returns the ids of the memories that reasons name."""
    reasons = (r for of_memory in found.values() for r in of_memory if r["kind"] not in _DOCUMENT_REASONS)
    return {by for reason in reasons if (by := reason.get("by"))}


def _excludes_any(filters: Filters) -> bool:
    """Returns whether anything but retention and privacy leaves memories out."""
    given = (filters.session, filters.since, filters.until, filters.as_of, filters.now, filters.where, filters.accessed)
    return bool(filters.types or filters.tags) or any(value is not None for value in given)


def _any_version(filters: Filters) -> Filters:
    return replace(filters, as_of=None, now=None, history=True)


def _is_later(memory: Memory, filters: Filters) -> bool:
    """Returns whether a memory may be from after the requested time."""
    if filters.as_of is not None:
        return memory.observed_at is None or memory.observed_at > filters.as_of
    return filters.now is not None and memory.valid_from is not None and memory.valid_from > filters.now


def _excludes_memories(filters: Filters) -> bool:
    """Returns whether a filter by session, type, tag, field or access is given."""
    return bool(filters.session or filters.types or filters.tags or filters.where or filters.accessed is not None)


def _is_visible_reason(reason: ReasonRecord, left_out: Collection[str], filters: Filters) -> bool:
    """Returns whether a reason names nothing that is left out, and nothing that happened later."""
    if reason.get("by") in left_out:
        return False
    names_document = reason["kind"] in _DOCUMENT_REASONS
    if names_document and _excludes_memories(filters):
        return False  # whether the document would pass is unknown
    text = reason.get("at") if names_document else reason.get("decided_at")
    when = dt.datetime.fromisoformat(text) if text else None
    if filters.as_of is not None and (when is None or when > filters.as_of):
        return when is None and not names_document and reason["kind"] != "vanished"
    if names_document and (filters.since or filters.until):
        is_late = when is None or bool(filters.until and comparable(when, filters.until) > filters.until)
        return not is_late and not (filters.since and when and comparable(when, filters.since) < filters.since)
    return True
