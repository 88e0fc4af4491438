"""An answer as text for people."""

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

from palimpsest.query.context.changes import PART, likely_changes
from palimpsest.query.context.explain import Version, describe_reason
from palimpsest.query.request.types import NewerText, PremiseText, RankedMemory, Scope, ShownMemory, shorten_text
from palimpsest.query.result import SearchResult
from palimpsest.query.scope.scope_query import TemporalInterpretation

if TYPE_CHECKING:
    from palimpsest.query.graph.subgraph import Subgraph

_LINE_CHARS = 160


def results_text(result: SearchResult, explain: bool = False) -> str:
    """Returns how the question's time was interpreted, the memories with any history, then the context."""
    lines = resolved_lines(result) if explain else []
    lines += [line for temporal in result.times.values() for line in time_lines(temporal)]
    first_rank: dict[str, int] = {}
    results = {m.memory_id: m for m in result.memories}
    ranks = {i: rank for rank, i in enumerate(results, 1)}
    several = len({m.collection for m in result.memories}) > 1
    for rank, memory in enumerate(result.memories, 1):
        text = shorten_text(memory.text, _LINE_CHARS)
        lines.append(f"{rank}. {memory.relevance:4.0%}  {text}  ({_state(memory, several)})")
        later = memory.later if explain or memory.is_cut else ()
        lines += [f"     {line}" for line in _newer_lines(memory.disputed_by, later, explain)]
        if not explain and (changed_by := likely_changes(memory, results)):
            lines.append(f"     later: see {ranks[changed_by[0].memory_id]}")
        if explain:
            lines.append(f"     {memory.why}")
            lines += [f"     {line}" for line in _premise_lines(memory.premises)]
        versions = result.versions.get(memory.memory_id, ())
        lines += _history(versions, first_rank.get(memory.memory_id))
        first_rank |= {v.memory.memory_id: first_rank.get(v.memory.memory_id, rank) for v in versions}
    lines += _subgraph_lines(result.subgraph)
    if result.abstained:
        return "\n".join([*lines, "no memory is likely to hold an answer; without --abstain the nearest are returned"])
    if result.compression and result.compression.failed:
        lines.append(f"quoted by words: {result.compression.failed}")
    lines += [result.citations.write(m.line)[2:] for m in result.pending]
    if not (result.memories or result.pending):
        return "\n".join([*lines, f"nothing found in this scope; {_why_nothing(result)}"])
    return "\n".join([*lines, "", result.context or "(nothing fits the budget)"])


def _why_nothing(result: SearchResult) -> str:
    """Returns what may have left everything out."""
    given = {name: value for name, value in result.filters.items() if value}
    if below := given.pop("below_min_score", None):
        return f"min_score left out {below} memories"
    if given:
        return f"these leave memories out: {', '.join(sorted(given))}"
    return "palimpsest scopes lists whose memories there are"


def resolved_lines(result: SearchResult) -> list[str]:
    """Returns how the question was resolved from the turns before it; nothing where it was searched as it is."""
    if not result.question.changes:
        return []
    changes = "; ".join(shorten_text(change, _LINE_CHARS) for change in result.question.changes)
    return [f"searched: {shorten_text(result.question.text, _LINE_CHARS)}  ({changes})"]


def time_lines(temporal: TemporalInterpretation) -> list[str]:
    """Returns in words how the time in a question was interpreted, where that could surprise."""
    lines = []
    if temporal.as_of:
        request = f"{temporal.as_of_phrase!r} asks what was known then; --as-of sets another time"
        lines.append(f"as of {temporal.as_of.date().isoformat()}: {request}")
    elif temporal.not_followed:
        lines.append(f"{temporal.as_of_phrase!r} is read as a time that texts speak of: {temporal.not_followed}")
    if temporal.unresolved_phrase:
        far = temporal.reference_is in ("now", "as_of") and temporal.reference is not None
        why = f"no days are counted from {temporal.reference}" if far else "--now sets the time of the question"
        lines.append(f"{temporal.unresolved_phrase!r} is only words to search for: {why}")
    if temporal.phrase and temporal.reference:
        start, end = (d.isoformat() if d else "" for d in (temporal.first, temporal.last))
        means = start if start == end else " ".join(p for p in (start, f"to {end}" if end else "and later") if p)
        options = {"now": "--now", "as_of": "--as-of"}
        given = options.get(temporal.reference_is, "the newest memory; --now sets another day")
        lines.append(f"{temporal.phrase!r} is {means}, counted from {temporal.reference.isoformat()}, {given}")
    return lines


def memory_text(memory: ShownMemory, versions: Sequence[Version]) -> str:
    """Returns one memory whole, where it is from, what is known of it and newer, and the versions of its fact."""
    fields = {
        "id": memory.memory_id,
        "state": _state_words(memory),
        "source": f"{memory.collection}: {memory.uri}{f', page {memory.page}' if memory.page else ''}",
        "title": memory.document_title,
        "speaker": memory.speaker,
        "session": memory.session_id,
        "user": f"{memory.user_id}{f', project {memory.project_id}' if memory.project_id else ''}",
        "type": memory.type,
        "observed": _day(memory.observed_at) or "undated",
    }
    lines = [memory.text, *(f"  {name + ':':<9} {value}" for name, value in fields.items() if value)]
    lines += [f"  {line}" for line in _newer_lines(memory.disputed_by, memory.later, explain=True)]
    return "\n".join([*lines, *_history(versions, None)])


def history_text(versions: Sequence[Version]) -> str:
    """Returns the versions of one fact, newest first: when each was valid, what replaced it and why."""
    return "\n".join(line for version in versions for line in _version_lines(version))


def scopes_text(found: Sequence[tuple[Scope, int | None]]) -> str:
    """Returns scopes and how many memories each has, one a line."""
    lines = []
    for scope, size in found:
        project = f"  project {shorten_text(scope.project_id, _LINE_CHARS)}" if scope.project_id else ""
        owner = f"{scope.collection}  user {shorten_text(scope.user_id, _LINE_CHARS)}{project}"
        lines.append(f"{owner}  {'?' if size is None else f'{size:,}'} memories")
    return "\n".join(lines) or "no scope has a memory"


def _subgraph_lines(subgraph: "Subgraph | None") -> list[str]:
    if subgraph is None:
        return []
    counts = f"{len(subgraph.nodes)} nodes, {len(subgraph.edges)} edges, {len(subgraph.facts)} facts"
    return [f"subgraph: {counts}", *(f"     {line.cited}" for line in subgraph.lines)]


def _history(versions: Sequence[Version], first_rank: int | None) -> list[str]:
    if not versions:
        return []
    if first_rank is not None:
        return [f"     history: see {first_rank}"]
    if len(versions) == 1 and not (versions[0].why or versions[0].kept or versions[0].premises):
        return []
    return ["     history, newest first:", *(f"       {line}" for v in versions for line in _version_lines(v))]


def _version_lines(version: Version) -> list[str]:
    memory = version.memory
    since, until = _day(memory.valid_from), _day(memory.valid_until)
    valid = f"{since or 'undated'} to {until or ('now' if memory.is_latest else 'an unknown day')}"
    lines = [f"{valid}  {shorten_text(memory.text, _LINE_CHARS)}  [{memory.memory_id}]"]
    if version.why:
        lines.append(f"    {describe_reason(version.why)}")
    elif memory.is_latest and until:
        lines.append("    its end is stated")
    lines += [f"    {line}" for line in _newer_lines(version.disputed_by, (), explain=False)]
    lines += [f"    {describe_reason(kept)}" for kept in version.kept]
    return lines + [f"    {line}" for line in _premise_lines(version.premises)]


def _premise_lines(premises: Sequence[PremiseText]) -> list[str]:
    return [
        f"follows from: {shorten_text(p.text, _LINE_CHARS)}"
        f"  ({_day(p.observed_at) or 'undated'}{'' if p.is_latest else ', superseded'}, {p.memory_id})"
        for p in premises
    ]


def _newer_lines(disputed_by: NewerText | None, later: Sequence[NewerText], explain: bool) -> list[str]:
    """Returns what disputes a memory, what ended a part of it, and what else was said later."""
    disputed = [f"disputed by: {_newer_line(disputed_by, explain)}"] if disputed_by else []
    verbs = {PART: "superseded in part by"}
    return disputed + [f"{verbs.get(newer.why, 'said later')}: {_newer_line(newer, explain)}" for newer in later]


def _newer_line(newer: NewerText, explain: bool) -> str:
    known = [_day(newer.observed_at) or "undated", newer.memory_id]
    if explain:
        known += [newer.why, *([] if newer.likelihood is None else [f"{newer.likelihood:.2f} that it ended"])]
    return f"{shorten_text(newer.text, _LINE_CHARS)}  ({', '.join(known)})"


def _day(time: dt.datetime | None) -> str:
    return time.date().isoformat() if time else ""


def _state_words(memory: ShownMemory) -> str:
    """Returns whether a memory is latest, and what a newer one means for it."""
    if not memory.is_latest:
        return f"superseded by {memory.superseded_by}"
    is_cut = any(newer.why == PART for newer in memory.later)
    return "latest" + (", disputed" if memory.disputed_by else "") + (", superseded in part" if is_cut else "")


def _state(memory: RankedMemory, with_collection: bool) -> str:
    """Returns when it was observed and its scope; the collection only where an answer comes from several."""
    often = [f"said {len(memory.repeats) + 1} times"] if memory.repeats else []
    scope = [f"collection {memory.collection}"] if with_collection else []
    scope += [f"project {shorten_text(memory.project_id, _LINE_CHARS)}"] if memory.project_id else []
    return ", ".join([_observed(memory), *often, *scope])


def _observed(memory: RankedMemory) -> str:
    observed = memory.observed_at.date().isoformat() if memory.observed_at else "undated"
    if memory.is_latest:
        return observed
    until = f" until {memory.valid_until.date().isoformat()}" if memory.valid_until else ""
    return f"{observed}{until}, superseded"
