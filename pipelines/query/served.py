"""A backend whose texts are those that may be served: every read by id goes through it."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from palimpsest.query.backend import Backend
from palimpsest.query.types import Filters, Memory, Scope


def served(backend: Backend, filters: Filters) -> Backend:
    """Returns the backend without the memories that `filters` withhold: by retention, as hidden or as personal data.

    What is asked for otherwise (time, tags, history) does not matter here: those filters decide who is a candidate.
    """
    kept = Filters(
        history=True, clock=filters.clock, include_hidden=filters.include_hidden, include_pii=filters.include_pii
    )
    return cast(Backend, _Served(backend, kept))


@dataclass(frozen=True)
class _Served:
    backend: Backend
    filters: Filters

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    def memories(self, scope: Scope, ids: Sequence[str]) -> dict[str, Memory]:
        found = self.backend.memories(scope, ids)
        kept = self._kept(scope, found)
        return {i: m for i, m in found.items() if i in kept}

    def history(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[Memory]]:
        found = self.backend.history(scope, ids)
        kept = self._kept(scope, {m.memory_id for chain in found.values() for m in chain})
        left = {i: [m for m in chain if m.memory_id in kept] for i, chain in found.items()}
        return {i: chain for i, chain in left.items() if chain}

    def reasons(self, scope: Scope, ids: Sequence[str]) -> dict[str, list[str]]:
        found = self.backend.reasons(scope, ids)
        by = {told: json.loads(told).get("by") for each in found.values() for told in each}
        known = self.backend.memories(scope, sorted({b for b in by.values() if b}))
        gone = known.keys() - self._kept(scope, known)
        left = {i: [t for t in each if by[t] not in gone] for i, each in found.items()}
        return {i: each for i, each in left.items() if each}

    def _kept(self, scope: Scope, ids: Iterable[str]) -> set[str]:
        each = sorted(ids)
        return self.backend.passing(scope, self.filters, each) if each else set()
