"""Why a memory is in an answer: its base score, and the links that lifted it, in words; notebooks draw the links."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from palimpsest.index.index_format import DISPUTE
from palimpsest.query.context.changes import UNREADABLE, name_changes
from palimpsest.query.ranking.scoring import uses_priors, weighted_terms
from palimpsest.query.request.types import Link, Memory, NewerText, PremiseText, RankedMemory, shorten_text
from palimpsest.query.scope.scope_arrays import rows_of
from palimpsest.query.scope.scope_graph import PREMISE
from palimpsest.query.scope.scope_query import Candidate, Ranked, ScopeQuery
from palimpsest.query.scope.served_scope import OPEN_KINDS, ReasonRecord, ServedScope

# The premises of derived memories, read through the filters of the search.

DERIVED = "derived"
"""Kind of reason that `palimpsest.memories.version_reasons` writes for each premise of a memory."""
_NO_HISTORY = (*OPEN_KINDS, DERIVED, UNREADABLE)


def premise_texts(served: ServedScope, ids: Sequence[str]) -> dict[str, tuple[PremiseText, ...]]:
    """Returns all premises that may be shown of those memories among `ids` that are derived, oldest first.

    A premise that was retired is named too, because the memory that follows from it may no longer be true.
    """
    relations: dict[str, dict[str, str]] = {}
    for memory_id, reasons in served.reasons(sorted(set(ids))).items():
        if derived := {reason["by"]: reason["relation_id"] for reason in reasons if reason["kind"] == DERIVED}:
            relations[memory_id] = derived
    texts = served.memories(sorted({i for premises in relations.values() for i in premises})) if relations else {}
    found = {}
    for memory_id, premises in relations.items():
        shown = [texts[i] for i in premises if i in texts]
        shown.sort(key=lambda m: (m.observed_at.timestamp() if m.observed_at else 0.0, m.memory_id))
        found[memory_id] = tuple(
            PremiseText(m.memory_id, m.text, m.observed_at, m.is_latest, premises[m.memory_id]) for m in shown
        )
    return found


# The history of one fact: each of its versions, until when it was valid, what replaced it, and why.

_MAX_VERSIONS = 1000  # of one fact that are followed to the newest


@dataclass(frozen=True)
class Reason:
    """Why a memory was retired, or was not.

    Attributes:
        kind: `updated`, `edited`, `replaced`, `vanished` or `kept`: see `palimpsest.memories.version_reasons`.
        by: id of the memory or document version that replaced it, or that a person decided does not.
        relation_id: of the relation; `palimpsest undo` takes it.
        label: of the relation.
        confidence: of the label.
        labeler: who decided; `person` for decisions of people.
        rule: the rule of the labeler.
        was: what changed, in the words of the older text.
        now: the same, in the words of the newer text.
        newer_quote: the evidence in the newer memory.
        older_quote: the evidence in this memory.
        decided_at: when a person decided, ISO 8601.
        uri: of the document that replaced its own.
        title: of that document.
        at: date of that document, ISO 8601.
    """

    kind: str
    by: str | None = None
    relation_id: str | None = None
    label: str | None = None
    confidence: float | None = None
    labeler: str | None = None
    rule: str | None = None
    was: str | None = None
    now: str | None = None
    newer_quote: str | None = None
    older_quote: str | None = None
    decided_at: str | None = None
    uri: str | None = None
    title: str | None = None
    at: str | None = None


@dataclass(frozen=True)
class Version:
    """A version of a fact; `why` it is not latest, in `kept` what people decided does not replace it, its premises.

    `disputed_by` is the newest memory that disputes it, None where none does or it is not latest.
    """

    memory: Memory
    why: Reason | None = None
    kept: tuple[Reason, ...] = ()
    premises: tuple[PremiseText, ...] = ()
    disputed_by: NewerText | None = None


def histories(served: ServedScope, ids: Sequence[str]) -> dict[str, tuple[Version, ...]]:
    """Returns, for each of `ids` that the scope has, all versions of its fact, newest first, itself among them.

    Versions are what replaced the memory, up to the newest, and all that this one replaced, through others too.
    """
    known = served.memories(sorted(set(ids)))
    newest = _newest(served, known)
    older = served.history(sorted({*newest.values()}))
    for chain in older.values():
        known |= {m.memory_id: m for m in chain}
    reasons, premises = served.reasons(sorted(known)), premise_texts(served, sorted(known))
    shown = name_changes(served, {i: known[i] for i in newest.values()}, reasons)
    out = {}
    for memory_id in ids:
        if memory_id in newest:
            first = newest[memory_id]
            chain = [known[first], *older.get(first, [])]
            versions = [_version(m, reasons.get(m.memory_id, ()), known) for m in chain]
            versions[0] = replace(versions[0], disputed_by=shown[first].disputed_by)
            out[memory_id] = tuple(replace(v, premises=premises.get(v.memory.memory_id, ())) for v in versions)
    return out


def _newest(served: ServedScope, known: dict[str, Memory]) -> dict[str, str]:
    """Returns the newest version of each memory by id; adds the versions between to `known`."""
    top = {i: i for i in known}
    for _ in range(_MAX_VERSIONS):
        wanted = served.replacing_ids(known.values()) - known.keys()
        found = served.memories(sorted(wanted)) if wanted else {}
        known |= found
        if not found:
            break
    for memory_id in top:
        seen = {memory_id}
        while (by := known[top[memory_id]].superseded_by) in known and by not in seen:
            seen.add(by)
            top[memory_id] = by
    return top


def _version(memory: Memory, records: Iterable[ReasonRecord], known: Mapping[str, Memory]) -> Version:
    reasons = [_reason(record, memory, known) for record in records if record["kind"] not in _NO_HISTORY]
    why = next((r for r in reasons if r.kind != "kept"), None)
    return Version(memory, why, tuple(r for r in reasons if r.kind == "kept"))


def _reason(record: ReasonRecord, older: Memory, known: Mapping[str, Memory]) -> Reason:
    newer = known.get(record.get("by") or "")
    fields: dict[str, Any] = {n: record[n] for n in Reason.__dataclass_fields__ if n in record}
    fields |= {"was": _as_text(record.get("from")), "now": _as_text(record.get("to"))}
    return Reason(
        **fields, older_quote=_quote(older, record.get("older")), newer_quote=_quote(newer, record.get("newer"))
    )


def _as_text(value: Any) -> str | None:
    return None if value is None else str(value)


def _quote(memory: Memory | None, span: Any) -> str | None:
    """Returns the text of a span of evidence, where it is one."""
    if memory is None or not isinstance(span, list) or len(span) != 2:
        return None
    return memory.text[span[0] : span[1]] or None


def describe_reason(reason: Reason) -> str:
    """Returns in words what replaced a memory, and why."""
    if reason.kind == "vanished":
        return "its source is there no more"
    if reason.kind == "edited":
        return f"no longer in {reason.uri or 'its source'}, which was edited{_on_day(reason.at)}"
    if reason.kind == "replaced":
        return f"its document was replaced by {reason.uri}{_on_day(reason.at)}: stated, not inferred"
    by = f"[{reason.by}]"
    if reason.labeler == "person":
        verb = "replaced by" if reason.kind == "updated" else "not replaced by"
        return f"{verb} {by}: a person said so{_on_day(reason.decided_at)}; relation {reason.relation_id}"
    if reason.relation_id is None:
        return f"replaced by {by}"
    sure = f" ({reason.confidence:.2f} sure)" if reason.confidence is not None else ""
    found = f"{_describe_evidence(reason)}, found by the labeler {reason.labeler}{sure}"
    return f"replaced by {by}: {found}; relation {reason.relation_id}"


def _describe_evidence(reason: Reason) -> str:
    if reason.was and reason.now:
        return f"{reason.was!r} became {reason.now!r}"
    if reason.was:
        return f"it names {reason.was!r} as over"
    rule = {"model": "it reads as an update", "lm": "it reads as an update", None: "it is an update"}
    return rule.get(reason.rule, f"it says {str(reason.rule)!r}")


def _on_day(written: str | None) -> str:
    return f" on {written[:10]}" if written else ""


_LABEL_CHARS = 60
_ADDED_KINDS = ("near", "title", "pair", "topic", "about")
"""Kinds of links whose weight is their contribution; the weight of any other is the strength of the link."""
_CONCEALED = "\u2026"  # in place of a name that may not be shown
_MIN_WEIGHT = 0.01  # smaller weights look the same
_IN_WORDS = {
    "question": "the question names its title, {via!r}",
    "title": "{source} names its title, {via!r}, and both together answer more",
    "names": "it shares {via!r} with {source}",
    "entity": "it shares {via!r} with {source}",
    "topic": "it belongs to the topic {via!r}",
    "about": "the question asks about {via!r}, which it names",
    "member": "the question asks for all of a kind, and it describes one",
    "near": "it was said near {source}",
    "pair": "with {source}, which shares {via!r}, it answers more than either alone",
    "UPDATE": "it replaced {source}",
    DISPUTE: "it may have ended {source}",
    "EXTEND": "one of it and {source} adds to the other",
    "DERIVE": "it follows from {source}",
    PREMISE: "{source} follows from it",
}


def explain_results(
    memories: Sequence[RankedMemory], best: Sequence[Ranked], queries: Sequence[ScopeQuery]
) -> tuple[list[RankedMemory], dict[str, str]]:
    """Returns results with why they are there, and the texts of the memories that links came from, by id.

    Args:
        memories: the results.
        best: the same, each with the query of its scope, as they were ranked.
        queries: of every scope that was searched.
    """
    texts: dict[str, str] = {}
    explained: dict[str, _Explanation] = {}
    for query in queries:
        candidates = [c for q, c in best if q.scope == query.scope]
        ends = _linked_memories(query, [c.path for c in candidates])
        texts |= {i: m.text for i, m in ends.items()}
        explained |= _explain_scope(query, candidates, ends)
    labels = memory_labels([c.memory_id for _, c in best], texts)
    out = []
    for memory, (_, candidate) in zip(memories, best, strict=True):
        found = explained[candidate.memory_id]
        why = _describe(candidate, found, labels)
        out.append(replace(memory, path=found.path, time_score=found.time_score, premises=found.premises, why=why))
    return out, texts


def describe_link(link: Link, labels: Mapping[str, str]) -> str:
    """Returns a link in words, with its weight.

    Args:
        link: the link.
        labels: what to call memories, by id.
    """
    source = labels.get(link.source, link.source)
    words = _IN_WORDS.get(link.kind, "{kind} from {source}").format(kind=link.kind, via=link.via, source=source)
    if link.kind in _ADDED_KINDS:
        return f"{words} ({link.weight:+.2f})"
    weight = f"{link.weight:.2f}" if link.weight >= _MIN_WEIGHT else f"under {_MIN_WEIGHT}"
    return f"{words} (weight {weight})"


def memory_labels(best: Sequence[str], texts: Mapping[str, str]) -> dict[str, str]:
    """Returns what to call memories: a result by its rank, any other by the beginning of its text."""
    labels = {i: f"\u201c{shorten_text(text, _LABEL_CHARS)}\u201d" for i, text in texts.items()}
    return labels | {memory_id: f"result {rank}" for rank, memory_id in enumerate(best, 1)}


class _Explanation(NamedTuple):
    """The visible links of a result, how well its times fit the period, its priors in words, and its premises."""

    path: tuple[Link, ...]
    time_score: float | None
    priors: str
    premises: tuple[PremiseText, ...]


def _explain_scope(
    query: ScopeQuery, candidates: Sequence[Candidate], ends: Mapping[str, Memory]
) -> dict[str, _Explanation]:
    visible = ends if query.served.may_conceal() else None
    ids = [c.memory_id for c in candidates]
    times, priors, premises = _time_scores(query, ids), _priors_in_words(query, ids), premise_texts(query.served, ids)
    return {
        c.memory_id: _Explanation(
            _visible_path(c.path, visible),
            times.get(c.memory_id),
            priors.get(c.memory_id, ""),
            premises.get(c.memory_id, ()),
        )
        for c in candidates
    }


def _describe(candidate: Candidate, found: _Explanation, labels: Mapping[str, str]) -> str:
    """Returns one line on why a memory has its rank."""
    time = ("" if found.time_score is None else f", time {found.time_score:.2f}") + found.priors
    alone = f"{candidate.base:.2f} by itself (meaning {candidate.vector:.2f}, words {candidate.words:.2f}{time})"
    gained = round(candidate.score, 2) - round(candidate.base, 2)  # of rounded values, so that the shown sum is right
    if not found.path and abs(gained) < _MIN_WEIGHT / 2:
        return alone
    others = "over links" if found.path else "as others gain less over links"
    over = f"{gained:+.2f}, as others gain more over links" if gained < 0 else f"{gained:+.2f} {others}"
    links = ", then ".join(describe_link(link, labels) for link in found.path)
    return f"{alone}; {over}{links and f': {links}'}; {candidate.score:.2f} in all"


def _linked_memories(query: ScopeQuery, paths: Iterable[Sequence[Link]]) -> dict[str, Memory]:
    """Returns the memories at the ends of the links of some paths, by id."""
    ids = {i for path in paths for link in path for i in (link.source, link.target) if i != "question"}
    return query.served.memories(sorted(ids))


def _visible_path(path: Sequence[Link], visible: Mapping[str, Memory] | None) -> tuple[Link, ...]:
    """Returns links without names that no memory at their ends contains: a name may come from one left out.

    Args:
        path: the links.
        visible: the memories that may be shown, by id; None where all may.
    """
    if visible is None:
        return tuple(path)

    def contains(memory: Memory, name: str) -> bool:
        return any(name.casefold() in (t or "").casefold() for t in (memory.text, memory.title, memory.speaker))

    ends = [[visible[i] for i in (link.source, link.target) if i in visible] for link in path]
    return tuple(
        link if not link.via or any(contains(m, link.via) for m in near) else link._replace(via=_CONCEALED)
        for link, near in zip(path, ends, strict=True)
    )


def _time_scores(query: ScopeQuery, ids: Sequence[str]) -> dict[str, float]:
    """Returns how well the times of memories fit the question's period; empty where it has none."""
    view = query.served.view() if query.period is not None else None
    if query.period is None or view is None:
        return {}
    overlaps = view.periods().fit_scores(query.period, len(view.ids))
    return dict(zip(ids, overlaps[rows_of(view.ids, ids)].tolist(), strict=True))


def _priors_in_words(query: ScopeQuery, ids: Sequence[str]) -> dict[str, str]:
    """Returns, by id, each prior of memories that has a weight."""
    view = query.served.view() if ids and uses_priors(query.weights) else None
    if view is None:
        return {}
    rows = rows_of(view.ids, ids)
    terms = weighted_terms(view.priors(), query.weights, query.filters.query_time)
    parts = [(name, values[rows].tolist()) for name, _, values in terms]
    return {i: "".join(f", {name} {values[at]:.2f}" for name, values in parts) for at, i in enumerate(ids)}
