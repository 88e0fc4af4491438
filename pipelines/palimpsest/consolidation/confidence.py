"""How sure a memory is, given what else its scope says: support raises it, contradiction lowers it.

In odds: `c / (1 - c)`, times 1.5 for each independent source that supports it, three at most, divided by 2 for each
that contradicts it, two at most. Independent is a memory of another document. The result is kept from .05 to .95, and a
memory that is surer already stays so where nothing contradicts it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from palimpsest.consolidation.scope_memories import Memory, ScopeMemories
from palimpsest.core.counted import counted
from palimpsest.store.proposals import Proposal

SUPPORT, MAX_SUPPORT = 1.5, 3
DOUBT, MAX_DOUBT = 2.0, 2
LOWEST, HIGHEST = 0.05, 0.95
MIN_DOUBT = 0.8
"""Confidence from which on a contradiction counts: for the memory that it would retire, or for both."""
MIN_CHANGE = 0.05
"""A smaller change is not proposed."""


def revised_confidence(confidence: float, supporting: int, contradicting: int) -> float:
    """Returns the confidence of a memory after counting sources, rounded to 2 decimals.

    Args:
        confidence: before, 0 to 1.
        supporting: independent sources that support it.
        contradicting: memories that contradict it.
    """
    before = min(max(confidence, LOWEST), HIGHEST)
    odds = before / (1 - before)
    odds *= SUPPORT ** min(supporting, MAX_SUPPORT) / DOUBT ** min(contradicting, MAX_DOUBT)
    after = min(max(odds / (1 + odds), LOWEST), HIGHEST)
    return round(max(after, confidence) if not contradicting else after, 2)


def confidence_changes(scope: ScopeMemories, conflicts: Iterable[Proposal]) -> Iterator[Proposal]:
    """Yields a proposal for each latest memory whose confidence others change.

    Args:
        scope: the scope.
        conflicts: its open contradictions.
    """
    doubts: dict[str, set[str]] = defaultdict(set)
    for proposal in conflicts:
        if proposal.why != "conditional" and proposal.confidence >= MIN_DOUBT:
            for memory_id in (proposal.drop,) if proposal.drop else proposal.memory_ids:
                doubts[memory_id] |= set(proposal.memory_ids) - {memory_id}
    supports = _supporting(scope)
    for memory in scope.latest:
        i = memory.memory_id
        by, against = sorted(supports.get(i, ()))[:MAX_SUPPORT], sorted(doubts.get(i, ()))[:MAX_DOUBT]
        after = revised_confidence(memory.confidence, len(by), len(against))
        if abs(after - memory.confidence) < MIN_CHANGE or not scope.is_looked_at(i):
            continue
        counts = ((len(by), "support"), (len(against), "contradict"))
        reasons = [f"{counted(n, 'memory')} {what}{'s' if n == 1 else ''} it" for n, what in counts if n]
        yield Proposal(
            "confidence",
            "contradicted" if against else "supported",
            scope.scope,
            (i, *by, *against),
            f"its confidence from {memory.confidence:.2f} to {after:.2f}: {', '.join(reasons)}",
            0.8,
            value=after,
        )


def _supporting(scope: ScopeMemories) -> Mapping[str, set[str]]:
    """Returns by memory id one memory of each other document that states the same fact."""
    found: dict[str, set[str]] = defaultdict(set)
    latest = {m.memory_id: m for m in scope.latest}
    facts = scope.tables["facts"]
    for memory_ids, is_negated, modality in facts.select("memory_ids", "is_negated", "modality").iter_rows():
        stating = [latest[i] for i in memory_ids if i in latest]
        if is_negated or modality not in (None, "stated") or len({m.document_id for m in stating}) < 2:
            continue
        for memory in stating:
            found[memory.memory_id] |= _one_of_each_document(memory, stating)
    return found


def _one_of_each_document(memory: Memory, stating: Iterable[Memory]) -> set[str]:
    first: dict[str, str] = {}
    for other in stating:
        if other.document_id != memory.document_id:
            first.setdefault(other.document_id, other.memory_id)
    return set(first.values())
