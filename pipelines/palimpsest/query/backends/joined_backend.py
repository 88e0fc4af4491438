"""A build together with pending memories of some of its scopes, as one store."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from palimpsest.query.backends.duckdb_backend import view_scores, view_seeds
from palimpsest.query.request.types import CollectionInfo, Filters, Link, Memory, Scope, Seeds
from palimpsest.query.request.where import Kind
from palimpsest.query.scope.backend import Backend
from palimpsest.query.scope.graph_reads import GraphScope
from palimpsest.query.scope.view import CachedScopeView


@dataclass(frozen=True)
class PendingScope:
    """What is pending in a scope: its store, and the view of it with what is built, or alone where nothing is."""

    store: Backend
    view: CachedScopeView
    ids: frozenset[str]


class JoinedBackend:
    """Implements `palimpsest.query.scope.backend.Backend`; scopes without pending memories are those of the build.

    Args:
        built: the store of the build, which stays open.
        pending: by scope.
    """

    def __init__(self, built: Backend, pending: Mapping[Scope, PendingScope]):
        self._built, self._pending = built, pending
        self.build_id = built.build_id

    def pending_ids(self) -> frozenset[str]:
        """Returns the ids of the memories that are not built yet."""
        return frozenset().union(*(at.ids for at in self._pending.values()))

    def collections(self) -> dict[str, CollectionInfo]:
        """See Backend."""
        return self._built.collections()

    def scopes(self) -> list[Scope]:
        """See Backend."""
        return sorted({*self._built.scopes(), *self._pending})

    def view(self, scope: Scope) -> CachedScopeView | None:
        """See Backend."""
        at = self._pending.get(scope)
        return at.view if at else self._built.view(scope)  # type: ignore[return-value]  # a view of a store is one

    def seeds(
        self, scope: Scope, filters: Filters, vector: np.ndarray, terms: Sequence[str], weight: float, n: int
    ) -> Seeds:
        """See Backend."""
        if (at := self._pending.get(scope)) is None:
            return self._built.seeds(scope, filters, vector, terms, weight, n)
        return view_seeds(at.view, filters, vector, terms, weight, n)

    def scores(self, scope: Scope, vector: np.ndarray, terms: Sequence[str], ids: Sequence[str]) -> np.ndarray:
        """See Backend."""
        if (at := self._pending.get(scope)) is None:
            return self._built.scores(scope, vector, terms, ids)
        return view_scores(at.view, vector, terms, ids)

    def neighbors(self, scope: Scope, filters: Filters, ids: Sequence[str], n: int) -> list[Link]:
        """See Backend."""
        at = self._pending.get(scope)
        return at.view.neighbors(filters, ids, n) if at else self._built.neighbors(scope, filters, ids, n)

    def passing(self, scope: Scope, filters: Filters, ids: Sequence[str]) -> set[str]:
        """See Backend."""
        at = self._pending.get(scope)
        return at.view.passing(filters, ids) if at else self._built.passing(scope, filters, ids)

    def memories(self, scope: Scope, ids: Sequence[str]) -> dict[str, Memory]:
        """See Backend."""
        at = self._pending.get(scope)
        if at is None:
            return self._built.memories(scope, ids)
        new = [i for i in ids if i in at.ids]
        return self._built.memories(scope, [i for i in ids if i not in at.ids]) | at.store.memories(scope, new)

    def chains(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[str]]:
        """See Backend."""
        at = self._pending.get(scope)
        return at.view.chains(ids) if at else self._built.chains(scope, ids)

    def field_kinds(self, scope: Scope, filters: Filters) -> dict[str, frozenset[Kind]]:
        """See Backend."""
        at = self._pending.get(scope)
        return at.view.field_kinds(filters) if at else self._built.field_kinds(scope, filters)

    def languages(self, scope: Scope) -> tuple[str, ...]:
        """See Backend."""
        at = self._pending.get(scope)
        return at.view.languages() if at else self._built.languages(scope)

    def observed(self, scope: Scope) -> tuple[dt.datetime, dt.datetime] | None:
        """See Backend."""
        at = self._pending.get(scope)
        known = [self._built.observed(scope), at.store.observed(scope) if at else None]
        times = [pair for pair in known if pair is not None]
        return (min(first for first, _ in times), max(last for _, last in times)) if times else None

    def reasons(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[str]]:
        """See Backend."""
        at = self._pending.get(scope)
        return at.view.reasons().select(ids) if at else self._built.reasons(scope, ids)

    def graph(self, scope: Scope) -> GraphScope | None:
        """See Backend: pending memories are in no graph."""
        return self._built.graph(scope)

    def close(self) -> None:
        """See Backend: the build stays open."""
