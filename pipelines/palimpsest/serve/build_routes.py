"""Endpoints over the builds that the home keeps: which there are, and how the answers of two of them differ."""

from collections.abc import Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from threading import BoundedSemaphore, Lock
from typing import Annotated, cast

from fastapi import Query
from pydantic import Field, create_model

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonObject, json_value
from palimpsest.query.compare_answers import BuildReader, ComparedMemory, MemoryInBuild, compare_answers
from palimpsest.query.reader import open_index
from palimpsest.query.request.search_request import SearchOptions
from palimpsest.query.request.types import Scope
from palimpsest.serve.answers import BuildsAnswer, ComparedAnswers
from palimpsest.serve.open_reader import CallerView, scopes_by_user
from palimpsest.serve.problems import BUSY, NotFound, Problem
from palimpsest.serve.search_routes import SearchNames, question_is_q, served_fields
from palimpsest.serve.state import JsonRouter, MayRead, Service, SharedService
from palimpsest.store.builds import Build, kept_builds

router = JsonRouter(tags=["builds"])
WAIT_S = 10.0
"""How long a comparison waits for the one before it."""
_comparing = Lock()  # an earlier build is opened for one request and closed after it: two would share an open file
_MAX_WAITING = 4
"""Comparisons that wait for one: requests of others need the threads."""
_waiting = BoundedSemaphore(_MAX_WAITING)
_OF_ANSWER = ("budget_tokens", "sources", "subgraph", "explain", "include_pending")
"""Options of a search that change nothing in a comparison, or that are of no build."""
BuildId = Annotated[str, Field(pattern="^[0-9]{6}$", examples=["000001"])]


class CompareParameters(
    create_model("Compared", __base__=SearchNames, **served_fields(without=_OF_ANSWER))  # type: ignore[misc]
):
    """A question to two builds, with the options of a search."""

    before: BuildId = Field(description="the earlier build, of those that the home keeps")
    after: BuildId | None = Field(default=None, description="the later build; without it the published one")


@router.get("/builds", summary="List the builds that the home keeps", response_model=BuildsAnswer)
def builds(view: MayRead, service: SharedService) -> JsonObject:
    """Returns the builds that are or were published, newest first."""
    found = _published(service, view)
    return {
        "builds": [
            {
                "build_id": b.build_id,
                "created_at": b.manifest.created_at,
                "is_published": b.build_id == view.reader.build_id,
            }
            for b in reversed(found)
        ]
    }


@router.get("/search/compare", summary="Compare the answers of two builds", response_model=ComparedAnswers)
def compare(parameters: Annotated[CompareParameters, Query()], view: MayRead, service: SharedService) -> JsonObject:
    """Returns what entered, left, moved in rank or changed its state between the answers of two builds.

    What the published build does not show the caller any more, an earlier one does not show either.
    """
    known = {b.build_id: b for b in _published(service, view)}
    names = parameters.before, parameters.after or view.reader.build_id
    if not {*names} <= {*known}:
        raise NotFound
    options = parameters.model_dump(exclude={"q", "collection", "project", "before", "after"})
    with _one_at_a_time(), service.searching, ExitStack() as opened:
        before, after = (_opened(opened, known[name], view, parameters) for name in names)
        with question_is_q():
            found = compare_answers(parameters.q, before, after, cast(SearchOptions, options))
    ids = {i for m in found for i in (m.memory_id, *(b.disputed_by.memory_id for b in _in_builds(m) if b.disputed_by))}
    scopes = view.scopes()
    hidden = {i for i in ids if _is_hidden(view, scopes, i)}
    return {
        **dict(zip(("before", "after"), names, strict=True)),
        "memories": [json_value(_without(m, hidden)) for m in found if m.memory_id not in hidden],
    }


def _in_builds(memory: ComparedMemory) -> list[MemoryInBuild]:
    return [b for b in (memory.before, memory.after) if b is not None]


def _without(memory: ComparedMemory, hidden: Set[str]) -> ComparedMemory:
    """Returns a memory without the words of hidden ones that dispute it."""
    before, after = (
        replace(b, disputed_by=None) if b and b.disputed_by and b.disputed_by.memory_id in hidden else b
        for b in (memory.before, memory.after)
    )
    return replace(memory, before=before, after=after)


def _published(service: Service, view: CallerView) -> list[Build]:
    """Returns the builds that are or were published, oldest first: a later one is being made, or was refused."""
    return [b for b in kept_builds(service.home) if b.build_id <= view.reader.build_id]


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Lets one request after the other compare.

    Raises:
        Problem: 503, where another one takes long, or many wait.
    """
    busy = Problem(503, "another comparison is running; send it again", {"Retry-After": "5"}, BUSY)
    if not _waiting.acquire(blocking=False):
        raise busy
    try:
        if not _comparing.acquire(timeout=WAIT_S):
            raise busy
    finally:
        _waiting.release()
    try:
        yield
    finally:
        _comparing.release()


def _opened(opened: ExitStack, build: Build, view: CallerView, names: SearchNames) -> BuildReader:
    """Opens a build, for as long as the request; who may read what follows from the token, as in the published one.

    Raises:
        NotFound: the build was removed meanwhile.
    """
    if build.build_id == view.reader.build_id:
        return BuildReader(view.reader, view.scopes(names.collection, names.project))
    try:
        reader = opened.enter_context(open_index(build.index))
    except PalimpsestError:
        raise NotFound from None
    earlier = replace(view, reader=reader, by_user=scopes_by_user(reader.scopes()))
    return BuildReader(reader, earlier.scopes(names.collection, names.project))


def _is_hidden(view: CallerView, scopes: Sequence[Scope], memory_id: str) -> bool:
    """Returns whether the published build has a memory and does not show it: it was marked so since."""
    if not scopes or view.reader.memory(scopes, memory_id) is not None:
        return False
    return view.reader.memory(scopes, memory_id, include_hidden=True, include_pii=True) is not None
