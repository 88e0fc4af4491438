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
PAGE = 10
"""Results among which those that may be outdated come last."""


def defer_outdated(best: Sequence[Ranked]) -> list[Ranked]:
    """Returns candidates, best first, where of the best `PAGE` those come last that may be outdated.

    A result may be outdated where the newer memory that says so ranks above it: that one answers the question at
    least as well. Five results then have none of them, and ten still have all, because a third of such doubts are
    right. Searches of other times and of all versions, and those whose weights use no links, keep their order.

    Args:
        best: candidates, best first.
    """
    page, kept, deferred = best[:PAGE], list[Ranked](), list[Ranked]()
    newer, above = _newer_ids(page), set[str]()
    for query, candidate in page:
        may_be_outdated = not above.isdisjoint(newer.get(candidate.memory_id, ()))
        (deferred if may_be_outdated else kept).append((query, candidate))
        above.add(candidate.memory_id)
    return [*kept, *deferred, *best[PAGE:]]


def _newer_ids(page: Sequence[Ranked]) -> dict[str, set[str]]:
    """Returns the ids of the newer memories that may replace a candidate, by its id."""
    found: dict[str, set[str]] = {}
    for query in {query.scope: query for query, _ in page}.values():
        if query.weights.graph == 0 or query.filters.history or query.filters.as_of or query.filters.now:
            continue
        ids = [candidate.memory_id for at, candidate in page if at is query]
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
    return [_marked(m, found[m.memory_id], others) if m.memory_id in found else m for m in ranked]


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
