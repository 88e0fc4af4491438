"""Endpoints that search the caller's memories."""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from palimpsest.core.json_types import JsonObject
from palimpsest.query.request.search_request import Sources
from palimpsest.query.request.strategies import STRATEGIES
from palimpsest.query.result import SearchResult, empty_result
from palimpsest.serve.open_reader import CallerView
from palimpsest.serve.routes.field_types import IsoTimeOrDay, Name
from palimpsest.serve.state import JsonRouter, MayRead, Service, SharedService

router = JsonRouter(tags=["search"])
Strategy = Literal["auto", "flat", "hybrid", "words", "hierarchical", "dated", "turns", "statements", "graph"]


class SearchParameters(BaseModel):
    """A search. Whose memories are searched follows from the token; names only narrow them."""

    q: str = Field(min_length=1, max_length=10_000, description="the question", examples=["Where do I work now?"])
    collection: Name | None = Field(default=None, description="only this collection")
    project: Name | None = Field(default=None, description="only this project and the general memory")
    k: int = Field(default=10, ge=1, le=100, description="how many memories at most")
    all_results: bool = Field(default=False, description="k memories, also those that are hardly evidence")
    strategy: Strategy = Field(default="auto", description="how they are ranked")
    hops: int = Field(default=1, ge=0, le=2, description="links to follow")
    history: bool = Field(default=False, description="superseded versions too")
    as_of: IsoTimeOrDay | None = Field(default=None, description="what was latest at this time")
    since: IsoTimeOrDay | None = Field(default=None, description="earliest time or day of a memory")
    until: IsoTimeOrDay | None = Field(default=None, description="latest time or day of a memory")
    session: Name | None = Field(default=None, description="session to stay in")
    types: list[Name] = Field(default=[], max_length=20, description="memory types, any of them")
    tags: list[Name] = Field(default=[], max_length=20, description="tags, any of them")
    where: str | None = Field(
        default=None, max_length=2_000, description="what fields must satisfy", examples=["year >= 2025"]
    )
    min_score: float | None = Field(default=None, ge=-1, le=1, description="least cosine")
    budget_tokens: int = Field(default=1200, ge=50, le=16_000, description="tokens of the context")
    sources: Sources = Field(
        default="short", description="how the context cites: by number, by id with each place, or without sources"
    )
    abstain: bool = Field(default=False, description="nothing where no memory is likely to hold an answer")
    explain: bool = Field(default=False, description="say of each memory why it is there")
    subgraph: bool = Field(default=False, description="nodes, edges and facts of the results")
    include_pending: bool = Field(default=False, description="texts that are not built yet, by words")


class SearchBody(SearchParameters):
    """A search as a JSON body."""

    model_config = ConfigDict(extra="forbid", strict=True)

    turns: list[str] = Field(default=[], max_length=20, description="what was written before, oldest first")
    use_graph: bool = Field(default=True, description="follow links between memories; false sets hops to 0")


@router.get("/search", summary="Search memories")
def search(parameters: Annotated[SearchParameters, Query()], view: MayRead, service: SharedService) -> JsonObject:
    """Returns the memories that best answer a question, a cited context, and the context as one message of a chat."""
    return answer(service, view, parameters)


@router.post("/memories/search", summary="Search memories, by a JSON body")
def search_by_body(body: SearchBody, view: MayRead, service: SharedService) -> JsonObject:
    """Returns what GET /search returns; the body may have the turns before the question."""
    return answer(service, view, body)


@router.post("/memories/search/hierarchical", summary="Search by the hierarchy of topics")
def search_hierarchical(body: SearchBody, view: MayRead, service: SharedService) -> JsonObject:
    """Returns what GET /search returns with `strategy=hierarchical`."""
    return answer(service, view, body.model_copy(update={"strategy": "hierarchical"}))


@router.post("/memories/search/hybrid", summary="Search by vectors and words")
def search_hybrid(body: SearchBody, view: MayRead, service: SharedService) -> JsonObject:
    """Returns what GET /search returns with `strategy=hybrid`."""
    return answer(service, view, body.model_copy(update={"strategy": "hybrid"}))


def answer(service: Service, view: CallerView, parameters: SearchParameters) -> JsonObject:
    """Answers a search within the scopes of a caller."""
    scopes = view.scopes(parameters.collection, parameters.project)
    if not scopes:
        return _shown(empty_result(view.reader.build_id))
    options = parameters.model_dump(exclude={"q", "collection", "project", "use_graph"})
    if isinstance(parameters, SearchBody) and not parameters.use_graph:
        options["hops"] = 0
    service.warming.searched(view.identity.user)
    with service.searching:
        found = view.reader.search(parameters.q, scopes, **options)
    service.focus(view, scopes, [m.memory_id for m in found.memories[:1]])
    return _shown(found)


def _shown(found: SearchResult) -> JsonObject:
    message = found.message()
    return {**found.to_json(), "message": {"role": message["role"], "content": message["content"]}}


assert set(Strategy.__args__) - {"auto"} <= set(STRATEGIES)  # type: ignore[attr-defined]
