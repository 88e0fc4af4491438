"""The protocol that every store of a build implements; ranking, packing and citing never know which one it is."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from palimpsest.memories.vector_space import Space
from palimpsest.query.request.types import CollectionInfo, Filters, Link, Memory, Scope, Seeds
from palimpsest.query.request.where import Kind
from palimpsest.query.scope.graph_reads import GraphScope
from palimpsest.query.scope.view import ScopeView


class Backend(Protocol):
    """One build, read only, for the backend's lifetime. Every method is safe to call from several threads.

    Every read names its scope, and no answer contains anything, statistics included, from outside it. A scope that the
    build does not know has no candidates: that is an empty answer, not an error. Searches read through
    `scope.served_scope.ServedScope`, which leaves out what their filters exclude.
    """

    build_id: str

    def collections(self) -> dict[str, CollectionInfo]:
        """Returns the build's collections by name, sorted."""

    def scopes(self) -> list[Scope]:
        """Returns every scope that has a memory, sorted."""

    def view(self, scope: Scope) -> ScopeView | None:
        """Returns the scope as dense arrays, for scorers that score every memory.

        None where the store does not know the scope, or where it is too large for memory: `seeds` ranks it then.
        """

    def seeds(
        self, scope: Scope, filters: Filters, vector: np.ndarray, terms: Sequence[str], weight: float, n: int
    ) -> Seeds:
        """Returns the best n candidates by z(cosine) + weight * z(words), ties to the lower id.

        Both scores are exact and the statistics cover every candidate, however the store finds them.

        Args:
            scope: where to search.
            filters: which memories are candidates.
            vector: the query's unit vector in the space of the scope, shape (dimensions,) float32.
            terms: distinct terms of the query; none means vectors alone.
            weight: of the words; 0 means vectors alone.
            n: how many.
        """

    def scores(self, scope: Scope, vector: np.ndarray, terms: Sequence[str], ids: Sequence[str]) -> np.ndarray:
        """Returns the exact cosine and BM25 sum of given memories, shape (len(ids), 2)."""

    def neighbors(self, scope: Scope, filters: Filters, ids: Sequence[str], n: int) -> list[Link]:
        """Returns links from `ids` to candidates.

        EXTEND in both directions, DERIVE to conclusions and PREMISE to what a memory follows from, UPDATE to the newer
        memory, then shared entities. A link's weight is the
        relation's confidence, or the entity's weight: `scope_graph.idf_weight`.

        Args:
            scope: where the memories are.
            filters: which memories may be reached.
            ids: memories to start from.
            n: at most so many links over entities from each memory, heaviest first.
        """

    def passing(self, scope: Scope, filters: Filters, ids: Sequence[str]) -> set[str]:
        """Returns which of `ids` are candidates."""

    def memories(self, scope: Scope, ids: Sequence[str]) -> dict[str, Memory]:
        """Returns the memories of the scope among `ids`."""

    def chains(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[str]]:
        """Returns, for each of `ids` that replaced others, the ids of all that it replaced, through others too."""

    def field_kinds(self, scope: Scope, filters: Filters) -> dict[str, frozenset[Kind]]:
        """Returns the fields of the metadata of candidates, and the kinds of their values.

        Raises:
            PalimpsestError: the build was made before fields were indexed.
        """

    def languages(self, scope: Scope) -> tuple[str, ...]:
        """Returns the languages by which the scope's texts are indexed, ISO 639-1, sorted."""

    def observed(self, scope: Scope) -> tuple[dt.datetime, dt.datetime] | None:
        """Returns when the scope's oldest and newest memories were observed; None where none is dated."""

    def reasons(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[str]]:
        """Returns why memories among `ids` were retired or retained: JSON lines of `memories.version_reasons`."""

    def graph(self, scope: Scope) -> GraphScope | None:
        """Returns the nodes, edges and facts of a scope; None where the store does not know the scope.

        Raises:
            PalimpsestError: the build was made before nodes were indexed.
        """

    def close(self) -> None:
        """Releases the store."""


def collection_infos(
    scopes: Iterable[Scope],
    settings: Mapping[str, Mapping[str, Any]],
    strategies: Mapping[str, str],
    weights: Mapping[str, Mapping[str, float]],
    spaces: Mapping[str, Mapping[str, object]],
) -> dict[str, CollectionInfo]:
    """Returns what a build records of its collections, by name, sorted.

    Args:
        scopes: every scope that has a memory.
        settings: `default`, `user_id`, `fields` and `has_formed` of collections.
        strategies: what `auto` means in each collection.
        weights: the weights that the settings of each collection give.
        spaces: the space of the vectors of each collection; builds of earlier versions have none.
    """
    return {
        n: CollectionInfo(
            name=n,
            default=bool(settings.get(n, {}).get("default", False)),
            user_id=settings.get(n, {}).get("user_id"),
            strategy=strategies.get(n, "hybrid"),
            weights=weights.get(n, {}),
            fields=settings.get(n, {}).get("fields", {}),
            space=Space.from_json(spaces[n]) if n in spaces else None,
            has_formed=bool(settings.get(n, {}).get("has_formed", False)),
        )
        for n in sorted({s.collection for s in scopes} | set(settings))
    }


def read_chains(
    chains: Mapping[str, Sequence[str]], read: Callable[[Sequence[str]], Mapping[str, Memory]]
) -> dict[str, list[Memory]]:
    """Returns the memories of chains, newest first.

    Args:
        chains: ids by the id of the memory that replaced them, as `Backend.chains` returns them.
        read: returns memories by id.
    """
    memories = read(sorted({i for chain in chains.values() for i in chain})) if chains else {}
    return {newer: sorted((memories[i] for i in chain), key=_newest_first) for newer, chain in chains.items()}


def _newest_first(memory: Memory) -> tuple[float, str]:
    """Returns the sort key of versions; those of an unknown day come last."""
    time = memory.valid_from or memory.observed_at
    return (-time.timestamp() if time else float("inf"), memory.memory_id)
