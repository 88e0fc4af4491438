"""A backend whose texts are those that the filters of a search allow: every text of an answer is read through it."""

import datetime as dt
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from palimpsest.query.ranking.backend import Backend
from palimpsest.query.request.types import Filters, Memory, Scope

_OF_DOCUMENT = ("edited", "replaced")  # kinds of reasons that name a document and not a memory


def served(backend: Backend, filters: Filters | Mapping[Scope, Filters]) -> Backend:
    """Returns the backend without the memories that `filters` leave out, whoever asks for them by id.

    Session, type, tag, since, until, retention, hidden and personal data hold for every text. What is no longer latest
    is served, for history is told of it. With `as_of` nothing is served that was observed later, unless it held then;
    with `now` nothing that is valid only later. A reason that names what is left out is not told.

    Args:
        backend: the store.
        filters: of every scope, or of each scope that is read.
    """
    return cast(Backend, _Served(backend, filters))


def narrows(filters: Filters) -> bool:
    """Tells whether anything but retention and privacy is asked to be left out."""
    given = (filters.session, filters.type, filters.tag, filters.since, filters.until, filters.as_of, filters.now)
    return any(value is not None for value in given)


def conceals(backend: Backend, scope: Scope, filters: Filters) -> bool:
    """Tells whether anything of a scope may be left out: names then need a text that shows them."""
    if filters.as_of is not None or filters.now is not None:
        return True
    view = backend.view(scope)
    return view is None or not bool(view.allowed(_any_version(filters)).all())


@dataclass(frozen=True)
class _Served:
    backend: Backend
    filters: Filters | Mapping[Scope, Filters]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    def memories(self, scope: Scope, ids: Sequence[str]) -> dict[str, Memory]:
        return self._kept(scope, self.backend.memories(scope, ids))

    def history(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[Memory]]:
        found = self.backend.history(scope, ids)
        kept = self._kept(scope, {m.memory_id: m for chain in found.values() for m in chain})
        left = {i: [m for m in chain if m.memory_id in kept] for i, chain in found.items()}
        return {i: chain for i, chain in left.items() if chain}

    def reasons(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[str]]:
        filters = self._filters(scope)
        found = {i: [json.loads(line) for line in lines] for i, lines in self.backend.reasons(scope, ids).items()}
        by = {b for reasons in found.values() for r in reasons if (b := r.get("by"))}
        known = self.backend.memories(scope, sorted(by))
        gone = known.keys() - self._kept(scope, known).keys()
        left = {
            i: [json.dumps(r, sort_keys=True, ensure_ascii=False) for r in reasons if _tells(r, gone, filters)]
            for i, reasons in found.items()
        }
        return {i: lines for i, lines in left.items() if lines}

    def observed(self, scope: Scope) -> tuple[dt.datetime, dt.datetime] | None:
        filters = self._filters(scope)
        view = self.backend.view(scope) if narrows(filters) else None
        if view is None:
            return self.backend.observed(scope)
        seen = view.standing().observed[view.allowed(_any_version(filters))]
        seen = seen[~np.isnan(seen)]
        if filters.as_of is not None:
            seen = seen[seen <= filters.as_of.timestamp()]
        if len(seen) == 0:
            return None
        first, last = (dt.datetime.fromtimestamp(float(s), dt.UTC) for s in (seen.min(), seen.max()))
        return first, last

    def _filters(self, scope: Scope) -> Filters:
        return self.filters if isinstance(self.filters, Filters) else self.filters[scope]

    def _kept(self, scope: Scope, found: Mapping[str, Memory]) -> dict[str, Memory]:
        """Returns those memories that may be shown."""
        if not found:
            return {}
        filters = self._filters(scope)
        kept = self.backend.passing(scope, _any_version(filters), sorted(found))
        late = {i for i in kept if _is_later(found[i], filters)}
        if late:  # what held at the moment that is asked about is a result, whenever it was observed
            kept = kept - late | self.backend.passing(scope, filters, sorted(late))
        return {i: m for i, m in found.items() if i in kept}


def _any_version(filters: Filters) -> Filters:
    return replace(filters, as_of=None, now=None, history=True)


def _is_later(memory: Memory, filters: Filters) -> bool:
    """Tells whether a memory may be from after the moment that is asked about."""
    if filters.as_of is not None:
        return memory.observed_at is None or memory.observed_at > filters.as_of
    return filters.now is not None and memory.valid_from is not None and memory.valid_from > filters.now


def _tells(reason: Mapping[str, Any], gone: Collection[str], filters: Filters) -> bool:
    """Tells whether a reason names nothing that is left out, and nothing that happened later."""
    if reason.get("by") in gone:
        return False
    of_document = reason["kind"] in _OF_DOCUMENT
    if of_document and (filters.session or filters.type or filters.tag):
        return False  # nobody knows of a document whether it would pass
    told = reason.get("at") if of_document else reason.get("decided_at")
    when = dt.datetime.fromisoformat(told) if told else None
    if filters.as_of is not None and (when is None or when > filters.as_of):
        return when is None and not of_document and reason["kind"] != "vanished"
    if of_document and (filters.since or filters.until):
        late = when is None or bool(filters.until and when > filters.until)
        return not late and not (filters.since and when and when < filters.since)
    return True
