"""Results where something newer was said of the same: the newer first, outdated parts cut, newer texts named."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import TypeVar

from palimpsest.query.context.quotes import quote_spans
from palimpsest.query.ranking.merge import OF_BEST
from palimpsest.query.ranking.rank import applies
from palimpsest.query.request.types import Memory, NewerText, RankedMemory, ShownMemory
from palimpsest.query.scope.scope_arrays import known_rows
from palimpsest.query.scope.scope_query import Ranked, ScopeQuery
from palimpsest.query.scope.served_scope import DISPUTED, LATER, OPEN_KINDS, PART, ReasonRecord, ServedScope
from palimpsest.text.sentences import merge_spans
from palimpsest.text.terms import terms

UNREADABLE = "unreadable"
"""The kind of reason of a memory whose source cannot be read now."""
_LIKELY_CHANGED = 0.1  # likelihood from which a result names another one that may have changed it
_LIKELY_ENDED = 0.3  # likelihood from which a newer memory ranks above the older: first results of golden sets gain
_LIKELY_LATER, _RELEVANT_LATER = 0.05, 0.005
"""What was said later is in a context from this likelihood on that it ended a likely result, or this relevance."""
_Shown = TypeVar("_Shown", bound=ShownMemory)


def reasons_of_latest(served: ServedScope, memories: Iterable[Memory]) -> dict[str, list[ReasonRecord]]:
    """Returns what newer memories end of, dispute or add to those that are latest, by id; nothing that is left out."""
    return served.reasons([m.memory_id for m in memories if m.is_latest])


def reasons_of_parts(served: ServedScope, ids: Sequence[str]) -> dict[str, list[ReasonRecord]]:
    """Returns what ended parts of memories, by id; nothing that is left out. Of other memories no text is read."""
    in_part = [i for i, found in served.all_reasons(ids).items() if any(r["kind"] == PART for r in found)]
    reasons = served.reasons(in_part) if in_part else {}
    parts = {i: [r for r in found if r["kind"] == PART] for i, found in reasons.items()}
    return {i: found for i, found in parts.items() if found}


def mark_changes(
    served: ServedScope, ranked: Sequence[RankedMemory], reasons: Mapping[str, Sequence[ReasonRecord]]
) -> list[RankedMemory]:
    """Returns results of a scope as they are shown.

    A part that a newer memory ended is cut out of the text, unless all versions are wanted. `disputed_by` is the newest
    memory that disputes a result, and `later` has what else may have changed it. What the filters leave out is not
    named, and cuts nothing.

    Args:
        served: the scope.
        ranked: results of the scope.
        reasons: of them, as `reasons_of_latest` returns them.
    """
    return _mark(served, ranked, reasons, is_cut=not served.filters.history)


def likely_changes(memory: ShownMemory, results: Mapping[str, Memory]) -> list[NewerText]:
    """Returns which results, by id, may have changed a memory without disputing it, newest first."""
    likely = [n for n in memory.later if n.why == LATER and (n.likelihood or 0.0) >= _LIKELY_CHANGED]
    return [n for n in likely if (other := results.get(n.memory_id)) and not is_beside(memory, other)]


def is_beside(memory: Memory, other: Memory | None) -> bool:
    """Returns whether two memories are passages of one document, said at one time."""
    if other is None or memory.unit == "turn":
        return False
    return (other.document_id, other.observed_at) == (memory.document_id, memory.observed_at)


def name_changes(
    served: ServedScope,
    memories: Mapping[str, Memory],
    reasons: Mapping[str, Sequence[ReasonRecord]],
    is_cut: bool = False,
) -> dict[str, ShownMemory]:
    """Returns memories of a scope, by id, with what disputes them and what was said later.

    Args:
        served: the scope.
        memories: of the scope, by id.
        reasons: of them, as `reasons_of_latest` returns them.
        is_cut: whether parts that newer memories ended are cut out of their texts.
    """
    shown = [ShownMemory(**vars(m)) for m in memories.values()]
    return {m.memory_id: m for m in _mark(served, shown, reasons, is_cut)}


def disputes_of(served: ServedScope, memories: Mapping[str, Memory]) -> dict[str, NewerText]:
    """Returns the newest memory that disputes each of some memories of a scope, by the id of the disputed one."""
    shown = name_changes(served, memories, reasons_of_latest(served, memories.values()))
    return {i: m.disputed_by for i, m in shown.items() if m.disputed_by}


def without_ended_parts(
    memories: Mapping[str, Memory], reasons: Mapping[str, Sequence[ReasonRecord]]
) -> dict[str, Memory]:
    """Returns memories, by id, without the parts of their texts that newer ones ended.

    Args:
        memories: of one scope.
        reasons: of them, as `reasons_of_latest` returns them.
    """
    out = dict(memories)
    for i in memories.keys() & reasons.keys():
        spans = _spans(r for r in reasons[i] if r["kind"] == PART)
        if spans and (kept := kept_spans(out[i].text, spans)):
            shown = {"text": quote_spans(out[i].text, kept), "token_count": 0, "kept": kept}
            out[i] = ShownMemory(**vars(out[i]) | shown)
    return out


def newer_first(ranked: Sequence[Ranked], k: int) -> list[Ranked]:
    """Returns candidates in their order, but what disputes another before it, whatever ranked them.

    What ended a part of another is before it where more of the question's words are in that part than in the rest; what
    may have ended another is before it where it is relevant too.

    Args:
        ranked: candidates of all scopes, best first.
        k: results that are shown: only their parts are read.
    """
    out = list(ranked)
    for query in {id(q): q for q, _ in ranked}.values():
        view = query.served.view() if applies(query) else None
        if view is None:
            continue
        disputes = view.links().disputes
        row_of = known_rows(view.ids, [c.memory_id for q, c in out if q is query])
        relevance = {c.memory_id: c.relevance for q, c in ranked if q is query}
        shown = [c.memory_id for q, c in ranked[:k] if q is query]
        ended = _ended_for_question(query, shown)
        later = _likely_later(query, shown, relevance)
        for older in [pair for pair in out if pair[0] is query]:
            by = {str(view.ids[newer]) for newer, _ in disputes.get(row_of[older[1].memory_id], ())}
            by |= ended.get(older[1].memory_id, set()) | later.get(older[1].memory_id, set())
            if not by:
                continue
            for newer in [pair for pair in out[out.index(older) + 1 :] if pair[0] is query and pair[1].memory_id in by]:
                out.remove(newer)
                out.insert(out.index(older), newer)
    return out


def _ended_for_question(query: ScopeQuery, ids: Sequence[str]) -> dict[str, set[str]]:
    """Returns what ended the part of a memory that a question is about, by the id of that memory."""
    reasons = reasons_of_parts(query.served, ids)
    memories = query.served.memories(list(reasons)) if reasons else {}
    return {i: {r["by"] for r in reasons[i] if _is_about(query, memory, r["part"])} for i, memory in memories.items()}


def _likely_later(query: ScopeQuery, ids: Sequence[str], relevance: Mapping[str, float]) -> dict[str, set[str]]:
    """Returns what may have ended memories and would be a result beside them, by the id of each."""

    def is_likely(reason: ReasonRecord, older: str) -> bool:
        if reason["kind"] != LATER or (reason["likelihood"] or 0.0) < _LIKELY_ENDED:
            return False
        return relevance.get(reason["by"], 0.0) >= OF_BEST * relevance[older]

    reasons = query.served.all_reasons(ids)
    return {i: {r["by"] for r in found if is_likely(r, i)} for i, found in reasons.items()}


def _is_about(query: ScopeQuery, memory: Memory, part: Sequence[tuple[int, int]]) -> bool:
    """Returns whether more of a question's words are in a part of a memory's text than in the rest."""
    wanted, text = set(query.terms), memory.text
    of_part, of_rest = (
        wanted.intersection(terms(" ".join(text[a:b] for a, b in spans), memory.language))
        for spans in (part, kept_spans(text, part))
    )
    return len(of_part) > len(of_rest)


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


def _mark(
    served: ServedScope, memories: Sequence[_Shown], reasons: Mapping[str, Sequence[ReasonRecord]], is_cut: bool
) -> list[_Shown]:
    memories = [_with_source(m, reasons.get(m.memory_id, ())) for m in memories]
    found = {m.memory_id: [r for r in reasons.get(m.memory_id, ()) if r["kind"] in OPEN_KINDS] for m in memories}
    found = {i: of_memory for i, of_memory in found.items() if of_memory}
    if not found:
        return memories
    known = served.memories(sorted({reason["by"] for of_memory in found.values() for reason in of_memory}))
    return [_marked(m, found[m.memory_id], known, is_cut) if m.memory_id in found else m for m in memories]


def _with_source(memory: _Shown, reasons: Sequence[ReasonRecord]) -> _Shown:
    is_unreadable = any(r["kind"] == UNREADABLE for r in reasons)
    return replace(memory, source_unreadable=True) if is_unreadable else memory


def _marked(memory: _Shown, reasons: Sequence[ReasonRecord], known: Mapping[str, Memory], is_cut: bool) -> _Shown:
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
            tuple((int(start), int(end)) for start, end in r.get("part") or ()),
        )
        for r in reasons
        for m in [known[r["by"]]]
    ]
    return sorted(found, key=lambda n: (-(n.observed_at.timestamp() if n.observed_at else 0.0), n.memory_id))


def said_later(
    ranked: Sequence[RankedMemory], known: Mapping[str, Memory], likely: Set[str], relevance: Mapping[str, float]
) -> dict[str, list[Memory]]:
    """Returns for results what was said later about the same and is no result itself, in order of time.

    What neither disputes nor may have ended a likely result has to be about the question.

    Args:
        ranked: results.
        known: memories by id.
        likely: ids of results that are likely evidence.
        relevance: of the best memories, by id.
    """
    results = {m.memory_id for m in ranked}
    found: dict[str, list[Memory]] = {}
    for memory in ranked:
        later = [
            n
            for n in memory.later
            if n.why != LATER
            or (
                memory.memory_id in likely
                and (
                    relevance.get(n.memory_id, 0.0) >= _RELEVANT_LATER
                    or ((n.likelihood or 0.0) >= _LIKELY_LATER and not is_beside(memory, known.get(n.memory_id)))
                )
            )
        ]
        named = [*([memory.disputed_by] if memory.disputed_by else []), *later]
        ids = [n.memory_id for n in reversed(named) if n.memory_id not in results and n.memory_id in known]
        if ids:
            found[memory.memory_id] = [known[i] for i in ids]
    return found
