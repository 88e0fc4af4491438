"""The app: endpoints, errors, limits, and what they share."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from threading import BoundedSemaphore, Lock

from anyio.to_thread import run_sync
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.concurrency import run_in_threadpool

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonObject
from palimpsest.serve import (
    account_routes,
    build_routes,
    event_routes,
    graph_routes,
    memories_routes,
    review_routes,
    search_routes,
    session_routes,
    system_routes,
)
from palimpsest.serve import page_routes as page
from palimpsest.serve.deletions import Deletions
from palimpsest.serve.drawing_library import DrawingLibrary
from palimpsest.serve.events import Rooms, Watch
from palimpsest.serve.guard import AtPath, Envelope, Guard
from palimpsest.serve.mcp_server import MCP_PATH, allowed_hosts, create_mcp, resource_metadata_routes
from palimpsest.serve.memories_routes import SentMemory
from palimpsest.serve.open_reader import SharedReader
from palimpsest.serve.problems import ProblemDetails, add_handlers, describe_problem
from palimpsest.serve.scheduled_builds import ScheduledBuilds
from palimpsest.serve.settings import ServeSettings
from palimpsest.serve.state import Service, Warming, Writer
from palimpsest.serve.views import Positions
from palimpsest.store.home import Home, send_unwritten
from palimpsest.store.remote_home import refresh
from palimpsest.store.working_copy import WorkingCopy, working_copy

# Keeps the copy of a home on object storage up to date while it is served.

SYNC_S = 2.0
"""Seconds between two looks at the store, each of which is one small read."""
_LOG = logging.getLogger(__name__)


@dataclass
class StoreSync:
    """Reads what other machines published, and writes what was sent to the inbox here."""

    home: Path

    async def run(self) -> None:
        """Looks again and again, until it is cancelled; of a home that is a folder there is nothing to do."""
        if (copy := working_copy(self.home)) is None:
            return
        while True:
            try:
                await run_sync(self.look, copy)
            except PalimpsestError as e:  # the next look may reach the store, or find it free
                _LOG.warning("object storage", exc_info=e)
            except Exception as e:  # a full disk, say: without the next look nothing that is received is ever sent
                _LOG.error("object storage", exc_info=e)
            await asyncio.sleep(SYNC_S)

    def look(self, copy: WorkingCopy) -> None:
        """Brings the copy up to date, and writes what is new in it."""
        refresh(copy)
        send_unwritten(self.home, wait_s=0)


_PROBLEMS = {
    400: "the body cannot be read",
    401: "the token is missing or not valid",
    403: "the token does not allow it",
    404: "not there, or not the caller's",
    409: "what is changed is not as the request says",
    413: "the request is too large",
    415: "the body has another type",
    422: "a parameter cannot be used",
    429: "too many requests",
    503: "the memory store cannot answer now",
}


def create_app(
    home: Home, settings: ServeSettings, backend: str = "duckdb", host: str = "127.0.0.1", build_every: float = 0
) -> FastAPI:
    """Returns the app over a home; the published build is opened by the first request that needs it.

    Args:
        home: the home.
        settings: what it allows.
        backend: duckdb or neo4j.
        host: the address that it is served at: at the loopback address, MCP refuses requests for other hosts.
        build_every: minutes between builds of what was sent or changed; 0 means that the service builds nothing.
    """
    reader = SharedReader(home.path, backend, settings.shared)
    service, guard = make_service(home, reader, settings), Guard(settings)
    builds = ScheduledBuilds(home, service.rooms, build_every, graph=backend == "neo4j")
    mcp = create_mcp(service, guard)
    mcp_app = mcp.streamable_http_app(
        streamable_http_path=MCP_PATH,
        json_response=True,
        stateless_http=True,
        host=host,
        transport_security=allowed_hosts(settings, host),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with mcp.session_manager.run():
            parts = (service.watch, service.warming, StoreSync(home.path), builds)
            background = [asyncio.create_task(part.run()) for part in parts]
            yield
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)  # a build that runs is ended
        service.deletions.close()
        await run_in_threadpool(reader.close)

    app = FastAPI(
        title="Palimpsest",
        version=version("palimpsest-memory"),
        description="Memories of the caller: whose they are follows from the token.",
        lifespan=lifespan,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        generate_unique_id_function=lambda route: "_".join(
            [*map(str, route.tags), route.name]
        ),  # names of methods of clients
        responses={status: describe_problem(text) for status, text in _PROBLEMS.items()},
    )
    app.state.service, app.state.guard, app.state.builds = service, guard, builds
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    own = (account_routes, review_routes, session_routes, graph_routes)
    for routes in (search_routes, build_routes, memories_routes, *own, event_routes, system_routes):
        app.include_router(routes.router)
    app.include_router(page.router)
    app.router.routes.extend(resource_metadata_routes(settings))
    add_handlers(app)
    app.add_middleware(AtPath, path=MCP_PATH, other=mcp_app)
    app.add_middleware(Envelope, guard=guard, is_untimed=("/events",), takes_large=("/memory", MCP_PATH))
    return app


_DESCRIBING = Lock()
"""FastAPI collects the models of an app without a lock: requests that do so at once fail."""


def describe(app: FastAPI) -> JsonObject:
    """Returns the OpenAPI document of an app, with the schemas that its endpoints name and FastAPI does not find."""
    with _DESCRIBING:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            schemas = document["components"]["schemas"]
            for kind in (ProblemDetails, SentMemory):
                schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
                schemas |= schema.pop("$defs", {}) | {kind.__name__: schema}
            app.openapi_schema = document
        return app.openapi_schema


def make_service(home: Home, reader: SharedReader, settings: ServeSettings) -> Service:
    """Returns what the endpoints share."""
    deletions, rooms = Deletions(home), Rooms()
    positions = Positions(home)
    watch = Watch(home, reader, deletions, rooms, positions)
    # Searches at once: more would only take the interpreter from one another, and each would take longer.
    searching = BoundedSemaphore(os.cpu_count() or 2)
    warming = Warming(reader, searching)
    parts = (Writer(home), positions, DrawingLibrary(), searching, warming)
    return Service(home, reader, deletions, settings, rooms, watch, *parts)
