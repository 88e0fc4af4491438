"""What the endpoints of one app share."""

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from inspect import iscoroutinefunction
from threading import BoundedSemaphore, Lock
from typing import Annotated, Any, Unpack, get_type_hints

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Request, Response
from fastapi.datastructures import DefaultPlaceholder
from fastapi.responses import JSONResponse

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonObject, JsonRecord
from palimpsest.query.request.search_request import SearchOptions
from palimpsest.query.request.types import Scope
from palimpsest.query.result import SearchResult
from palimpsest.serve.drawing_library import DrawingLibrary
from palimpsest.serve.events import Event, Rooms, Watch
from palimpsest.serve.guard import Identity, Permission, caller
from palimpsest.serve.open_reader import REFRESH_S, CallerView, PublishedState, SharedReader
from palimpsest.serve.operations import Operations
from palimpsest.serve.problems import BUSY, Problem
from palimpsest.serve.settings import ServeSettings
from palimpsest.serve.views import Positions
from palimpsest.store.home import Home

# Reads scopes into memory before they are searched: the first search of a scope takes several times as long.
#
# After a start and after each publication all scopes are cold, and searches of many users at once would wait for one
# another. Those who searched last come first.

MAX_WARM_S = 60.0
"""Seconds of reading after each publication; what is cold then is read by its first search."""
MAX_USERS = 1000
"""Users who are remembered as those that searched last."""
_LOG = logging.getLogger(__name__)


@dataclass
class Warming:
    """Warms the scopes of each published build in the background, one at a time.

    Attributes:
        reader: of the published build.
        searching: slots of searches; reading a scope takes one, so that it is no load beside a full house.
    """

    reader: SharedReader
    searching: BoundedSemaphore
    _users: OrderedDict[str, None] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def searched(self, user: str) -> None:
        """Remembers that a user searched just now."""
        with self._lock:
            self._users[user] = None
            self._users.move_to_end(user)
            while len(self._users) > MAX_USERS:
                self._users.popitem(last=False)

    async def run(self) -> None:
        """Warms each build that is published, until it is cancelled."""
        done: PublishedState | None = None
        while True:
            if (state := await run_sync(self.reader.published_state)) != done and state[0]:
                await self._warm(state)
                done = state
            await asyncio.sleep(REFRESH_S)

    async def _warm(self, state: PublishedState) -> None:
        ends = time.monotonic() + MAX_WARM_S
        try:
            for scope in await run_sync(self._order):
                if time.monotonic() > ends or await run_sync(self.reader.published_state) != state:
                    return
                await asyncio.sleep(await run_sync(self._read, scope))  # requests have half of the time
            await run_sync(self.load_models)
        except PalimpsestError as e:  # the request that meets it answers with its message
            _LOG.warning("warming: %s", type(e).__name__)

    def _order(self) -> list[Scope]:
        """Returns the scopes of the build: those of the users who searched last, then the others in their order."""
        with self._lock:
            recent = {user: place for place, user in enumerate(reversed(self._users))}
        with self.reader.borrowed() as reader:
            return sorted(reader.scopes(), key=lambda s: (recent.get(s.user_id, len(recent)), s))

    def load_models(self) -> None:
        """Loads what forms texts that are sent."""
        with self.reader.borrowed() as reader:
            reader.warm_pending()

    def _read(self, scope: Scope) -> float:
        """Reads a scope and returns the seconds that this took."""
        with self.searching, self.reader.borrowed() as reader:
            started = time.perf_counter()
            reader.warm(scope)
            return time.perf_counter() - started


# One change of the home at a time: what requests decide or edit waits for a build for a moment, then says so.

WAIT_S = 0.5
_BUSY = "a build is running; send it again when it is done"
_RETRY = {"Retry-After": "15"}


class Writer:
    """Lets one request after the other change a home."""

    def __init__(self, home: Home):
        self._home, self._lock = home, threading.Lock()  # the home's lock excludes other processes, not threads

    @contextmanager
    def change(self) -> Iterator[Home]:
        """Gives the home to one request.

        Yields:
            The home.

        Raises:
            Problem: 503, where a build or another request has the home.
        """
        with ExitStack() as locks:
            if not self._lock.acquire(timeout=WAIT_S):
                raise Problem(503, _BUSY, _RETRY, BUSY)
            locks.callback(self._lock.release)
            try:
                locks.enter_context(self._home.lock(WAIT_S))
            except PalimpsestError:
                raise Problem(503, _BUSY, _RETRY, BUSY) from None
            yield self._home


@dataclass(frozen=True)
class Service:
    """The home, its reader, what changes it, who is connected, and the settings."""

    home: Home
    reader: SharedReader
    operations: Operations
    settings: ServeSettings
    rooms: Rooms
    watch: Watch
    writer: Writer
    positions: Positions
    drawing: DrawingLibrary
    searching: BoundedSemaphore
    warming: Warming

    def search(
        self, view: CallerView, text: str, scopes: Sequence[Scope], **options: Unpack[SearchOptions]
    ) -> SearchResult:
        """Searches scopes of a caller, a few searches at a time, and sends the caller's connections where it led.

        Raises:
            ArgumentError: an option cannot be used.
        """
        self.warming.searched(view.identity.user)
        with self.searching:
            found = view.reader.search(text, scopes, **options)
        self._focus(view, scopes, [m.memory_id for m in found.memories[:1]])
        return found

    def _focus(self, view: CallerView, scopes: Sequence[Scope], memory_ids: Sequence[str]) -> None:
        """Sends the caller's connections the node that a search led to, where anybody is connected."""
        if not memory_ids or not self.rooms.connections(view.identity.user):
            return
        nodes = view.reader.graph(scopes).subgraph(memory_ids).nodes
        if nodes:
            best = max(nodes, key=lambda n: (n.importance or 0.0, n.node_id))
            self.rooms.send(view.identity.user, Event("NODE_FOCUS", {"node_id": best.node_id}))


def service_of(request: Request) -> Service:
    """Returns what the app of a request shares."""
    found: Service = request.app.state.service
    return found


SharedService = Annotated[Service, Depends(service_of)]


def viewer(permission: Permission) -> Callable[..., Iterator[CallerView]]:
    """Returns a dependency that gives what the caller reads, who must have a permission."""

    def view(
        identity: Annotated[Identity, Depends(caller(permission))], service: SharedService
    ) -> Iterator[CallerView]:
        with service.reader.view(identity) as found:
            yield found

    return view


MayRead = Annotated[CallerView, Depends(viewer("read"))]
MayWrite = Annotated[Identity, Depends(caller("write"))]
MayWriteView = Annotated[CallerView, Depends(viewer("write"))]
MayDelete = Annotated[CallerView, Depends(viewer("delete"))]
MayReadOperations = Annotated[Identity, Depends(caller("read"))]
MayDeleteAll = Annotated[Identity, Depends(caller("delete"))]


class JsonRouter(APIRouter):
    """Endpoints whose answers are described by a model and sent as they are: a test compares both.

    The model is `response_model`, else what the endpoint is annotated to return, where that is no `JsonObject`.
    """

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Adds an endpoint whose answer is not validated or encoded again: of a large graph that takes .2 s.

        An endpoint that takes `response: Response` sets headers by it.
        """

        def send(found: Any, values: dict[str, Any]) -> Any:
            if not isinstance(found, JsonRecord | dict):
                return found
            given = values.get("response")
            headers = dict(given.headers) if isinstance(given, Response) else None
            content = found.to_json() if isinstance(found, JsonRecord) else found
            return JSONResponse(content, options.get("status_code") or 200, headers)

        @wraps(endpoint)
        def answer(*args: Any, **values: Any) -> Any:
            return send(endpoint(*args, **values), values)

        @wraps(endpoint)
        async def answer_async(*args: Any, **values: Any) -> Any:
            return send(await endpoint(*args, **values), values)

        if isinstance(options.get("response_model"), DefaultPlaceholder) and _returns(endpoint) in (JsonObject, str):
            options["response_model"] = None
        super().add_api_route(path, answer_async if iscoroutinefunction(endpoint) else answer, **options)


def _returns(endpoint: Callable[..., Any]) -> Any:
    return get_type_hints(endpoint).get("return")
