"""The JSON forms of answers as models, made of the fields that the JSON is made of."""

import datetime as dt
from typing import Any, Literal

from pydantic import Field, create_model

from palimpsest.core.json_model import JsonModel, descriptions, json_model
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


def _memory(name: str, kind: type[Memory], only: tuple[str, ...] = (), **more: Any) -> Any:
    """Returns the model of a kind of memory: the fields that its JSON has as they are, then others."""
    said, types = descriptions(kind), json_fields(kind)
    stated = {n: (types[n], Field(description=said.get(n))) for n in only or types}
    return create_model(name, __base__=JsonModel, __module__=__name__, **stated, **more)


_CHANGES: dict[str, Any] = {
    "is_cut": (bool, Field(description="whether `text` is without a part that a newer memory ended")),
    "disputed_by": (NewerText | None, Field(description="the newest memory that may have ended it")),
    "later": (list[NewerText], Field(description="other newer ones about the same, newest first")),
}
StoredMemory = _memory("StoredMemory", Memory)
"""A memory among others."""
MemoryAnswer = _memory("MemoryAnswer", ShownMemory, **_CHANGES)
"""One memory, with what was said later."""


class ReasonAnswer(json_model(Reason, optional=True)):  # type: ignore[misc]
    """Why a memory was retired, or was not."""

    text: str = Field(description="the reason in words")


VersionAnswer = _memory(
    "VersionAnswer",
    Memory,
    VERSION_FIELDS,
    why=(ReasonAnswer | None, Field(description="why it is not latest")),
    kept=(list[ReasonAnswer], Field(description="what people decided does not replace it")),
    premises=(list[PremiseText], Field(description="the memories that it follows from")),
    disputed_by=(NewerText | None, Field(description="the newest memory that may have ended it")),
)
"""A version of a fact."""


class LinkAnswer(JsonModel):
    """A link between two memories."""

    source: str
    target: str
    kind: str
    weight: float
    via: str = Field(description="the name of what they share")
    text: str | None = Field(description="of the source")


ResultAnswer = _memory(
    "ResultAnswer",
    RankedMemory,
    **_CHANGES,
    history=(
        list[VersionAnswer],
        Field(default_factory=type(None), description="with history: the versions of its fact, newest first"),
    ),
    time_score=(
        float | None,
        Field(default_factory=type(None), description="with explain: how well its times fit the question's period"),
    ),
    path=(list[LinkAnswer], Field(default_factory=type(None), description="with explain: the links that led to it")),
    premises=(
        list[PremiseText],
        Field(default_factory=type(None), description="with explain: the memories that it follows from"),
    ),
    rerank_score=(float, Field(default_factory=type(None), description="of the reranker, on a scale of its own")),
)
"""A memory with its rank and scores in an answer."""


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


_times = descriptions(TemporalInterpretation)
TimeAnswer = create_model(
    "TimeAnswer",
    __base__=JsonModel,
    __module__=__name__,
    __doc__="How a question's words about time were interpreted.",
    **{
        TIME_NAMES.get(name, name): (kind, Field(description=_times.get(name)))
        for name, kind in TemporalInterpretation.__annotations__.items()
        if name != "period"
    },
)


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
