"""The memories next to a result: the turns around it in its session, its neighbors in the document."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from palimpsest.query.context.pack import NeighborContext
from palimpsest.query.request.types import Memory
from palimpsest.query.scope.scope_arrays import rows_of
from palimpsest.query.scope.served_scope import ServedScope

REACH = 2  # neighbors on each side

NeighborIds = Mapping[str, Sequence[tuple[int, str]]]
"""For a memory's id, (offset, id) of its neighbors, nearest first."""


def neighbor_ids(served: ServedScope, ids: Sequence[str], reach: int = REACH) -> dict[str, list[tuple[int, str]]]:
    """Returns (offset, id) of the candidates around each of `ids`, nearest first; none where the store has no view.

    Args:
        served: the scope; its filters say which memories are candidates.
        ids: memories of the scope.
        reach: how many neighbors on each side.
    """
    view = served.view() if ids else None
    if view is None:
        return {}
    order = view.reading_order()
    found = {i: order.neighbors(row, reach) for i, row in zip(ids, rows_of(view.ids, ids).tolist(), strict=True)}
    if not any(found.values()):
        return {}
    allowed = view.allowed(served.filters)
    return {i: _select_ids(view.ids, allowed, around) for i, around in found.items()}


def distinct_ids(neighbors: NeighborIds) -> list[str]:
    """Returns the id of every neighbor once, sorted."""
    return sorted({i for near in neighbors.values() for _, i in near})


def neighbor_contexts(neighbors: NeighborIds, memories: Mapping[str, Memory]) -> dict[str, list[NeighborContext]]:
    """Returns the neighbors of each memory as packing takes them; `memories` of the same scope by id."""
    return {i: [NeighborContext(offset, memories[n]) for offset, n in near] for i, near in neighbors.items()}


def _select_ids(ids: np.ndarray, allowed: np.ndarray, around: Iterable[tuple[int, int]]) -> list[tuple[int, str]]:
    return [(offset, str(ids[row])) for offset, row in around if allowed[row]]
