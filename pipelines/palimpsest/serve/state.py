"""What the endpoints of one app share."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import iscoroutinefunction
from threading import BoundedSemaphore
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse

from palimpsest.query.request.types import Scope
from palimpsest.serve.deletions import Deletions
from palimpsest.serve.events.rooms import Event, Rooms
from palimpsest.serve.events.watch import Watch
from palimpsest.serve.guard import caller
from palimpsest.serve.identity import Identity, Permission
from palimpsest.serve.open_reader import CallerView, SharedReader
from palimpsest.serve.page.drawing_library import DrawingLibrary
from palimpsest.serve.positions import Positions
from palimpsest.serve.settings import ServeSettings
from palimpsest.serve.warming import Warming
from palimpsest.serve.writing import Writer
from palimpsest.store.home import Home


@dataclass(frozen=True)
class Service:
    """The home, its reader, what changes it, who is connected, and the settings."""

    home: Home
    reader: SharedReader
    deletions: Deletions
    settings: ServeSettings
    rooms: Rooms
    watch: Watch
    writer: Writer
    positions: Positions
    drawing: DrawingLibrary
    searching: BoundedSemaphore
    warming: Warming

    def focus(self, view: CallerView, scopes: Sequence[Scope], memory_ids: Sequence[str]) -> None:
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
    """Endpoints that return JSON objects as they are: they are made by functions whose form is tested."""

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Adds an endpoint whose answer is not validated or encoded again: of a large graph that takes .2 s."""

        @wraps(endpoint)
        def answer(*args: Any, **values: Any) -> Any:
            found = endpoint(*args, **values)
            return JSONResponse(found, options.get("status_code") or 200) if isinstance(found, dict) else found

        is_async = iscoroutinefunction(endpoint)
        super().add_api_route(path, endpoint if is_async else answer, **{**options, "response_model": None})
