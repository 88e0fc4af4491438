"""Rooms: one for each user, with the connections that are sent what happens to their memories, and to no others."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from palimpsest.core.types import JsonObject
from palimpsest.serve.identity import Identity

EventType = Literal["GRAPH_UPDATE", "NODE_FOCUS", "OPERATION", "ERROR"]
MAX_CONNECTIONS = 16
"""Of one user."""
MAX_WAITING = 64
"""Events that wait for one connection; one that reads more slowly is closed."""


class TooManyConnections(Exception):
    """A user has as many connections as one may have."""


@dataclass(frozen=True)
class Event:
    """Something that happened; `data` are the fields of its type."""

    type: EventType
    data: JsonObject

    def to_json(self) -> JsonObject:
        """Returns the fields of the event with its type."""
        return {"type": self.type, **self.data}


@dataclass(eq=False)
class Connection:
    """One connected client."""

    identity: Identity
    loop: asyncio.AbstractEventLoop
    queue: "asyncio.Queue[Event]" = field(default_factory=lambda: asyncio.Queue(MAX_WAITING))
    is_too_slow: bool = False

    def send(self, event: Event) -> None:
        """Puts an event in its queue; from any thread."""
        self.loop.call_soon_threadsafe(self._put, event)

    def _put(self, event: Event) -> None:
        if self.queue.full():
            self.is_too_slow = True
            self.queue.get_nowait()  # the reader is woken, and sees that it was too slow
        self.queue.put_nowait(event)

    async def next(self, timeout_s: float) -> Event | None:
        """Returns the next event; None where there is none for so long.

        Raises:
            ConnectionError: events were lost because the client reads too slowly.
        """
        try:
            async with asyncio.timeout(timeout_s):
                event = await self.queue.get()
        except TimeoutError:
            event = None
        if self.is_too_slow:
            raise ConnectionError("too slow")
        return event


class Rooms:
    """The connections by user. Safe to use from any thread."""

    def __init__(self) -> None:
        self._rooms: dict[str, set[Connection]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def join(self, identity: Identity) -> Iterator[Connection]:
        """Connects a caller, for as long as the block.

        Yields:
            The connection.

        Raises:
            TooManyConnections: the user has `MAX_CONNECTIONS`.
        """
        connection = Connection(identity, asyncio.get_running_loop())
        with self._lock:
            room = self._rooms.setdefault(identity.user, set())
            if len(room) >= MAX_CONNECTIONS:
                raise TooManyConnections
            room.add(connection)
        try:
            yield connection
        finally:
            with self._lock:
                room.discard(connection)
                if not room and self._rooms.get(identity.user) is room:
                    del self._rooms[identity.user]

    def send(self, user: str, event: Event) -> None:
        """Sends an event to the connections of a user."""
        for connection in self.connections(user):
            connection.send(event)

    def connections(self, user: str) -> list[Connection]:
        """Returns the connections of a user."""
        with self._lock:
            return list(self._rooms.get(user, ()))

    def users(self) -> list[str]:
        """Returns the users who are connected."""
        with self._lock:
            return sorted(self._rooms)
