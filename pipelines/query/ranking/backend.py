"""The one protocol that every store of a build implements; ranking, packing and citing never know which one it is."""

import datetime as dt
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from palimpsest.query.ranking.view import ScopeView
from palimpsest.query.request.types import CollectionInfo, Filters, Link, Memory, Scope, Seeds


class Backend(Protocol):
    """One build, read only, held for the backend's lifetime. Every method is safe to call from several threads.

    Every read names its scope, and no answer holds anything, statistics included, from outside it. A scope that the
    build does not know has no candidates: that is an empty answer, not an error.
    """

    build_id: str

    def collections(self) -> dict[str, CollectionInfo]:
        """Returns the build's collections by name, sorted."""

    def scopes(self) -> list[Scope]:
        """Returns every scope that holds a memory, sorted."""

    def view(self, scope: Scope) -> ScopeView | None:
        """Returns the scope as dense arrays, for rankers that score every memory.

        None where the store does not know the scope, or cannot hold it: it is ranked by `seeds` then.
        """

    def seeds(
        self, scope: Scope, filters: Filters, vector: np.ndarray, terms: Sequence[str], weight: float, n: int
    ) -> Seeds:
        """Returns the best n candidates by z(cosine) + weight * z(words), ties to the lower id.

        Both scores are exact and the moments cover every candidate, however the store finds them.

        Args:
            scope: where to search.
            filters: which memories are candidates.
            vector: the query's unit vector, shape (384,) float32.
            terms: distinct terms of the query; none means vectors alone.
            weight: of the words; 0 means vectors alone.
            n: how many.
        """

    def scores(self, scope: Scope, vector: np.ndarray, terms: Sequence[str], ids: Sequence[str]) -> np.ndarray:
        """Returns the exact cosine and BM25 sum of given memories, shape (len(ids), 2)."""

    def neighbours(self, scope: Scope, filters: Filters, ids: Sequence[str], n: int) -> list[Link]:
        """Returns links from `ids` to candidates: EXTEND and DERIVE both ways, UPDATE to the newer, shared entities.

        A link's weight is the relation's confidence, or how telling the entity is: `scope_graph.telling`.

        Args:
            scope: where the memories lie.
            filters: which memories may be reached.
            ids: memories to start from.
            n: at most so many links over entities from each memory, heaviest first.
        """

    def passing(self, scope: Scope, filters: Filters, ids: Sequence[str]) -> set[str]:
        """Returns which of `ids` are candidates."""

    def memories(self, scope: Scope, ids: Sequence[str]) -> dict[str, Memory]:
        """Returns the memories of the scope among `ids`."""

    def history(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[Memory]]:
        """Returns, for each of `ids` that replaced others, all that it replaced, through others too, newest first."""

    def observed(self, scope: Scope) -> tuple[dt.datetime, dt.datetime] | None:
        """Returns when the scope's oldest and newest memories were observed; None where none is dated."""

    def reasons(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[str]]:
        """Returns why memories among `ids` were retired, or kept by a person: JSON, as `memories.reasons` tells it."""

    def close(self) -> None:
        """Releases the store."""
