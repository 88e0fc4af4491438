"""Contradictions of a scope: two latest memories that cannot both be right, and that no UPDATE orders."""

from collections.abc import Mapping, Sequence

import polars as pl

from palimpsest.consolidation.conflicts import Conflict, stated_conflicts
from palimpsest.consolidation.fact_conflicts import fact_conflicts
from palimpsest.consolidation.model_conflicts import Reading
from palimpsest.consolidation.scope_memories import Memory, ScopeMemories
from palimpsest.core.scopes import ScopeKey
from palimpsest.query.request.one_line import shorten_text
from palimpsest.store.proposals import FoundBy, Proposal

MAX_BY_MODEL = 40
"""Contradictions of a scope that only the labeler finds, the surest first; conditional ones last."""
_BY_RULE = 0.9
_MAX_QUOTE = 160
_WHY: Mapping[str, str] = {
    "dynamic": "the later one may replace the earlier",
    "static": "the later one may be mistaken",
    "conditional": "both may be right, under different conditions",
    "undated": "which one is newer is not known",
}


def contradictions(scope: ScopeMemories, read: Sequence[Reading]) -> list[Proposal]:
    """Returns the contradictions of a scope, by id.

    Args:
        scope: the scope.
        read: the conflicts that the labeler found in pairs of this scope.
    """
    settled = _decided_pairs(scope)
    found: dict[frozenset[str], Proposal] = {}
    for conflict in (*stated_conflicts(scope), *fact_conflicts(scope)):
        pair = frozenset((conflict.first.memory_id, conflict.second.memory_id))
        if pair not in settled and pair not in found:
            found[pair] = _of_rule(scope, conflict)
    by_model = sorted(
        read,
        key=lambda r: (r.why == "conditional", -r.probability, r.pair.first.memory_id, r.pair.second.memory_id),
    )
    added = 0
    for reading in by_model:
        pair = frozenset((reading.pair.first.memory_id, reading.pair.second.memory_id))
        if added < MAX_BY_MODEL and pair not in found and pair not in settled:
            added += 1
            found[pair] = contradiction(scope.scope, *reading.pair[:2], reading.why, reading.probability)
    return sorted(found.values(), key=lambda p: p.proposal_id)


def _of_rule(scope: ScopeMemories, conflict: Conflict) -> Proposal:
    first, second = conflict.first, conflict.second
    if first.is_newer_than(second):
        first, second = second, first
        conflict = conflict._replace(values=(conflict.values[1], conflict.values[0]))
    is_ordered = second.is_newer_than(first)
    why = "conditional" if conflict.is_scoped else "dynamic" if is_ordered else "undated"
    slot = conflict.slot if "#" not in conflict.slot else "number"
    values = f"{slot}: {conflict.values[0]} or {conflict.values[1]}; "
    return contradiction(scope.scope, first, second, why, _BY_RULE, values)


def contradiction(
    scope: ScopeKey,
    first: Memory,
    second: Memory,
    why: str,
    confidence: float,
    values: str = "",
    found_by: FoundBy = "rules",
) -> Proposal:
    """Returns the proposal of a contradiction.

    Args:
        scope: of both memories.
        first: the older memory, where one is.
        second: the newer.
        why: dynamic, static, conditional or undated.
        confidence: 0 to 1.
        values: the slot and its two values, for people; empty where they are not known.
        found_by: rules or lm.
    """
    keep, drop = suggested_sides(first, second, why)
    quotes = " / ".join(shorten_text(m.text, _MAX_QUOTE) for m in (first, second))
    return Proposal(
        "contradiction",
        why,
        scope,
        (first.memory_id, second.memory_id),
        f"{values}{_WHY[why]}: {quotes}",
        round(confidence, 3),
        keep=keep,
        drop=drop,
        found_by=found_by,
    )


def suggested_sides(first: Memory, second: Memory, why: str) -> tuple[str, str]:
    """Returns (the memory to keep, the one to retire) of a contradiction; empty where both stay or nobody knows.

    Args:
        first: the older memory, where one is.
        second: the newer.
        why: the kind of contradiction.
    """
    if why == "conditional":
        return "", ""
    if first.trust != second.trust:
        kept, other = (first, second) if first.trust > second.trust else (second, first)
    elif why == "undated":
        return "", ""
    else:
        kept, other = (second, first) if why == "dynamic" else (first, second)
    return kept.memory_id, other.memory_id


def _decided_pairs(scope: ScopeMemories) -> frozenset[frozenset[str]]:
    """Returns the pairs of which a person gave the label."""
    rows = scope.tables["relations"].filter(pl.col("labeler") == "person").select("newer_id", "older_id")
    return frozenset(frozenset(pair) for pair in rows.iter_rows())
