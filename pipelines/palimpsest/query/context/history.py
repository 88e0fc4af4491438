"""The history of one fact: each of its versions, until when it was valid, what replaced it, and why."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from palimpsest.query.context.changes import OPEN_KINDS, name_changes
from palimpsest.query.request.types import Memory, NewerText, PremiseText
from palimpsest.query.scope.served_scope import ReasonRecord, ServedScope

DERIVED = "derived"
"""Kind of reason that `palimpsest.memories.version_reasons` writes for each premise of a memory."""


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
        wanted = {n for m in known.values() if (n := m.superseded_by) and n not in known}
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
    reasons = [_reason(record, memory, known) for record in records if record["kind"] not in (*OPEN_KINDS, DERIVED)]
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
