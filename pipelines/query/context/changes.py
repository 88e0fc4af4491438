"""Results as they are shown where something newer was said of the same: outdated parts are cut, newer texts named."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from palimpsest.query.context.quotes import quote_spans
from palimpsest.query.request.types import Memory, NewerText, RankedMemory, ShownMemory
from palimpsest.query.scope.served_scope import ReasonRecord, ServedScope
from palimpsest.text.clauses import merge_spans

PART, DISPUTED, LATER = OPEN_KINDS = ("part", "disputed", "later")
"""Kinds of reasons that `palimpsest.memories.version_reasons` writes for a memory that is still latest: no history."""


def mark_changes(served: ServedScope, ranked: Sequence[RankedMemory]) -> list[RankedMemory]:
    """Returns results of a scope as they are shown.

    A part that a newer memory ended is cut out of the text, unless all versions are wanted. `disputed_by` is the newest
    memory that disputes a result, and `later` has what else may have changed it. What the filters leave out is not
    named, and cuts nothing.

    Args:
        served: the scope.
        ranked: results of the scope.
    """
    reasons = served.reasons([m.memory_id for m in ranked if m.is_latest])
    found = {i: [r for r in of_memory if r["kind"] in OPEN_KINDS] for i, of_memory in reasons.items()}
    found = {i: of_memory for i, of_memory in found.items() if of_memory}
    if not found:
        return list(ranked)
    known = served.memories(sorted({reason["by"] for of_memory in found.values() for reason in of_memory}))
    is_cut = not served.filters.history
    return [_marked(m, found[m.memory_id], known, is_cut) if m.memory_id in found else m for m in ranked]


def without_ended_parts(served: ServedScope, memories: Mapping[str, Memory]) -> dict[str, Memory]:
    """Returns memories of a scope, by id, without the parts of their texts that newer ones ended.

    Nothing is cut where all versions are wanted, nor by what the filters leave out.
    """
    if served.filters.history:
        return dict(memories)
    reasons = served.reasons([i for i, m in memories.items() if m.is_latest])
    parts = {i: found for i, rows in reasons.items() if (found := [r for r in rows if r["kind"] == PART])}
    known = served.memories(sorted({r["by"] for found in parts.values() for r in found})) if parts else {}
    out = dict(memories)
    for i, found in parts.items():
        if kept := kept_spans(out[i].text, _spans(r for r in found if r["by"] in known)):
            shown = {"text": quote_spans(out[i].text, kept), "token_count": 0, "kept": kept}
            out[i] = ShownMemory(**vars(out[i]) | shown)
    return out


def kept_spans(text: str, parts: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Returns the spans of a text outside of its outdated parts, without white space at their ends."""
    kept: list[tuple[int, int]] = []
    at = 0
    for start, end in [*merge_spans([(max(0, s), min(len(text), e)) for s, e in parts]), (len(text), len(text))]:
        piece = text[at:start]
        if piece.strip():
            first = at + len(piece) - len(piece.lstrip())
            kept.append((first, first + len(piece.strip())))
        at = end
    return tuple(kept)


def _marked(
    memory: RankedMemory, reasons: Sequence[ReasonRecord], known: Mapping[str, Memory], is_cut: bool
) -> RankedMemory:
    reasons = [r for r in reasons if r["by"] in known]
    parts = [r for r in reasons if r["kind"] == PART]
    spans = _spans(parts)
    disputed = _newest_first([r for r in reasons if r["kind"] == DISPUTED], known)
    later = _newest_first([r for r in reasons if r["kind"] != DISPUTED], known)
    kept = kept_spans(memory.text, spans) if spans and is_cut else ()
    return replace(
        memory,
        text=quote_spans(memory.text, kept) if kept else memory.text,
        kept=kept,
        disputed_by=disputed[0] if disputed else None,
        later=tuple(disputed[1:] + later),
    )


def _spans(parts: Iterable[ReasonRecord]) -> list[tuple[int, int]]:
    return [(int(start), int(end)) for reason in parts for start, end in reason["part"]]


def _newest_first(reasons: Iterable[ReasonRecord], known: Mapping[str, Memory]) -> list[NewerText]:
    found = [
        NewerText(
            m.memory_id,
            m.text,
            m.observed_at,
            r.get("relation_id", ""),
            str(r.get("why") or r["kind"]),
            r.get("likelihood", r.get("confidence")),
        )
        for r in reasons
        for m in [known[r["by"]]]
    ]
    return sorted(found, key=lambda n: (-(n.observed_at.timestamp() if n.observed_at else 0.0), n.memory_id))
