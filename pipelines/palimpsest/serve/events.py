"""Events: a room for each user with its connections, and the watch that sends each what a publication changed."""

import asyncio
import json
import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from starlette.concurrency import run_in_threadpool

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonObject, JsonValue, content_id
from palimpsest.pipeline.document_info import UnknownOperation, operation_status
from palimpsest.query.graph.subgraph import MAX_NODES
from palimpsest.serve.guard import Identity
from palimpsest.serve.open_reader import REFRESH_S, CallerView, PublishedState, SharedReader
from palimpsest.serve.operations import Operations
from palimpsest.serve.views import Positions
from palimpsest.store.builds import staged
from palimpsest.store.home import Home
from palimpsest.store.inbox import read_failures

EventType = Literal["GRAPH_UPDATE", "NODE_FOCUS", "OPERATION", "BUILD", "ERROR"]
MAX_CONNECTIONS = 16
"""Of one user."""
MAX_WAITING = 64
"""Events that wait for one connection; one that reads more slowly is closed."""
MAX_KEPT = 1_024
"""Of the last events of all users, for those who connect again; of the small types alone."""
_KEPT: tuple[EventType, ...] = ("OPERATION", "BUILD")


class TooManyConnections(Exception):
    """A user has as many connections as one may have."""


@dataclass(frozen=True)
class Event:
    """Something that happened; `data` are the fields of its type. A client that names `id` gets what came after it."""

    type: EventType
    data: JsonObject
    id: str = ""

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
        self._epoch, self._sent = uuid.uuid4().hex[:8], 0  # ids of another process mean nothing here
        self._kept: deque[tuple[str | None, Event]] = deque(maxlen=MAX_KEPT)

    @contextmanager
    def join(self, identity: Identity, last_event_id: str = "") -> Iterator[Connection]:
        """Connects a caller, for as long as the block.

        Args:
            identity: the caller.
            last_event_id: the last event that the caller has; what came after it is sent again, where it is kept.

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
            for event in self._after(last_event_id, identity.user):
                connection.send(event)
        try:
            yield connection
        finally:
            with self._lock:
                room.discard(connection)
                if not room and self._rooms.get(identity.user) is room:
                    del self._rooms[identity.user]

    def send(self, user: str, event: Event) -> None:
        """Sends an event to the connections of a user."""
        self._send(user, event)

    def send_all(self, event: Event) -> None:
        """Sends an event to every connection."""
        self._send(None, event)

    def _send(self, user: str | None, event: Event) -> None:
        with self._lock:
            if event.type in _KEPT:
                self._sent = max(self._sent + 1, time.monotonic_ns())  # a count would say how many others get
                event = replace(event, id=f"{self._epoch}-{self._sent}")
                self._kept.append((user, event))
            rooms = self._rooms.values() if user is None else [self._rooms.get(user, ())]
            for connection in (c for room in rooms for c in room):
                connection.send(event)

    def _after(self, last_event_id: str, user: str) -> list[Event]:
        epoch, _, number = last_event_id.partition("-")
        if epoch != self._epoch or not number.isascii() or not number.isdigit():
            return []
        mine = (event for of, event in self._kept if of in (None, user))
        return [event for event in mine if int(event.id.partition("-")[2]) > int(number)][-MAX_WAITING:]

    def connections(self, user: str) -> list[Connection]:
        """Returns the connections of a user."""
        with self._lock:
            return list(self._rooms.get(user, ()))

    def users(self) -> list[str]:
        """Returns the users who are connected."""
        with self._lock:
            return sorted(self._rooms)


# What changed in a caller's graph from one build to the next: only the difference is sent.


MAX_PAGES = 4
"""Of `MAX_NODES` nodes, the most important first: of a larger graph the rest is not followed."""
_UNSTABLE = ("updated_at", "access_count", "x", "y")  # a new node moves others: that alone is no change


@dataclass(frozen=True)
class GraphState:
    """A graph as its parts by id, and a hash of each: what was sent need not be kept."""

    nodes: Mapping[str, JsonObject] = field(default_factory=dict)
    edges: Mapping[str, JsonObject] = field(default_factory=dict)

    def hashes(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Returns a hash of each node and edge, by id."""
        nodes, edges = ({i: _hash(part) for i, part in parts.items()} for parts in (self.nodes, self.edges))
        return nodes, edges


Hashes = tuple[Mapping[str, str], Mapping[str, str]]


def read_graph(view: CallerView, positions: Positions) -> GraphState:
    """Returns the graph of a caller's own scopes."""
    nodes: dict[str, JsonObject] = {}
    edges: dict[str, JsonObject] = {}
    scopes = view.own_scopes()
    for page in range(MAX_PAGES if scopes else 0):
        found = view.reader.graph_page(scopes, page * MAX_NODES, MAX_NODES)
        fields = found.to_json()
        placed = positions.place(view.reader.build_id, view.scopes(), cast(list[JsonObject], fields["nodes"]))
        nodes |= {str(n["id"]): n for n in placed}
        edges |= {_edge_id(e): e for e in cast(list[JsonObject], fields["edges"])}
        if found.next_offset is None:
            break
    return GraphState(nodes, edges)


def difference(before: Hashes, now: GraphState) -> JsonObject | None:
    """Returns nodes and edges that are new or changed, and the ids of those that are gone; None where nothing is.

    Args:
        before: hashes of what the caller was sent.
        now: the graph.
    """
    nodes, edges = now.hashes()
    changed = {
        "nodes": cast(list[JsonValue], [now.nodes[i] for i, h in sorted(nodes.items()) if before[0].get(i) != h]),
        "edges": cast(
            list[JsonValue],
            [{"id": i, **now.edges[i]} for i, h in sorted(edges.items()) if before[1].get(i) != h],
        ),
    }
    removed: JsonObject = {
        "nodes": sorted(before[0].keys() - nodes.keys()),
        "edges": sorted(before[1].keys() - edges.keys()),
    }
    return {**changed, "removed": removed} if any(changed.values()) or any(removed.values()) else None


def _edge_id(edge: JsonObject) -> str:
    return content_id("edge", str(edge["source"]), str(edge["target"]), str(edge["type"]), str(edge.get("fact_id")))


def _hash(part: JsonObject) -> str:
    stable = {name: value for name, value in part.items() if name not in _UNSTABLE}
    return content_id(json.dumps(stable, sort_keys=True, default=str))


# Looks for publications while somebody is connected, and sends each what changed for them.

MAX_FOLLOWED = 1_000
"""Operations of one user that are followed until they end; of more the oldest are not."""
MAX_USERS = 1_000
"""Whose operations are followed; of more, those of users who are not connected go first, longest without one first."""
_ENDED = ("published", "rejected", "deleted", "consolidated", "failed")
_LOG = logging.getLogger("palimpsest.serve")


@dataclass(frozen=True)
class _Followed:
    """The last state of an operation, and the builds and failures at which it was looked at."""

    state: str
    builds: str = ""


@dataclass
class Watch:
    """Follows the published build and the operations of those who are connected."""

    home: Home
    reader: SharedReader
    operations: Operations
    rooms: Rooms
    positions: Positions
    _sent: dict[tuple[str, frozenset[str]], Hashes] = field(default_factory=dict)
    _operations: dict[str, dict[str, _Followed]] = field(default_factory=dict)
    _operations_lock: threading.Lock = field(default_factory=threading.Lock)
    _state: PublishedState = ("", 0, 0, "")
    _build: str | None = None

    def follow(self, user: str, operation_id: str) -> None:
        """Follows an operation of a user, from its receipt on."""
        with self._operations_lock:
            followed = self._operations.pop(user, {})
            while len(followed) >= MAX_FOLLOWED:
                followed.pop(next(iter(followed)))
            followed[operation_id] = _Followed("received")
            if len(self._operations) >= MAX_USERS:
                connected = set(self.rooms.users())
                away = (known for known in self._operations if known not in connected)
                del self._operations[next(away, next(iter(self._operations)))]
            self._operations[user] = followed
        self.rooms.send(user, Event("OPERATION", {"operation_id": operation_id, "state": "received"}))

    async def begin(self, connection: Connection) -> None:
        """Takes what a caller's graph is now as what they have; later only differences are sent."""
        key = _key(connection.identity)
        if key not in self._sent:
            self._sent[key] = (await run_in_threadpool(self._read, connection.identity)).hashes()

    async def run(self) -> None:
        """Looks again and again, until it is cancelled."""
        while True:
            await asyncio.sleep(REFRESH_S)
            try:
                await run_in_threadpool(self.look)
            except Exception as e:  # one failure must not end the events of all
                _LOG.warning("events: %s", type(e).__name__)

    def look(self) -> None:
        """Sends what changed since the last look."""
        state = self.reader.published_state()
        if self._build not in (None, state[0]):
            self.rooms.send_all(Event("BUILD", {"state": "published", "build_id": state[0]}))
        self._build = state[0]
        connected = self.rooms.users()
        identities = {_key(c.identity): c.identity for user in connected for c in self.rooms.connections(user)}
        self._sent = {key: sent for key, sent in self._sent.items() if key in identities}
        if not connected:
            return
        builds = str((state, staged(self.home).is_finished, read_failures(self.home.inbox)))
        for user in connected:
            self._look_at_operations(user, builds)
        if state == self._state:
            return
        for key, identity in identities.items():
            if key in self._sent:
                self._send_difference(key, identity)
        self._state = state

    def _send_difference(self, key: tuple[str, frozenset[str]], identity: Identity) -> None:
        now = self._read(identity)
        changed = difference(self._sent[key], now)
        self._sent[key] = now.hashes()
        if changed is not None:
            for connection in self.rooms.connections(identity.user):
                if connection.identity.projects == identity.projects:
                    connection.send(Event("GRAPH_UPDATE", changed))

    def _read(self, identity: Identity) -> GraphState:
        try:
            with self.reader.view(identity) as view:
                return read_graph(view, self.positions)
        except PalimpsestError:
            return GraphState()

    def _look_at_operations(self, user: str, builds: str) -> None:
        """Sends the operations whose state changed; one that was sent changes its state with a build alone."""
        with self._operations_lock:
            followed = self._operations.get(user, {})
            waiting = list(followed.items())
        for operation_id, before in waiting:
            now = self.operations.status(operation_id, user)
            if now is None and before.builds == builds:
                continue
            if (now := now or self._sent_operation(user, operation_id)) is None:
                continue
            state = str(now.get("state"))
            if state != before.state:
                self.rooms.send(user, Event("OPERATION", now))
            with self._operations_lock:
                if state not in _ENDED:
                    followed[operation_id] = _Followed(state, builds)
                elif followed.pop(operation_id, None) and not followed and self._operations.get(user) is followed:
                    del self._operations[user]

    def _sent_operation(self, user: str, operation_id: str) -> JsonObject | None:
        """Returns the state of a sent operation; None where it cannot be read now, so that it is read again."""
        try:
            return operation_status(self.home, operation_id, user).for_sender().to_json()
        except UnknownOperation:
            return {"operation_id": operation_id, "state": "deleted"}
        except PalimpsestError as e:
            _LOG.warning("operation %s: %s", operation_id, type(e).__name__)
            return None


def _key(identity: Identity) -> tuple[str, frozenset[str]]:
    return identity.user, identity.projects
