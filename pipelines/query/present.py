"""An answer as text for people and as JSON values."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from palimpsest.query.context.history import Reason, Version
from palimpsest.query.explain import shortened
from palimpsest.query.read_time import TimeRead
from palimpsest.query.reader import Results
from palimpsest.query.request.types import Link, Memory, RankedMemory, Scope

_SHOWN_CHARS = 160
_FIELDS = (
    "memory_id",
    "collection",
    "user_id",
    "project_id",
    "text",
    "score",
    "is_latest",
    "observed_at",
    "valid_from",
    "valid_until",
    "superseded_by",
    "type",
    "created_at",
    "updated_at",
    "uri",
    "page",
    "speaker",
    "heading",
    "session_id",
    "char_start",
    "char_end",
    "document_title",
    "hops",
    "vector_score",
    "words_score",
    "graph_score",
    "tags",
    "why",
)
_OF_VERSION = ("memory_id", "text", "is_latest", "observed_at", "valid_from", "valid_until", "superseded_by", "uri")


def results_text(results: Results, explain: bool = False) -> str:
    """Returns how the question's time was read, the memories with their history where asked, then the context."""
    lines = [line for read in results.times.values() for line in time_lines(read)]
    told: dict[str, int] = {}
    several = len({m.collection for m in results.memories}) > 1
    for place, memory in enumerate(results.memories, 1):
        lines.append(
            f"{place}. {memory.score:+.2f}  {shortened(memory.text, _SHOWN_CHARS)}  ({_state(memory, several)})"
        )
        if newer := memory.may_be_outdated:
            seen = _day(newer.observed_at) or "undated"
            lines.append(f"     may be outdated: {shortened(newer.text, _SHOWN_CHARS)}  ({seen}, {newer.memory_id})")
        if explain:
            lines.append(f"     {memory.why}")
        versions = results.versions.get(memory.memory_id, ())
        lines += _history(versions, told.get(memory.memory_id))
        told |= {v.memory.memory_id: told.get(v.memory.memory_id, place) for v in versions}
    if not results.memories:
        return "\n".join([*lines, "nothing found in this scope; palimpsest scopes lists whose memories there are"])
    return "\n".join([*lines, "", results.context or "(nothing fits the budget)"])


def time_lines(read: TimeRead) -> list[str]:
    """Returns in words how the time in a question was read, where it says something that could surprise."""
    lines = []
    if read.as_of:
        asked = f"{read.as_of_phrase!r} asks what was known then; --as-of sets another moment"
        lines.append(f"as of {read.as_of.date().isoformat()}: {asked}")
    elif read.not_followed:
        lines.append(f"{read.as_of_phrase!r} is read as a time that texts speak of: {read.not_followed}")
    if read.untold:
        far = read.reference_is in ("now", "as_of") and read.reference is not None
        why = f"no days are counted from {read.reference}" if far else "--now says when the question is asked"
        lines.append(f"{read.untold!r} is only words to search for: {why}")
    if read.phrase and read.reference:
        start, end = (d.isoformat() if d else "" for d in (read.first, read.last))
        means = start if start == end else " ".join(p for p in (start, f"to {end}" if end else "and later") if p)
        given = {"now": "--now", "as_of": "--as-of"}.get(read.reference_is, "the newest memory; --now sets another day")
        lines.append(f"{read.phrase!r} is {means}, told from {read.reference.isoformat()}, {given}")
    return lines


def history_text(versions: Sequence[Version]) -> str:
    """Returns the versions of one fact, newest first: when each held, and what took its place and why."""
    return "\n".join(line for version in versions for line in _version_lines(version))


def reason_text(reason: Reason) -> str:
    """Returns in words what took a memory's place and why."""
    if reason.kind == "vanished":
        return "its source is there no more"
    if reason.kind == "edited":
        return f"no longer in {reason.uri or 'its source'}, which was edited{_on(reason.at)}"
    if reason.kind == "replaced":
        return f"its document was replaced by {reason.uri}{_on(reason.at)}: stated, not inferred"
    by = f"[{reason.by}]"
    if reason.labeler == "person":
        verb = "replaced by" if reason.kind == "updated" else "not replaced by"
        return f"{verb} {by}: a person said so{_on(reason.decided_at)}; relation {reason.relation_id}"
    if reason.relation_id is None:
        return f"replaced by {by}"
    sure = f" ({reason.confidence:.2f} sure)" if reason.confidence is not None else ""
    return f"replaced by {by}: {_seen(reason)}, says {reason.labeler}{sure}; relation {reason.relation_id}"


def _seen(reason: Reason) -> str:
    """What the update was seen by."""
    if reason.was and reason.now:
        return f"{reason.was!r} became {reason.now!r}"
    if reason.was:
        return f"it names {reason.was!r} as over"
    rule = {"model": "it reads as an update", "lm": "it reads as an update", None: "it is an update"}
    return rule.get(reason.rule, f"it says {str(reason.rule)!r}")


def _history(versions: Sequence[Version], place: int | None) -> list[str]:
    if not versions:
        return []
    if place is not None:
        return [f"     history: see {place}"]
    if len(versions) == 1 and not versions[0].why and not versions[0].kept:
        return []
    return ["     history, newest first:", *(f"       {line}" for v in versions for line in _version_lines(v))]


def _version_lines(version: Version) -> list[str]:
    memory = version.memory
    since, until = _day(memory.valid_from), _day(memory.valid_until)
    held = f"{since or 'undated'} to {until or ('now' if memory.is_latest else 'an unknown day')}"
    lines = [f"{held}  {shortened(memory.text, _SHOWN_CHARS)}  [{memory.memory_id}]"]
    if version.why:
        lines.append(f"    {reason_text(version.why)}")
    elif memory.is_latest and until:
        lines.append("    its end is stated")
    return lines + [f"    {reason_text(kept)}" for kept in version.kept]


def _day(moment: dt.datetime | None) -> str:
    return moment.date().isoformat() if moment else ""


def _on(written: str | None) -> str:
    return f" on {written[:10]}" if written else ""


def scopes_text(found: Sequence[tuple[Scope, int | None]]) -> str:
    """Returns scopes and how many memories each holds, one a line."""
    lines = []
    for scope, size in found:
        project = f"  project {shortened(scope.project_id, _SHOWN_CHARS)}" if scope.project_id else ""
        owner = f"{scope.collection}  user {shortened(scope.user_id, _SHOWN_CHARS)}{project}"
        lines.append(f"{owner}  {'?' if size is None else f'{size:,}'} memories")
    return "\n".join(lines) or "no scope holds a memory"


def _state(memory: RankedMemory, with_collection: bool) -> str:
    """When it was observed and where it belongs; the collection only where an answer comes from several."""
    scope = [f"collection {memory.collection}"] if with_collection else []
    scope += [f"project {shortened(memory.project_id, _SHOWN_CHARS)}"] if memory.project_id else []
    return ", ".join([_when(memory), *scope])


def _when(memory: RankedMemory) -> str:
    seen = memory.observed_at.date().isoformat() if memory.observed_at else "undated"
    if memory.is_latest:
        return seen
    until = f" until {memory.valid_until.date().isoformat()}" if memory.valid_until else ""
    return f"{seen}{until}, superseded"


def results_json(results: Results) -> dict[str, Any]:
    """Returns `{"memories", "context", "packed_ids", "beside", "timings", "strategy", "build_id", "time"}`; ISO dates.

    `time` is how words such as `last week` and `as of May` were read. With history, each memory has `history`: the
    versions of its fact, newest first, with `why` and `kept`. `may_be_outdated` is null or the newer memory that may
    contradict it: `{"memory_id", "text", "observed_at", "relation_id"}`. With explain, `path` are the links that led to
    it.
    """
    return {
        "memories": [_memory(m, results) for m in results.memories],
        "context": results.context,
        "packed_ids": list(results.packed_ids),
        "beside": [m.memory_id for m in results.beside],
        "context_tokens": results.context_tokens,
        "timings": {k: round(v, 3) for k, v in results.timings.items()},
        "strategy": results.strategy,
        "build_id": results.build_id,
        "time": next((time_json(read) for read in results.times.values()), None),
    }


def time_json(read: TimeRead) -> dict[str, Any] | None:
    """Returns how the time in a question was read; null where the question says nothing that had to be."""
    told = {name: _plain(value) for name, value in asdict(read).items() if name != "period"}
    return told if read.as_of_phrase or read.phrase or read.untold else None


def history_json(versions: Sequence[Version]) -> list[dict[str, Any]]:
    """Returns the versions of one fact, newest first; `why` is null for what is latest."""
    return [
        _fields(v.memory, _OF_VERSION)
        | {"why": _reason(v.why) if v.why else None, "kept": [_reason(k) for k in v.kept]}
        for v in versions
    ]


def _memory(memory: RankedMemory, results: Results) -> dict[str, Any]:
    versions = results.versions.get(memory.memory_id)
    newer = memory.may_be_outdated
    told = _fields(memory, _FIELDS) | ({"history": history_json(versions)} if versions else {})
    told["may_be_outdated"] = {n: _plain(v) for n, v in asdict(newer).items()} if newer else None
    if memory.why:
        told |= {"time_score": _plain(memory.time_score), "path": [_link(link, results) for link in memory.path]}
    return told


def _link(link: Link, results: Results) -> dict[str, Any]:
    return {name: _plain(value) for name, value in link._asdict().items()} | {"text": results.met.get(link.source)}


def _fields(memory: Memory, names: Sequence[str]) -> dict[str, Any]:
    return {name: _plain(getattr(memory, name)) for name in names}


def _reason(reason: Reason) -> dict[str, Any]:
    """What is known of it, and in words."""
    told = {name: _plain(value) for name, value in asdict(reason).items() if value is not None}
    return told | {"text": reason_text(reason)}


def _plain(value: Any) -> Any:
    if isinstance(value, dt.date):
        return value.isoformat()
    return round(float(value), 6) if isinstance(value, float) else value
