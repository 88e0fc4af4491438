"""The history of one fact: each of its versions, until when it held, what took its place, and why."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from palimpsest.query.context.outdated import DOUBTED
from palimpsest.query.ranking.backend import Backend
from palimpsest.query.request.types import Memory, Scope

_FARTHEST = 1000  # versions of one fact that are followed to the newest


@dataclass(frozen=True)
class Reason:
    """Why a memory was retired, or was not.

    Attributes:
        kind: `updated`, `edited`, `replaced`, `vanished` or `kept`: see `palimpsest.memories.version_reasons`.
        by: id of the memory or document version that took its place, or that a person said does not.
        relation_id: of the relation; `palimpsest undo` takes it.
        label: of the relation.
        confidence: of the label.
        labeler: who said so; `person` for what people decided.
        rule: what it was seen by.
        was: what changed, as the older text says it.
        now: the same, as the newer text says it.
        newer_quote: what the newer memory says to it.
        older_quote: what this memory says to it.
        decided_at: when a person decided, ISO 8601.
        uri: of the document that took its place.
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
    """A version of a fact; `why` says why it is not latest, `kept` what people said does not replace it."""

    memory: Memory
    why: Reason | None = None
    kept: tuple[Reason, ...] = ()


def histories(backend: Backend, scope: Scope, ids: Sequence[str]) -> dict[str, tuple[Version, ...]]:
    """Returns, for each of `ids` that the scope holds, all versions of its fact, newest first, itself among them.

    Versions are what replaced the memory, up to the newest, and all that this one replaced, through others too.
    """
    known = backend.memories(scope, sorted(set(ids)))
    newest = _newest(backend, scope, known)
    older = backend.history(scope, sorted({*newest.values()}))
    for chain in older.values():
        known |= {m.memory_id: m for m in chain}
    told = backend.reasons(scope, sorted(known))
    out = {}
    for memory_id in ids:
        if memory_id in newest:
            first = newest[memory_id]
            chain = [known[first], *older.get(first, [])]
            out[memory_id] = tuple(_version(m, told.get(m.memory_id, ()), known) for m in chain)
    return out


def _newest(backend: Backend, scope: Scope, known: dict[str, Memory]) -> dict[str, str]:
    """Returns the newest version of each memory by id; adds to `known` what is met on the way."""
    top = {i: i for i in known}
    for _ in range(_FARTHEST):
        wanted = {n for m in known.values() if (n := m.superseded_by) and n not in known}
        found = backend.memories(scope, sorted(wanted)) if wanted else {}
        known |= found
        if not found:
            break
    for memory_id in top:
        seen = {memory_id}
        while (by := known[top[memory_id]].superseded_by) in known and by not in seen:
            seen.add(by)
            top[memory_id] = by
    return top


def _version(memory: Memory, told: Iterable[str], known: Mapping[str, Memory]) -> Version:
    found = [_reason(line, memory, known) for t in told if (line := json.loads(t))["kind"] != DOUBTED]
    why = next((r for r in found if r.kind != "kept"), None)
    return Version(memory, why, tuple(r for r in found if r.kind == "kept"))


def _reason(told: Mapping[str, Any], older: Memory, known: Mapping[str, Memory]) -> Reason:
    newer = known.get(told.get("by") or "")
    fields: dict[str, Any] = {n: told[n] for n in Reason.__dataclass_fields__ if n in told}
    fields |= {"was": _text(told.get("from")), "now": _text(told.get("to"))}
    return Reason(**fields, older_quote=_quote(older, told.get("older")), newer_quote=_quote(newer, told.get("newer")))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _quote(memory: Memory | None, span: Any) -> str | None:
    """What a span of evidence covers, where it is one."""
    if memory is None or not isinstance(span, list) or len(span) != 2:
        return None
    return memory.text[span[0] : span[1]] or None
