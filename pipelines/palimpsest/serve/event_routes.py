"""Endpoints that stay open: events as a WebSocket and as server-sent events."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, WebSocket
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocketDisconnect

from palimpsest.serve.events import Connection, Event, TooManyConnections
from palimpsest.serve.guard import Guard, Identity
from palimpsest.serve.problems import Problem
from palimpsest.serve.state import MayReadOperations, Service, SharedService

router = APIRouter(tags=["events"])
TOKEN_WAIT_S = 5.0
"""How long a WebSocket may take to send its token."""
HEARTBEAT_S = 15.0
_SUBPROTOCOL = "palimpsest"
_CLOSE = {401: 4401, 403: 4403, 429: 4429}
_TOO_SLOW = Event("ERROR", {"code": 4408, "message": "events were lost: the client reads too slowly"})
_EXPIRED = Event("ERROR", {"code": 4401, "message": "the token has expired"})


_STREAM = {"type": "string", "description": "server-sent events; the data of each is a JSON object"}


@router.get(
    "/events",
    summary="Events of the caller, as server-sent events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": _STREAM}}}},
)
async def events(
    identity: MayReadOperations,
    service: SharedService,
    last_event_id: Annotated[str, Header(max_length=64, description="the last one that the client has")] = "",
) -> StreamingResponse:
    """Streams GRAPH_UPDATE, NODE_FOCUS, OPERATION, BUILD and ERROR, each with its data as JSON.

    With `Last-Event-ID`, what came of OPERATION and BUILD after that event is sent first.
    """

    async def stream() -> AsyncIterator[str]:
        try:
            with service.rooms.join(identity, last_event_id) as connection:
                await service.watch.begin(connection)
                yield ": connected\n\n"
                async for event in _until_expired(connection):
                    yield _lines(event) if event else ": still here\n\n"
        except TooManyConnections:
            yield 'event: ERROR\ndata: {"code": 4429, "message": "too many connections"}\n\n'

    return StreamingResponse(stream(), media_type="text/event-stream")


def _lines(event: Event) -> str:
    """Returns an event as lines of a stream."""
    named = f"id: {event.id}\n" if event.id else ""
    return f"{named}event: {event.type}\ndata: {json.dumps(event.data)}\n\n"


@router.websocket("/ws")
async def connect(socket: WebSocket) -> None:
    """Sends the caller's events.

    The token comes as subprotocol `palimpsest, TOKEN`, as the first message `{"token": ...}` or as `?token=`.
    """
    offered = [p.strip() for p in socket.headers.get("sec-websocket-protocol", "").split(",") if p.strip()]
    await socket.accept(subprotocol=_SUBPROTOCOL if _SUBPROTOCOL in offered else None)
    service: Service = socket.app.state.service
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        try:
            identity = await _identify(socket, offered)
            with service.rooms.join(identity) as connection:
                await service.watch.begin(connection)
                await socket.send_json({"type": "CONNECTED", "user": identity.user})
                await _serve(socket, connection)
        except (Problem, TooManyConnections) as e:
            status, message = (e.status, e.detail) if isinstance(e, Problem) else (429, "too many connections")
            code = _CLOSE.get(status, 4400)
            await socket.send_json({"type": "ERROR", "code": code, "message": message})
            await socket.close(code)


async def _identify(socket: WebSocket, offered: list[str]) -> Identity:
    """Returns the caller of a WebSocket.

    Raises:
        Problem: it sends no valid token in time.
    """
    token = socket.query_params.get("token", "") or next((p for p in offered if p != _SUBPROTOCOL), "")
    if not token:
        with contextlib.suppress(TimeoutError, ValueError, LookupError, TypeError):
            async with asyncio.timeout(TOKEN_WAIT_S):
                token = str(json.loads((await socket.receive_text())[:10_000])["token"])
    guard: Guard = socket.app.state.guard
    identity = await run_in_threadpool(guard.identify, token, socket.client.host if socket.client else "")
    if "read" not in identity.permissions:
        raise Problem(403, "the token does not allow to read")
    return identity


async def _serve(socket: WebSocket, connection: Connection) -> None:
    """Sends events until the client leaves or its token expires; what it sends is not read."""
    sending = asyncio.create_task(_send(socket, connection))
    leaving = asyncio.create_task(_wait_until_gone(socket))
    done, waiting = await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    for task in done:
        task.result()


async def _send(socket: WebSocket, connection: Connection) -> None:
    async for event in _until_expired(connection):
        await socket.send_json(event.to_json() if event else {"type": "HEARTBEAT"})
        if event and event.type == "ERROR":
            await socket.close(int(str(event.data["code"])))


async def _wait_until_gone(socket: WebSocket) -> None:
    with contextlib.suppress(WebSocketDisconnect):
        while (await socket.receive())["type"] != "websocket.disconnect":
            pass


async def _until_expired(connection: Connection) -> AsyncIterator[Event | None]:
    """Yields events, and None where there was none for `HEARTBEAT_S`; the last one is an error."""
    while (left := connection.identity.expires_at - time.time()) > 0:
        try:
            event = await connection.next(min(HEARTBEAT_S, left))
        except ConnectionError:
            yield _TOO_SLOW
            return
        yield event
    yield _EXPIRED
