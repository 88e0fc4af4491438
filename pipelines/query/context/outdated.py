"""Results that other text speaks against: a newer memory that may replace them, or one that contradicts them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from palimpsest.query.ranking.merge import Ranked
from palimpsest.query.request.types import ContradictingText, Memory, NewerText, RankedMemory
from palimpsest.query.scope.served_scope import ReasonRecord, ServedScope

DOUBTED = "doubted"
"""Kind of reason that `palimpsest.memories.version_reasons` writes for a memory that a newer one may replace."""
CONTRADICTED = "contradicted"
"""Kind of reason for both memories of an open contradiction."""
OPEN_KINDS = (DOUBTED, CONTRADICTED)
"""Kinds of reasons that nobody decided yet: no part of a history."""
PAGE = 10
"""Results among which those that may be outdated come last."""


def defer_outdated(best: Sequence[Ranked]) -> list[Ranked]:
    """Returns candidates, best first, where of the best `PAGE` those come last that may be outdated.

    A result may be outdated where the newer memory that says so ranks above it: that one answers the question at
    least as well. Five results leave them out where there are others, and ten have all, because a third of such doubts
    are right. Searches of other times and of all versions, and those whose weights use no links, keep their order.

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
        for memory_id, reasons in query.served.all_reasons(ids).items():
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
    reasons = served.reasons([m.memory_id for m in ranked if m.is_latest])
    undecided = {i: [r for r in of_memory if r["kind"] in OPEN_KINDS] for i, of_memory in reasons.items()}
    found = {i: of_memory for i, of_memory in undecided.items() if of_memory}
    if not found:
        return list(ranked)
    passing = served.passing(sorted({reason["by"] for of_memory in found.values() for reason in of_memory}))
    others = {i: m for i, m in served.memories(sorted(passing)).items() if m.is_latest}
    return [_marked(m, found[m.memory_id], others) if m.memory_id in found else m for m in ranked]


def _marked(memory: RankedMemory, reasons: Iterable[ReasonRecord], others: dict[str, Memory]) -> RankedMemory:
    by_kind: dict[str, list[ReasonRecord]] = {kind: [] for kind in OPEN_KINDS}
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


def _newest(reasons: Sequence[ReasonRecord], others: dict[str, Memory]) -> tuple[ReasonRecord, Memory]:
    def order(reason: ReasonRecord) -> tuple[float, str]:
        observed = others[reason["by"]].observed_at
        return -(observed.timestamp() if observed else 0.0), reason["by"]

    reason = min(reasons, key=order)
    return reason, others[reason["by"]]
