"""The answer to a search, and its JSON form."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from palimpsest.core.files import counted
from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.query.context.changes import likely_changes
from palimpsest.query.context.explain import Reason, Version, describe_reason
from palimpsest.query.context.lines import (
    UNLIKELY,
    ChatMessage,
    Citations,
    ContextLine,
    Role,
    context_tokens,
    memory_message,
    scope_label,
    write_context,
)
from palimpsest.query.context.quotes import Compression, Quote
from palimpsest.query.embed_query import count_tokens
from palimpsest.query.ranking.merge import LIKELY
from palimpsest.query.request.resolve_turns import ResolvedText
from palimpsest.query.request.types import (
    OF_LAST_GOOD,
    Link,
    Memory,
    NewerText,
    PremiseText,
    RankedMemory,
    Scope,
    ShownMemory,
    json_fields,
    shorten_text,
)
from palimpsest.query.rerank import Reranking
from palimpsest.query.scope.scope_query import TemporalInterpretation
from palimpsest.query.scope.served_scope import PART

if TYPE_CHECKING:
    from palimpsest.query.graph.subgraph import Subgraph
    from palimpsest.query.pending import PendingMemory

_JSON_FIELDS = {kind: json_fields(kind) for kind in (Memory, ShownMemory, RankedMemory)}
VERSION_FIELDS = ("memory_id", "text", "is_latest", "observed_at", "valid_from", "valid_until", "superseded_by", "uri")
_UNCHANGED = ResolvedText("")
TIME_NAMES = {"unresolved_phrase": "untold"}
"""Names in JSON of fields of `TemporalInterpretation`, where they differ."""


@dataclass(frozen=True)
class SearchResult:
    """An answer.

    Attributes:
        memories: best first, at most k.
        lines: of the context, in order; none where nothing was found or fits.
        sources: how the context cites and lists its sources; see `SearchRequest.sources`.
        packed_ids: the memories whose whole text is in the context.
        quotes: the memories that the context quotes in part, with the spans in their documents.
        beside: memories in the context that were not ranked, but are neighbors of those that were.
        folded: ids left out of the context, by the id of the memory that they repeat.
        timings: milliseconds of each of `search.STEPS`, over all scopes, and `total_ms`.
        strategy: of the first scope, `auto` resolved.
        build_id: the build that answered.
        versions: with `history`, all versions of each memory's fact by its id, newest first, with what replaced each
            and why.
        times: how the question's words about time were interpreted in each scope.
        filters: the filters by type, tag, field, access and score, and how many candidates were below `min_score`.
        reranker: what a reranker did, None without one.
        compression: what the language model that picks sentences did, None without one.
        met: with `explain`, the texts of the memories that links led from or to, by id.
        question: the question as it was searched, with what it took from the turns before it.
        abstained: whether the results were left out, as `abstain` asks, for none is likely evidence.
        subgraph: nodes, edges and facts of the results, and how they relate; None where it was not requested.
        pending: with `include_pending`, texts of the inbox that no build has formed yet, found by words alone.
        cited: the memories of which the context has the text or a part, by id.
        returned_ids: the memories that are likely enough evidence; with `all_results` there are others.
    """

    memories: list[RankedMemory]
    lines: tuple[ContextLine, ...]
    sources: str
    packed_ids: tuple[str, ...]
    beside: tuple[Memory, ...]
    folded: dict[str, tuple[str, ...]]
    timings: dict[str, float]
    strategy: str
    build_id: str
    versions: Mapping[str, tuple[Version, ...]] = field(default_factory=dict)
    times: Mapping[Scope, TemporalInterpretation] = field(default_factory=dict)
    met: Mapping[str, str] = field(default_factory=dict)
    question: ResolvedText = _UNCHANGED
    filters: JsonObject = field(default_factory=dict)
    reranker: Reranking | None = None
    quotes: tuple[Quote, ...] = ()
    abstained: bool = False
    compression: Compression | None = None
    subgraph: "Subgraph | None" = None
    pending: "tuple[PendingMemory, ...]" = ()
    cited: Mapping[str, Memory] = field(default_factory=dict)
    returned_ids: frozenset[str] = frozenset()

    @cached_property
    def citations(self) -> Citations:
        """The citations of the context: the number of a result is its rank, those of other memories follow."""
        return Citations.of(self.sources, (m.memory_id for m in self.memories), self.lines)

    @cached_property
    def context(self) -> str:
        """The context as text, cited; empty where it has no line."""
        return write_context(self.lines, self.citations, count_tokens)

    @property
    def answerable(self) -> bool:
        """Whether a result is likely to hold an answer, or a text of the inbox has words of the question."""
        return bool(self.pending) or any(m.relevance >= LIKELY for m in self.memories)

    @property
    def context_with_all_sources(self) -> str:
        """The context for people: with each source that it cites, also beyond the share of its tokens."""
        return write_context(self.lines, self.citations, lambda _: 0)

    def context_with(self, sources: str) -> str:
        """Returns the context with its sources written in another way; see `SearchRequest.sources`."""
        return write_context(self.lines, replace(self.citations, sources=sources), count_tokens)

    def with_ids(self, answer: str) -> str:
        """Returns an answer that cites by number, as the context does, with the ids of the memories instead."""
        return self.citations.with_ids(answer)

    @cached_property
    def context_tokens(self) -> int:
        """Tokens of the context, as the embedder counts them."""
        return context_tokens(self.lines, self.citations, count_tokens)

    def message(self, role: Role = "user", budgets: Mapping[str, int] | None = None) -> ChatMessage:
        """Returns the context as one message of a chat: marked as data, each line with its scope and date.

        Args:
            role: of the message: user, or developer where a model knows that role; never system.
            budgets: tokens for lines of a memory type, at most, such as `{"episodic": 600, "preference": 200}`.

        Raises:
            ArgumentError: there is no such role, or a budget is below 0.
        """
        waiting = {m.operation: (scope_label(m.collection, m.user_id, m.project_id), m.type) for m in self.pending}
        return memory_message(
            self.lines,
            self.citations,
            self.cited,
            waiting,
            count_tokens,
            is_answerable=self.answerable,
            role=role,
            budgets=budgets,
        )

    def to_json(self) -> JsonObject:
        """Returns a JSON object of `json_schema`; dates are ISO 8601.

        `citations` has the ids of the memories that the context cites as `[1]`, `[2]` and so on; the first are those of
        `memories`. `repeats` has the ids of what says the same as a memory and is left out for it. `answerable` is
        whether a result is likely to hold an answer, and `abstained` whether the results were left out, for none is.
        `time` is how words such as `last week` and `as of May` were interpreted. `resolved` is null or, where the
        question took something from the turns before it, the `text` that was searched and its `changes`. With history,
        each memory has `history`: the versions of its fact, newest first, with `why` and `kept`. `is_cut` says that
        `text` is without a part that a newer memory ended. `disputed_by` is null or the newest memory that may have
        ended it: `{"memory_id", "text", "observed_at", "relation_id", "why", "likelihood"}`; `later` has other newer
        ones about the same. With explain, `path` has the links that led to it, and `premises` the memories it follows
        from; a version of a history has them too. With a reranker, `reranker`
        has its name, how many candidates it read, and why it gave no scores, and each memory that it read
        `rerank_score`. `compression` is null or, where a language model was to pick sentences, its name, how many it
        read and picked, and why it picked none. `subgraph` is null or, where it was requested, `nodes`, `edges`,
        `facts` and `relations` of the results. `pending` has texts of the inbox that are not built yet, best first.
        """
        return {
            "memories": [_memory_json(m, self) for m in self.memories],
            "context": self.context,
            "citations": list(self.citations.ids),
            "packed_ids": list(self.packed_ids),
            "quotes": [{"memory_id": q.memory_id, "spans": [list(span) for span in q.spans]} for q in self.quotes],
            "beside": [m.memory_id for m in self.beside],
            "context_tokens": self.context_tokens,
            "timings": {k: round(v, 3) for k, v in self.timings.items()},
            "strategy": self.strategy,
            "build_id": self.build_id,
            "filters": self.filters,
            "time": next((time_json(t) for t in self.times.values()), None),
            "resolved": {"text": self.question.text, "changes": list(self.question.changes)}
            if self.question.changes
            else None,
            "reranker": None if self.reranker is None else asdict(self.reranker),
            "compression": None if self.compression is None else asdict(self.compression),
            "subgraph": None if self.subgraph is None else self.subgraph.to_json(),
            "pending": [memory.to_json() for memory in self.pending],
            "answerable": self.answerable,
            "abstained": self.abstained,
        }

    @staticmethod
    def json_schema() -> JsonObject:
        """Returns the JSON schema (draft 2020-12) of `to_json`."""
        from palimpsest.query.answer_models import SearchAnswer

        schema = SearchAnswer.model_json_schema(mode="serialization")
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def empty_result(build_id: str) -> SearchResult:
    """Returns the answer to a search in no scope of a build."""
    return SearchResult([], (), "none", (), (), {}, {}, "auto", build_id)


def time_json(temporal: TemporalInterpretation) -> JsonObject | None:
    """Returns how the time in a question was interpreted; None where it has no words that need it."""
    if not (temporal.as_of_phrase or temporal.phrase or temporal.unresolved_phrase):
        return None
    fields = {name: value for name, value in asdict(temporal).items() if name != "period"}
    return {TIME_NAMES.get(name, name): _plain(value) for name, value in fields.items()}


def history_json(versions: Sequence[Version]) -> list[JsonObject]:
    """Returns the versions of one fact, newest first; `why` is null where latest, `disputed_by` where not disputed."""
    return [
        {name: _plain(getattr(v.memory, name)) for name in VERSION_FIELDS}
        | {"why": _reason_json(v.why) if v.why else None, "kept": [_reason_json(k) for k in v.kept]}
        | {"premises": _premises_json(v.premises), "disputed_by": _newer_json(v.disputed_by)}
        for v in versions
    ]


def memory_json(memory: Memory) -> JsonObject:
    """Returns the fields of a memory that do not depend on a search; of a `ShownMemory` what is newer, too."""
    fields = {name: _plain(getattr(memory, name)) for name in _JSON_FIELDS[type(memory)]}
    return fields | (_changes_json(memory) if isinstance(memory, ShownMemory) else {})


def _memory_json(memory: RankedMemory, result: SearchResult) -> JsonObject:
    versions = result.versions.get(memory.memory_id)
    fields = {name: _plain(getattr(memory, name)) for name in _JSON_FIELDS[RankedMemory]}
    if versions:
        fields["history"] = history_json(versions)
    fields |= _changes_json(memory)
    if memory.rerank_score is not None:
        fields["rerank_score"] = _plain(memory.rerank_score)
    if memory.why:
        fields["time_score"] = _plain(memory.time_score)
        fields["path"] = [_link_json(link, result) for link in memory.path]
        fields["premises"] = _premises_json(memory.premises)
    return fields


def _changes_json(memory: ShownMemory) -> JsonObject:
    later: list[JsonValue] = [_newer_json(newer) for newer in memory.later]
    return {"is_cut": memory.is_cut, "disputed_by": _newer_json(memory.disputed_by), "later": later}


def _newer_json(newer: NewerText | None) -> JsonObject | None:
    return None if newer is None else newer.to_json()


def _premises_json(premises: Sequence[PremiseText]) -> list[JsonValue]:
    return [{name: _plain(value) for name, value in asdict(premise).items()} for premise in premises]


def _link_json(link: Link, result: SearchResult) -> JsonObject:
    return {name: _plain(value) for name, value in link._asdict().items()} | {"text": result.met.get(link.source)}


def _reason_json(reason: Reason) -> JsonObject:
    """Returns the fields that are known, and the reason in words."""
    known = {name: _plain(value) for name, value in asdict(reason).items() if value is not None}
    return known | {"text": describe_reason(reason)}


def _plain(value: Any) -> JsonValue:
    if isinstance(value, dt.date):
        return value.isoformat()
    plain: JsonValue = round(float(value), 6) if isinstance(value, float) else value
    return plain


# An answer as text for people.

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
        lines.append(f"{rank}. {memory.relevance:4.0%}  {text}  ({_state(memory, several, ranks)})")
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
        return "\n".join([*lines, f"{UNLIKELY} Without --abstain the nearest are returned."])
    if result.compression and result.compression.failed:
        lines.append(f"quoted by words: {result.compression.failed}")
    lines += [result.citations.write(m.line)[2:] for m in result.pending]
    if not (result.memories or result.pending):
        return "\n".join([*lines, f"nothing found in this scope; {_why_nothing(result)}"])
    head = [] if result.answerable else [f"{UNLIKELY} The nearest:"]
    return "\n".join([*head, *lines, "", result.context_with_all_sources or "(nothing fits the budget)"])


def _why_nothing(result: SearchResult) -> str:
    """Returns what may have left everything out."""
    given = {name: value for name, value in result.filters.items() if value}
    if below := given.pop("below_min_score", None):
        return f"min_score left out {counted(int(str(below)), 'memory')}"
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
        lines.append(f"{owner}  {'? memories' if size is None else counted(size, 'memory')}")
    return "\n".join(lines) or "no scope has a memory"


def _subgraph_lines(subgraph: "Subgraph | None") -> list[str]:
    if subgraph is None:
        return []
    counts = ", ".join(
        counted(len(found), noun)
        for found, noun in ((subgraph.nodes, "node"), (subgraph.edges, "edge"), (subgraph.facts, "fact"))
    )
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
    marks = {"disputed": memory.disputed_by, "superseded in part": is_cut, OF_LAST_GOOD: memory.source_unreadable}
    return ", ".join(["latest", *(mark for mark, is_so in marks.items() if is_so)])


def _state(memory: RankedMemory, with_collection: bool, ranks: Mapping[str, int]) -> str:
    """Returns when it was observed and its scope; the collection only where an answer comes from several.

    What superseded it is named by its rank where it is a result too.
    """
    often = [f"said {len(memory.repeats) + 1} times"] if memory.repeats else []
    scope = [f"collection {memory.collection}"] if with_collection else []
    scope += [f"project {shorten_text(memory.project_id, _LINE_CHARS)}"] if memory.project_id else []
    source = [OF_LAST_GOOD] if memory.source_unreadable else []
    return ", ".join([_observed(memory, ranks), *often, *scope, *source])


def _observed(memory: RankedMemory, ranks: Mapping[str, int]) -> str:
    observed = memory.observed_at.date().isoformat() if memory.observed_at else "undated"
    if memory.is_latest:
        return observed
    until = f" until {memory.valid_until.date().isoformat()}" if memory.valid_until else ""
    by = f" by {ranks.get(memory.superseded_by, memory.superseded_by)}" if memory.superseded_by else ""
    return f"{observed}{until}, superseded{by}"
