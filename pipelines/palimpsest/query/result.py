"""The answer to a search, and its JSON form."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.query.context.compressor import Compression
from palimpsest.query.context.explain import Reason, Version, describe_reason
from palimpsest.query.context.lines import Citations, ContextLine, context_tokens, write_context
from palimpsest.query.context.message import ChatMessage, Role, memory_message, scope_label
from palimpsest.query.context.quotes import Quote
from palimpsest.query.embed_query import count_tokens
from palimpsest.query.request.types import (
    Link,
    Memory,
    NewerText,
    PremiseText,
    RankedMemory,
    Scope,
    ShownMemory,
    json_fields,
)
from palimpsest.query.rerank.rerank_candidates import Reranking
from palimpsest.query.scope.scope_query import TemporalInterpretation
from palimpsest.query.turns.resolve import ResolvedText

if TYPE_CHECKING:
    from palimpsest.query.graph.subgraph import Subgraph
    from palimpsest.query.pending import PendingMemory

_TEXT: JsonObject = {"type": "string"}
_NUMBER: JsonObject = {"type": "number"}
_TEXTS: JsonObject = {"type": "array", "items": {"type": "string"}}
_SCHEMAS: dict[Any, JsonObject] = {
    str: _TEXT,
    str | None: {"type": ["string", "null"]},
    int: {"type": "integer"},
    int | None: {"type": ["integer", "null"]},
    float: _NUMBER,
    bool: {"type": "boolean"},
    dt.datetime | None: {"type": ["string", "null"], "format": "date-time"},
    tuple[str, ...]: _TEXTS,
}
_JSON_FIELDS = {kind: json_fields(kind) for kind in (Memory, ShownMemory, RankedMemory)}
_MEMORY_FIELDS = {name: _SCHEMAS[kind] for name, kind in _JSON_FIELDS[RankedMemory].items()}
"""The fields of a memory in JSON, with the schema of each."""
_VERSION_FIELDS = ("memory_id", "text", "is_latest", "observed_at", "valid_from", "valid_until", "superseded_by", "uri")
_UNCHANGED = ResolvedText("")
_TIME_NAMES = {"unresolved_phrase": "untold"}
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

    def message(self, role: Role = "system", budgets: Mapping[str, int] | None = None) -> ChatMessage:
        """Returns the context as one message of a chat: marked as data, each line with its scope and date.

        Args:
            role: of the message: system, developer or user.
            budgets: tokens for lines of a memory type, at most, such as `{"episodic": 600, "preference": 200}`.

        Raises:
            ArgumentError: there is no such role, or a budget is below 0.
        """
        waiting = {m.operation: (scope_label(m.collection, m.user_id, m.project_id), m.type) for m in self.pending}
        return memory_message(self.lines, self.citations, self.cited, waiting, count_tokens, role=role, budgets=budgets)

    def to_json(self) -> JsonObject:
        """Returns a JSON object of `json_schema`; dates are ISO 8601.

        `citations` has the ids of the memories that the context cites as `[1]`, `[2]` and so on; the first are those of
        `memories`. `repeats` has the ids of what says the same as a memory and is left out for it. `abstained` is
        whether the results were left out, for none is likely evidence.
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
            "abstained": self.abstained,
        }

    @staticmethod
    def json_schema() -> JsonObject:
        """Returns the JSON schema (draft 2020-12) of `to_json`."""
        added: JsonObject = {
            "is_cut": {"type": "boolean"},
            "disputed_by": {"type": ["object", "null"]},
            "later": {"type": "array", "items": {"type": "object"}},
            "history": {"type": "array", "items": {"type": "object"}},
            "time_score": {"type": ["number", "null"]},
            "path": {"type": "array", "items": {"type": "object"}},
            "premises": {"type": "array", "items": {"type": "object"}},
            "rerank_score": _NUMBER,
        }
        memory: JsonObject = {
            "type": "object",
            "properties": {**_MEMORY_FIELDS, **added},
            "required": [*_MEMORY_FIELDS, "is_cut", "disputed_by", "later"],
            "additionalProperties": False,
        }
        properties: JsonObject = {
            "memories": {"type": "array", "items": memory},
            "context": _TEXT,
            "citations": _TEXTS,
            "packed_ids": _TEXTS,
            "quotes": {"type": "array", "items": {"type": "object"}},
            "beside": _TEXTS,
            "context_tokens": {"type": "integer"},
            "timings": {"type": "object", "additionalProperties": _NUMBER},
            "strategy": _TEXT,
            "build_id": _TEXT,
            "filters": {"type": "object"},
            "time": {"type": ["object", "null"]},
            "resolved": {"type": ["object", "null"]},
            "reranker": {"type": ["object", "null"]},
            "compression": {"type": ["object", "null"]},
            "subgraph": {"type": ["object", "null"]},
            "pending": {"type": "array", "items": {"type": "object"}},
            "abstained": {"type": "boolean"},
        }
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "SearchResult",
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }


def empty_result(build_id: str) -> SearchResult:
    """Returns the answer to a search in no scope of a build."""
    return SearchResult([], (), "none", (), (), {}, {}, "auto", build_id)


def time_json(temporal: TemporalInterpretation) -> JsonObject | None:
    """Returns how the time in a question was interpreted; None where it has no words that need it."""
    if not (temporal.as_of_phrase or temporal.phrase or temporal.unresolved_phrase):
        return None
    fields = {name: value for name, value in asdict(temporal).items() if name != "period"}
    return {_TIME_NAMES.get(name, name): _plain(value) for name, value in fields.items()}


def history_json(versions: Sequence[Version]) -> list[JsonObject]:
    """Returns the versions of one fact, newest first; `why` is null where latest, `disputed_by` where not disputed."""
    return [
        {name: _plain(getattr(v.memory, name)) for name in _VERSION_FIELDS}
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
    fields = {name: _plain(getattr(memory, name)) for name in _MEMORY_FIELDS}
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
