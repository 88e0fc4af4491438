"""The JSON forms of answers as models, made of the fields that the JSON is made of."""

import datetime as dt
from dataclasses import fields
from typing import Any, Literal

from pydantic import Field

from palimpsest.core.json_model import JsonModel, json_model
from palimpsest.query.context.explain import Reason
from palimpsest.query.context.quotes import Compression, Quote
from palimpsest.query.graph.graph_answer import GraphLine, PathStep
from palimpsest.query.pending import PendingMemory
from palimpsest.query.profile import ProfileLine
from palimpsest.query.request.search_request import Tier
from palimpsest.query.request.types import (
    Edge,
    Fact,
    Memory,
    NewerText,
    Node,
    PremiseText,
    RankedMemory,
    ShownMemory,
    json_fields,
)
from palimpsest.query.rerank import Reranking
from palimpsest.query.result import TIME_NAMES, VERSION_FIELDS
from palimpsest.query.scope.scope_query import TemporalInterpretation


def _memory(kind: Any, only: tuple[str, ...] = ()) -> Any:
    """Returns the model of the fields of a kind of memory that its JSON has as they are, or of some of them."""
    shown = only or json_fields(kind)
    return json_model(kind, tuple(f.name for f in fields(kind) if f.name not in shown))


def _absent(description: str) -> Any:
    """Returns a field that an answer may not have."""
    return Field(default_factory=type(None), description=description)


class StoredMemory(_memory(Memory)):  # type: ignore[misc]
    """A memory among others."""


class MemoryAnswer(_memory(ShownMemory)):  # type: ignore[misc]
    """One memory, with what was said later."""

    is_cut: bool = Field(description="whether `text` is without a part that a newer memory ended")
    disputed_by: NewerText | None = Field(description="the newest memory that may have ended it")
    later: list[NewerText] = Field(description="other newer ones about the same, newest first")


class ReasonAnswer(json_model(Reason, optional=True)):  # type: ignore[misc]
    """Why a memory was retired, or was not."""

    text: str = Field(description="the reason in words")


class VersionAnswer(_memory(Memory, VERSION_FIELDS)):  # type: ignore[misc]
    """A version of a fact."""

    why: ReasonAnswer | None = Field(description="why it is not latest")
    kept: list[ReasonAnswer] = Field(description="what people decided does not replace it")
    premises: list[PremiseText] = Field(description="the memories that it follows from")
    disputed_by: NewerText | None = Field(description="the newest memory that may have ended it")


class LinkAnswer(JsonModel):
    """A link between two memories."""

    source: str
    target: str
    kind: str
    weight: float
    via: str = Field(description="the name of what they share")
    text: str | None = Field(description="of the source")


class ResultAnswer(MemoryAnswer, _memory(RankedMemory)):  # type: ignore[misc]
    """A memory with its rank and scores in an answer."""

    history: list[VersionAnswer] = _absent("with history: the versions of its fact, newest first")
    time_score: float | None = _absent("with explain: how well its times fit the question's period")
    path: list[LinkAnswer] = _absent("with explain: the links that led to it")
    premises: list[PremiseText] = _absent("with explain: the memories that it follows from")
    rerank_score: float = _absent("of the reranker, on a scale of its own")


class FactEdge(JsonModel):
    """A fact between two nodes, as an edge of the graph."""

    source: str
    target: str | None
    type: str = Field(description="the predicate of the fact")
    provenance: Literal["fact"]
    weight: float | None = Field(description="the confidence of the fact")
    fact_id: str
    memory_ids: list[str]
    valid_from: dt.datetime | None
    valid_until: dt.datetime | None
    is_latest: bool
    is_negated: bool


AnyEdge = Edge | FactEdge


class SubgraphAnswer(JsonModel):
    """What is between the results of a search."""

    class Relation(JsonModel):
        """An EXTEND or DERIVE between results, from the newer to the older."""

        source: str
        target: str
        type: str
        weight: float

    nodes: list[Node]
    edges: list[AnyEdge]
    facts: list[Fact]
    relations: list[Relation]


class GraphAnswer(JsonModel):
    """An answer over the graph."""

    nodes: list[Node]
    edges: list[AnyEdge]
    facts: list[Fact]
    paths: list[list[PathStep]] = Field(description="from the first thing that is named to the second, best first")
    lines: list[GraphLine] = Field(description="the answer in words, in order")
    names: list[str] = Field(description="what the question was understood to be about")


class ProfileAnswer(JsonModel):
    """What is known of a user, newest first."""

    user: str
    static: list[ProfileLine] = Field(description="what lasts")
    dynamic: list[ProfileLine] = Field(description="what is recent")


class PendingAnswer(json_model(PendingMemory)):  # type: ignore[misc]
    """A text of the inbox that matches a question and is in no published build yet."""

    state: Literal["pending"]


class FiltersAnswer(JsonModel):
    """The filters of a search as they were understood."""

    since: str | None = None
    until: str | None = None
    as_of: str | None = None
    types: list[str] = Field(default_factory=list)
    tags: list[str] = Field(default_factory=list)
    where: str | None = None
    accessed_within_s: float | None = None
    min_score: float | None = None
    tiers: list[Tier] = Field(default_factory=list)
    below_min_score: int = Field(0, description="how many candidates were below `min_score`")


class ResolvedAnswer(JsonModel):
    """A question with what it took from the turns before it."""

    text: str = Field(description="what was searched")
    changes: list[str]


class TimeAnswer(json_model(TemporalInterpretation, ("period",), names=(*TIME_NAMES.items(),))):  # type: ignore[misc]
    """How a question's words about time were interpreted."""


class SearchAnswer(JsonModel):
    """The answer to a search."""

    memories: list[ResultAnswer] = Field(description="best first, at most k")
    context: str = Field(description="cited lines for people; a prompt takes `message`, which marks them as data")
    citations: list[str] = Field(description="ids of the memories that the context cites as [1], [2] and so on")
    packed_ids: list[str] = Field(description="the memories whose whole text is in the context")
    quotes: list[Quote] = Field(description="the memories that the context quotes in part")
    beside: list[str] = Field(description="the memories of the context that were not ranked, but are next to results")
    context_tokens: int
    timings: dict[str, float] = Field(description="milliseconds of each step, and `total_ms`")
    strategy: str
    build_id: str
    filters: FiltersAnswer
    time: TimeAnswer | None
    resolved: ResolvedAnswer | None
    reranker: Reranking | None
    compression: Compression | None
    subgraph: SubgraphAnswer | None
    pending: list[PendingAnswer] = Field(description="texts of the inbox that are not built yet, best first")
    answerable: bool = Field(description="whether a result is likely to hold an answer")
    abstained: bool = Field(description="whether the results were left out, for none is likely evidence")
