"""What answers before the first build: a store that knows no scope, so that every answer is empty."""

import datetime as dt
from collections.abc import Sequence

import numpy as np

from palimpsest.query.request.types import CollectionInfo, Filters, Link, Memory, Scope, Seeds
from palimpsest.query.request.where import Kind
from palimpsest.query.scope.graph_reads import GraphScope
from palimpsest.query.scope.view import ScopeView


class EmptyBackend:
    """A build without collections; see `Backend`."""

    build_id = ""

    def collections(self) -> dict[str, CollectionInfo]:
        """Returns none."""
        return {}

    def scopes(self) -> list[Scope]:
        """Returns none."""
        return []

    def view(self, scope: Scope) -> ScopeView | None:
        """Returns none."""
        return None

    def seeds(
        self, scope: Scope, filters: Filters, vector: np.ndarray, terms: Sequence[str], weight: float, n: int
    ) -> Seeds:
        """Returns no candidates."""
        return Seeds()

    def scores(self, scope: Scope, vector: np.ndarray, terms: Sequence[str], ids: Sequence[str]) -> np.ndarray:
        """Returns zeros."""
        return np.zeros((len(ids), 2))

    def neighbors(self, scope: Scope, filters: Filters, ids: Sequence[str], n: int) -> list[Link]:
        """Returns none."""
        return []

    def passing(self, scope: Scope, filters: Filters, ids: Sequence[str]) -> set[str]:
        """Returns none."""
        return set()

    def memories(self, scope: Scope, ids: Sequence[str]) -> dict[str, Memory]:
        """Returns none."""
        return {}

    def chains(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[str]]:
        """Returns none."""
        return {}

    def field_kinds(self, scope: Scope, filters: Filters) -> dict[str, frozenset[Kind]]:
        """Returns none."""
        return {}

    def languages(self, scope: Scope) -> tuple[str, ...]:
        """Returns none."""
        return ()

    def observed(self, scope: Scope) -> tuple[dt.datetime, dt.datetime] | None:
        """Returns none."""
        return None

    def reasons(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[str]]:
        """Returns none."""
        return {}

    def graph(self, scope: Scope) -> GraphScope | None:
        """Returns none."""
        return None

    def close(self) -> None:
        """Does nothing."""
