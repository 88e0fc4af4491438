"""Results that newer text may contradict: a retirement that nearly happened, told with the memory that is newer."""

import json
from collections.abc import Sequence
from dataclasses import replace

from palimpsest.query.ranking.backend import Backend
from palimpsest.query.request.types import Filters, Memory, NewerText, RankedMemory, Scope

DOUBTED = "doubted"
"""Kind of reason that `palimpsest.memories.version_reasons` tells of such a pair."""


def mark_outdated(
    backend: Backend, scope: Scope, filters: Filters, ranked: Sequence[RankedMemory]
) -> list[RankedMemory]:
    """Returns the memories of one scope with `may_be_outdated` set where a newer memory may contradict them.

    Of several newer ones the newest is taken. One that the scope does not hold, or that the filters exclude, is never
    told; a memory that is no longer latest is not marked, for what replaced it is known.

    Args:
        backend: the store.
        scope: where the memories lie.
        filters: what the search was asked with; the newer memory must pass them too.
        ranked: results of the scope.
    """
    doubts: dict[str, dict[str, str]] = {}
    for memory_id, lines in backend.reasons(scope, [m.memory_id for m in ranked if m.is_latest]).items():
        told = [t for line in lines if (t := json.loads(line))["kind"] == DOUBTED]
        if told:
            doubts[memory_id] = {t["by"]: t["relation_id"] for t in told}
    if not doubts:
        return list(ranked)
    ids = sorted({newer for by in doubts.values() for newer in by})
    allowed = backend.passing(scope, filters, ids)
    newer = {i: m for i, m in backend.memories(scope, sorted(allowed)).items() if m.is_latest}
    return [replace(m, may_be_outdated=_newest(doubts.get(m.memory_id, {}), newer)) for m in ranked]


def _newest(by: dict[str, str], known: dict[str, Memory]) -> NewerText | None:
    found = [known[i] for i in by if i in known]
    if not found:
        return None
    newest = min(found, key=lambda m: (-(m.observed_at.timestamp() if m.observed_at else 0.0), m.memory_id))
    return NewerText(newest.memory_id, newest.text, newest.observed_at, by[newest.memory_id])
