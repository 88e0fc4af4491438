"""Endpoints that search and list the caller's memories."""

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TypeAlias

from fastapi import Query, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model
from pydantic.fields import FieldInfo

from palimpsest.core.errors import ArgumentError
from palimpsest.core.ids import JsonObject
from palimpsest.core.message import DEPRECATED_SINCE, OLDER_SHAPES, Message, Name
from palimpsest.core.times import parse_time
from palimpsest.query.context.lines import Role
from palimpsest.query.recent import Narrowed
from palimpsest.query.request.search_request import OPTIONS, StrategyName, Tier, bounds, offer
from palimpsest.query.request.strategies import Weights
from palimpsest.query.request.where import MAX_CHARS, Where
from palimpsest.query.result import SearchResult, empty_result, memory_json
from palimpsest.serve.answers import RecentMemories, SearchWithMessage
from palimpsest.serve.open_reader import CallerView
from palimpsest.serve.state import JsonRouter, MayRead, Service, SharedService

# Types of fields that several endpoints have.


def _iso_time(value: object) -> dt.datetime | None:
    """Returns a time in ISO form; a number is none, which pydantic would take as seconds since 1970.

    Raises:
        ValueError: it is no time.
    """
    try:
        return parse_time(value if isinstance(value, str | None) else "")
    except (ValueError, OverflowError):
        raise ValueError("write a time such as 2026-03-01T09:30:00Z") from None


def _iso_time_or_day(value: object) -> dt.datetime | dt.date | None:
    """Returns a day alone as a date, and else as `_iso_time` does.

    Raises:
        ValueError: it is no time.
    """
    found = _iso_time(value)
    return found.date() if found and len(str(value).strip()) <= len("2026-03-01") else found


Collection = Annotated[Name | None, Query(description="only this collection")]
Project = Annotated[Name | None, Query(description="only this project and the general memory")]
IsoTime = Annotated[dt.datetime, BeforeValidator(_iso_time)]
IsoTimeOrDay = Annotated[dt.datetime | dt.date, BeforeValidator(_iso_time_or_day)]
"""A time, or a day: of each speaker's own clock where memories are compared with it."""


router = JsonRouter(tags=["search"])
_TYPES: dict[Any, Any] = {
    str | None: Name | None,
    dt.datetime | None: IsoTimeOrDay | None,
    tuple[str, ...]: Annotated[list[Name], Field(max_length=20)],
    Where | None: Annotated[str | None, Field(max_length=MAX_CHARS)],
    str | Weights: StrategyName,
    tuple[Tier, ...]: list[Tier],
    dt.timedelta | None: Annotated[str | None, Field(max_length=20)],
    str: Annotated[str, Field(max_length=10_000)],
}
"""The types of fields of a search in a request, where they differ."""


FieldDefinitions: TypeAlias = dict[str, tuple[Any, Any]]
"""Type and `Field` of each field of a model, by name, as `create_model` takes them."""


def served_fields(without: Sequence[str] = ()) -> FieldDefinitions:
    """Returns the fields of a search that a request may set, with the types and limits of the service."""
    fields: FieldDefinitions = {}
    for name, field in OPTIONS.items():
        if not (at := offer(field)).served or name in without:
            continue
        low, high = bounds(field)
        default = field.default if at.served_default is None else at.served_default
        default = [] if default == () else default
        limits = Field(
            default,
            ge=low if at.least is None else at.least,
            le=high if at.most is None else at.most,
            description=_described(field),
            examples=field.examples,
        )
        fields[name] = (_TYPES.get(field.annotation, field.annotation), limits)
    return fields


def _described(field: FieldInfo) -> str:
    """Returns the description of a field as those of other parameters are written: a phrase without a full stop."""
    text = field.description or ""
    return f"{text[0].lower()}{text[1:]}".removesuffix(".")


class SearchNames(BaseModel):
    """The question of a search, and what narrows its scopes."""

    q: str = Field(min_length=1, max_length=10_000, description="the question", examples=["Where do I work now?"])
    collection: Name | None = Field(default=None, description="only this collection")
    project: Name | None = Field(default=None, description="only this project and the general memory")


class SearchParameters(create_model("Served", __base__=SearchNames, **served_fields())):  # type: ignore[misc]
    """A search. Whose memories are searched follows from the token; names only narrow them."""

    role: Role = Field(default="user", description="of the message with the context")


class RecentParameters(
    create_model("Narrowed", **{n: f for n, f in served_fields().items() if n in Narrowed.__annotations__})  # type: ignore[misc]
):
    """Which memories are listed."""

    collection: Collection = None
    project: Project = None
    limit: int = Field(default=20, ge=1, le=1_000, description="how many at most")
    offset: int = Field(default=0, ge=0, le=100_000, description="of the first one")


class SearchBody(SearchParameters):
    """A search as a JSON body."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"q": "Where?", "k": 5, "turns": [{"role": "user", "content": "I moved."}]}]},
    )

    turns: list[Message] = Field(default=[], max_length=20, description="what was written before, oldest first")
    use_graph: bool = Field(default=True, description="follow links between memories; false sets hops to 0")


@router.get("/search", summary="Search memories", response_model=SearchWithMessage)
def search(parameters: Annotated[SearchParameters, Query()], view: MayRead, service: SharedService) -> JsonObject:
    """Returns the memories that best answer a question, a cited context, and the context as one message of a chat."""
    return answer(service, view, parameters)


@router.post("/memories/search", summary="Search memories, by a JSON body", response_model=SearchWithMessage)
def search_by_body(body: SearchBody, view: MayRead, service: SharedService, response: Response) -> JsonObject:
    """Returns what GET /search returns; the body may have the turns before the question."""
    mark_older_shapes(body.turns, response)
    return answer(service, view, body)


@router.post(
    "/memories/search/hierarchical", summary="Search by the hierarchy of topics", response_model=SearchWithMessage
)
def search_hierarchical(body: SearchBody, view: MayRead, service: SharedService, response: Response) -> JsonObject:
    """Returns what GET /search returns with `strategy=hierarchical`."""
    mark_older_shapes(body.turns, response)
    return answer(service, view, body.model_copy(update={"strategy": "hierarchical"}))


@router.post("/memories/search/hybrid", summary="Search by vectors and words", response_model=SearchWithMessage)
def search_hybrid(body: SearchBody, view: MayRead, service: SharedService, response: Response) -> JsonObject:
    """Returns what GET /search returns with `strategy=hybrid`."""
    mark_older_shapes(body.turns, response)
    return answer(service, view, body.model_copy(update={"strategy": "hybrid"}))


@router.get("/memories", summary="List the newest memories", response_model=RecentMemories)
def recent(parameters: Annotated[RecentParameters, Query()], view: MayRead) -> JsonObject:
    """Returns what is current, also what was sent just now, newest first and undated ones last; all with history."""
    scopes = view.formed_scopes(parameters.collection, parameters.project)
    if not scopes:
        return {"memories": [], "next_offset": None}
    narrow = parameters.model_dump(include={*Narrowed.__annotations__})
    start, n = parameters.offset, parameters.limit
    found = view.reader.recent(scopes, n + 1, offset=start, include_pending=True, **narrow)  # type: ignore[typeddict-item]
    return {"memories": [memory_json(m) for m in found[:n]], "next_offset": start + n if len(found) > n else None}


def answer(service: Service, view: CallerView, parameters: SearchParameters) -> JsonObject:
    """Answers a search within the scopes of a caller."""
    find = view.formed_scopes if parameters.include_pending else view.scopes  # before it takes the place of another
    scopes = find(parameters.collection, parameters.project)
    if parameters.accessed_within is not None:  # reads of a shared scope are those of all callers
        scopes = [s for s in scopes if view.shared.get(s.collection) != s.user_id]
    if not scopes:
        return _shown(empty_result(view.reader.build_id), parameters.role)
    options = parameters.model_dump(exclude={"q", "collection", "project", "role", "use_graph", "turns"})
    if isinstance(parameters, SearchBody):
        options |= {"turns": parameters.turns} | ({} if parameters.use_graph else {"hops": 0})
    with question_is_q():
        return _shown(service.search(view, parameters.q, scopes, **options), parameters.role)


@contextmanager
def question_is_q() -> Iterator[None]:
    """Names the question as requests do where it cannot be used.

    Raises:
        ArgumentError: an option or the question cannot be used.
    """
    try:
        yield
    except ArgumentError as e:
        raise ArgumentError("q", e.problem, e.value) if e.argument == "text" else e from None


def _shown(found: SearchResult, role: Role) -> JsonObject:
    message = found.message(role)
    return {**found.to_json(), "message": {"role": message["role"], "content": message["content"]}}


def mark_older_shapes(messages: Iterable[Message], response: Response) -> None:
    """Says in the answer to a request that a message of it has a shape that the next release does not read."""
    if any(m.is_older for m in messages):
        response.headers["Deprecation"] = f"@{DEPRECATED_SINCE.timestamp():.0f}"  # RFC 9745
        response.headers["Palimpsest-Deprecated"] = OLDER_SHAPES
