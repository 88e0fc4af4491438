"""What stands beside a memory where it was said or written: the turns around it, its neighbours in the document."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from palimpsest.query.context.pack import Beside
from palimpsest.query.ranking.backend import Backend
from palimpsest.query.ranking.scope_cache import rows_of
from palimpsest.query.request.types import Filters, Memory, Scope

REACH = 2  # places on each side

Around = Mapping[str, Sequence[tuple[int, str]]]
"""For a memory's id, (place, id) of what stands around it, nearest first."""


def ids_beside(
    backend: Backend, scope: Scope, filters: Filters, ids: Sequence[str], reach: int = REACH
) -> dict[str, list[tuple[int, str]]]:
    """Returns (place, id) of the candidates around each of `ids`, nearest first; none where the store has no view.

    Args:
        backend: the store.
        scope: where the memories lie.
        filters: which memories may stand there.
        ids: memories of the scope.
        reach: how many places on each side.
    """
    view = backend.view(scope) if ids else None
    if view is None:
        return {}
    known = view.ids
    rows = rows_of(known, ids)
    places = view.places()
    found = {i: places.around(row, reach) for i, row in zip(ids, rows.tolist(), strict=True)}
    if not any(found.values()):
        return {}
    allowed = view.allowed(filters)
    return {i: _ids(known, allowed, around) for i, around in found.items()}


def ids_in(around: Around) -> list[str]:
    """Returns every id that stands beside another, once, sorted."""
    return sorted({i for near in around.values() for _, i in near})


def memories_beside(
    around: Mapping[Scope, Around], held: Mapping[Scope, Mapping[str, Memory]]
) -> dict[str, list[Beside]]:
    """Returns what stands around each memory, as packing takes it; `held` are the memories of each scope by id."""
    return {i: [Beside(p, held[s][n]) for p, n in near] for s, found in around.items() for i, near in found.items()}


def _ids(known: np.ndarray, allowed: np.ndarray, around: Iterable[tuple[int, int]]) -> list[tuple[int, str]]:
    return [(place, str(known[row])) for place, row in around if allowed[row]]
