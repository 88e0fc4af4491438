"""Results that newer text may contradict: a retirement that a labeler was not certain of, with the newer memory."""

import json
from collections.abc import Sequence
from dataclasses import replace

from palimpsest.query.request.types import Memory, NewerText, RankedMemory
from palimpsest.query.scope.served_scope import ServedScope

DOUBTED = "doubted"
"""Kind of reason that `palimpsest.memories.version_reasons` writes for such a pair."""


def mark_outdated(served: ServedScope, ranked: Sequence[RankedMemory]) -> list[RankedMemory]:
    """Returns the memories of one scope with `may_be_outdated` set where a newer memory may contradict them.

    Of several newer ones the newest is taken. One that the scope does not have, or that the filters exclude, is never
    shown; a memory that is no longer latest is not marked, because what replaced it is known.

    Args:
        served: the scope.
        ranked: results of the scope.
    """
    doubts: dict[str, dict[str, str]] = {}
    for memory_id, lines in served.reasons([m.memory_id for m in ranked if m.is_latest]).items():
        doubted = [reason for line in lines if (reason := json.loads(line))["kind"] == DOUBTED]
        if doubted:
            doubts[memory_id] = {reason["by"]: reason["relation_id"] for reason in doubted}
    if not doubts:
        return list(ranked)
    passing = served.passing(sorted({newer for by in doubts.values() for newer in by}))
    newer = {i: m for i, m in served.memories(sorted(passing)).items() if m.is_latest}
    return [replace(m, may_be_outdated=_newest(doubts.get(m.memory_id, {}), newer)) for m in ranked]


def _newest(relations: dict[str, str], memories: dict[str, Memory]) -> NewerText | None:
    found = [memories[i] for i in relations if i in memories]
    if not found:
        return None
    newest = min(found, key=lambda m: (-(m.observed_at.timestamp() if m.observed_at else 0.0), m.memory_id))
    return NewerText(newest.memory_id, newest.text, newest.observed_at, relations[newest.memory_id])
