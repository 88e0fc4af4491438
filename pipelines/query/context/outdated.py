"""Results that other text speaks against: a newer memory that may replace them, or one that contradicts them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from palimpsest.query.ranking.merge import Ranked
from palimpsest.query.request.types import ContradictingText, Memory, NewerText, RankedMemory
from palimpsest.query.scope.served_scope import ServedScope

DOUBTED = "doubted"
"""Kind of reason that `palimpsest.memories.version_reasons` writes for a memory that a newer one may replace."""
CONTRADICTED = "contradicted"
"""Kind of reason for both memories of an open contradiction."""
OPEN_KINDS = (DOUBTED, CONTRADICTED)
"""Kinds of reasons that nobody decided yet: no part of a history."""
_Reason: TypeAlias = dict[str, Any]
POOL_FACTOR = 3  # candidates per result


def defer_outdated(best: Sequence[Ranked], k: int) -> list[Ranked]:
    """Returns candidates with those last that may be outdated, where the newer memory that says so ranks above them.

    The newer one then answers the question at least as well. Searches of other times and of all versions, and those
    whose weights use no links, keep their order.

    Args:
        best: candidates, best first; looked at are `POOL_FACTOR` times k.
        k: how many results are wanted.
    """
    pool, kept, deferred = best[: POOL_FACTOR * k], list[Ranked](), list[Ranked]()
    newer = _newer_ids(pool)
    above: set[str] = set()
    for ranked in pool:
        memory_id = ranked[1].memory_id
        may_be_outdated = not above.isdisjoint(newer.get(memory_id, ()))
        (deferred if may_be_outdated else kept).append(ranked)
        above.add(memory_id)
    return [*kept, *best[len(pool) :], *deferred]


def _newer_ids(pool: Sequence[Ranked]) -> dict[str, set[str]]:
    """Returns the ids of the newer memories that may replace a candidate, by its id."""
    found: dict[str, set[str]] = {}
    for query in {query.scope: query for query, _ in pool}.values():
        if query.weights.graph == 0 or query.filters.history or query.filters.as_of or query.filters.now:
            continue
        ids = [candidate.memory_id for at, candidate in pool if at is query]
        for memory_id, lines in query.served.backend.reasons(query.scope, ids).items():
            reasons = [json.loads(line) for line in lines]
            if by := {reason["by"] for reason in reasons if reason["kind"] == DOUBTED}:
                found[memory_id] = by
    return found


def mark_outdated(served: ServedScope, ranked: Sequence[RankedMemory]) -> list[RankedMemory]:
    """Returns the memories of one scope with `may_be_outdated` and `contradicted_by` set where other text says so.

    Of several other memories the newest is taken. One that the scope does not have, or that the filters exclude, is
    never shown; a memory that is no longer latest is not marked, because what replaced it is known. No rank changes.

    Args:
        served: the scope.
        ranked: results of the scope.
    """
    found: dict[str, list[_Reason]] = {}
    for memory_id, lines in served.reasons([m.memory_id for m in ranked if m.is_latest]).items():
        reasons = [reason for line in lines if (reason := json.loads(line))["kind"] in OPEN_KINDS]
        if reasons:
            found[memory_id] = reasons
    if not found:
        return list(ranked)
    passing = served.passing(sorted({reason["by"] for reasons in found.values() for reason in reasons}))
    others = {i: m for i, m in served.memories(sorted(passing)).items() if m.is_latest}
    return [_marked(m, found.get(m.memory_id, ()), others) for m in ranked]


def _marked(memory: RankedMemory, reasons: Iterable[_Reason], others: dict[str, Memory]) -> RankedMemory:
    by_kind: dict[str, list[_Reason]] = {kind: [] for kind in OPEN_KINDS}
    for reason in reasons:
        if reason["by"] in others:
            by_kind[reason["kind"]].append(reason)
    newer, contradicting = None, None
    if doubted := by_kind[DOUBTED]:
        reason, other = _newest(doubted, others)
        newer = NewerText(other.memory_id, other.text, other.observed_at, reason["relation_id"])
    if contradicted := by_kind[CONTRADICTED]:
        reason, other = _newest(contradicted, others)
        contradicting = ContradictingText(
            other.memory_id, other.text, other.observed_at, reason["relation_id"], reason["newer"], reason["why"]
        )
    return replace(memory, may_be_outdated=newer, contradicted_by=contradicting)


def _newest(reasons: Sequence[_Reason], others: dict[str, Memory]) -> tuple[_Reason, Memory]:
    def order(reason: _Reason) -> tuple[float, str]:
        observed = others[reason["by"]].observed_at
        return -(observed.timestamp() if observed else 0.0), reason["by"]

    reason = min(reasons, key=order)
    return reason, others[reason["by"]]
