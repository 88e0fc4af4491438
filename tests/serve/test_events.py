"""Those who are connected are sent what changes for them and nothing of others; scopes are warmed for those here."""

import asyncio
import datetime as dt
import json
import time
from contextlib import ExitStack
from threading import BoundedSemaphore

import pytest
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from palimpsest.core.errors import DamagedFile
from palimpsest.pipeline.document_info import UnknownOperation
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query.reader import Reader, open_home
from palimpsest.query.request.types import Scope
from palimpsest.serve.app import create_app
from palimpsest.serve.events import MAX_CONNECTIONS, MAX_WAITING, Event, Rooms, TooManyConnections
from palimpsest.serve.guard import Identity, make_token
from palimpsest.serve.open_reader import SharedReader
from palimpsest.serve.settings import ServeSettings
from palimpsest.serve.state import MAX_USERS, Warming
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from tests.serve.conftest import TOKENS, client_of


def token(user: str, **claims: object) -> str:
    return make_token(TOKENS, user, **claims)


@pytest.fixture
def app(home, monkeypatch):
    monkeypatch.setattr("palimpsest.serve.event_routes.HEARTBEAT_S", 0.5)  # so that no test waits without an end
    return create_app(home, ServeSettings(TOKENS, 100_000, 100_000))


def receive_until(socket, type_: str, limit: int = 400) -> dict:
    for _ in range(limit):
        if (event := socket.receive_json())["type"] == type_:
            return event
    raise AssertionError(type_)


WAYS = {
    "the first message": lambda client: client.websocket_connect("/ws"),
    "a subprotocol": lambda client: client.websocket_connect("/ws", subprotocols=["palimpsest", token("ann")]),
    "the query": lambda client: client.websocket_connect(f"/ws?token={token('ann')}"),
}


def test_a_client_connects_by_its_token(app):
    with client_of(app, None) as client:
        for way, connect in WAYS.items():
            with connect(client) as socket:
                if way == "the first message":
                    socket.send_json({"token": token("ann")})
                assert socket.receive_json() == {"type": "CONNECTED", "user": "ann"}
                assert socket.accepted_subprotocol == ("palimpsest" if way == "a subprotocol" else None)


def test_without_a_valid_token_a_client_gets_one_error_and_is_closed(app):
    with client_of(app, None) as client:
        for first in (json.dumps({"token": "x.y.z"}), "{", "[]", json.dumps({"token": None}), "x" * 20_000):
            with client.websocket_connect("/ws") as socket:
                socket.send_text(first)
                error = socket.receive_json()
                assert (error["type"], error["code"]) == ("ERROR", 4401)
                with pytest.raises(WebSocketDisconnect) as closed:
                    socket.receive_json()
                assert closed.value.code == 4401


def test_a_build_sends_each_user_the_difference_of_their_own_graph(app, home, tmp_path):
    with client_of(app, "ann") as client, client.websocket_connect(f"/ws?token={token('ann')}") as ann:
        receive_until(ann, "CONNECTED")
        with client.websocket_connect(f"/ws?token={token('bob')}") as bob:
            receive_until(bob, "CONNECTED")
            text = "I work at Quernmill with Ada Lovelace."
            sent = client.post("/memory", json={"text": text, "collection": "chats"})
            operation = sent.json()["operation_id"]
            assert receive_until(ann, "OPERATION")["state"] == "received"
            run_without_dagster(home, make_plan(home, None))
            done = receive_until(ann, "OPERATION")
            assert (done["operation_id"], done["state"]) == (operation, "published")
            update = receive_until(ann, "GRAPH_UPDATE")
            assert set(update) == {"type", "nodes", "edges", "removed"}
            assert any("Quernmill" in n["name"] for n in update["nodes"]), update["nodes"]
            whole = client.get("/graph?limit=5000").json()
            assert len(update["nodes"]) < len(whole["nodes"]), "a difference, not the whole"
            client.get("/search?q=Where+do+I+work")
            assert receive_until(ann, "NODE_FOCUS")["node_id"] in {n["id"] for n in whole["nodes"]}
            app.state.service.rooms.send("bob", Event("OPERATION", {"operation_id": "mark", "state": "received"}))
            seen = receive_until(bob, "OPERATION")
            assert seen["operation_id"] == "mark" != operation, "bob was sent something of ann"


@pytest.mark.slow
def test_what_is_deleted_is_removed_from_the_graph_of_those_who_are_connected(app):
    with client_of(app, "ann") as client, client.websocket_connect(f"/ws?token={token('ann')}") as ann:
        receive_until(ann, "CONNECTED")
        client.delete("/users/me")
        removed = receive_until(ann, "GRAPH_UPDATE")["removed"]
        assert removed["nodes"]
        assert client.get("/graph").json()["nodes"] == []


def test_server_sent_events_are_the_same(app, home):
    async def main() -> list[str]:
        import httpx2

        async with app.router.lifespan_context(app):
            lines: list[str] = []
            done = asyncio.Event()

            async def receive():
                await done.wait()
                return {"type": "http.disconnect"}

            async def send(message):
                lines.extend(message.get("body", b"").decode().splitlines())
                if any("OPERATION" in line for line in lines):
                    done.set()

            scope = {
                **{"type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1"},
                **{"method": "GET", "path": "/events", "raw_path": b"/events", "query_string": b"", "root_path": ""},
                **{"scheme": "http", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)},
                "headers": [(b"authorization", f"Bearer {token('ann')}".encode())],
            }
            streaming = asyncio.create_task(app(scope, receive, send))
            async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://x") as client:
                while not lines:
                    await asyncio.sleep(0.05)
                body = {"text": "I like tea.", "collection": "chats"}
                headers = {"Authorization": f"Bearer {token('ann')}"}
                assert (await client.post("/memory", json=body, headers=headers)).status_code == 202
            await asyncio.wait_for(done.wait(), 20)
            streaming.cancel()
            return lines

    lines = asyncio.run(main())
    assert lines[0] == ": connected" and "event: OPERATION" in lines
    assert json.loads(next(line for line in lines if line.startswith("data:"))[5:])["state"] == "received"


def test_a_connection_ends_when_its_token_expires(app, monkeypatch):
    monkeypatch.setattr("palimpsest.serve.guard.LEEWAY_S", 0)
    short = make_token(TOKENS, "ann", lifetime=dt.timedelta(seconds=2))
    with client_of(app, None) as client, client.websocket_connect(f"/ws?token={short}") as socket:
        receive_until(socket, "CONNECTED")
        started = time.monotonic()
        assert receive_until(socket, "ERROR")["code"] == 4401 and time.monotonic() - started < 4


def test_a_slow_client_loses_its_connection_and_a_user_has_so_many():
    async def main() -> None:
        rooms, ann = Rooms(), Identity("ann")
        with rooms.join(ann) as connection:
            for number in range(MAX_WAITING + 1):
                rooms.send("ann", Event("NODE_FOCUS", {"node_id": str(number)}))
            rooms.send("bob", Event("NODE_FOCUS", {"node_id": "x"}))
            await asyncio.sleep(0)
            with pytest.raises(ConnectionError):
                await connection.next(1)
        assert rooms.users() == []
        with ExitStack() as stack:
            for _ in range(MAX_CONNECTIONS):
                stack.enter_context(rooms.join(ann))
            with pytest.raises(TooManyConnections):
                stack.enter_context(rooms.join(ann))
            stack.enter_context(rooms.join(Identity("bob")))

    asyncio.run(main())


def test_ids_of_events_go_up_and_do_not_count_those_of_others():
    async def main() -> list[int]:
        rooms = Rooms()
        with rooms.join(Identity("ann")) as connection:
            for user in ("ann", "bob", "bob", "ann"):
                rooms.send(user, Event("OPERATION", {}))
            return [int((await connection.next(1)).id.partition("-")[2]) for _ in range(2)]

    first, second = asyncio.run(main())
    assert first < second != first + 3


def test_operations_are_followed_until_they_end_of_so_many_users(app, monkeypatch):
    service = app.state.service
    answers = iter([DamagedFile(service.home.path, "wait"), UnknownOperation("gone")])

    def status(*_):
        raise next(answers)

    async def read_again():
        with service.rooms.join(Identity("ann")) as ann:
            service.watch.follow("ann", "of ann")
            service.watch.look()
            assert service.watch._operations, "it is followed still"
            service.watch.look()
            return [str(event.data["state"]) for _ in range(2) if (event := await ann.next(1))]

    async def of_many_users():
        with service.rooms.join(Identity("ann")):
            for user in ("ann", "u1", "u2", "u1", "u3", "u4"):
                service.watch.follow(user, f"operation of {user}")
            assert list(service.watch._operations) == ["ann", "u3", "u4"], "of users who are away the oldest go"
            service.watch.look()
            assert list(service.watch._operations) == ["u3", "u4"], "what has ended is not followed"

    with monkeypatch.context() as patch:
        patch.setattr("palimpsest.serve.events.operation_status", status)
        assert asyncio.run(read_again()) == ["received", "deleted"]
    monkeypatch.setattr("palimpsest.serve.events.MAX_USERS", 3)
    asyncio.run(of_many_users())


def wait_for(warmed: list[tuple[str, Scope]], home: Home, scopes: set[Scope]) -> None:
    build_id, deadline = published(home).build_id, time.monotonic() + 20
    while {scope for warm_build, scope in warmed if warm_build == build_id} != scopes:
        assert time.monotonic() < deadline, warmed
        time.sleep(0.02)


def test_a_start_and_each_publication_warm_every_scope_once(home, monkeypatch):
    warmed: list[tuple[str, Scope]] = []
    warm = Reader.warm
    monkeypatch.setattr(Reader, "warm", lambda r, s: (warm(r, s), warmed.append((r.build_id, s))))
    with open_home(home.path) as reader:
        scopes = set(reader.scopes())
    app = create_app(home, ServeSettings(TOKENS, 100_000, 100_000))
    with TestClient(app):
        wait_for(warmed, home, scopes)
        turns = home.sources["chats"] / "turns.jsonl"
        turns.write_text(turns.read_text().replace("blue", "green"))
        run_without_dagster(home, make_plan(home, None))
        wait_for(warmed, home, scopes)
        answer = client_of(app, "bob").get("/search", params={"q": "Which colour has my bike?"})
    assert "green" in answer.json()["context"]
    assert len(warmed) == 2 * len(scopes)


def test_those_who_searched_last_come_first_and_few_are_remembered(home):
    reader = SharedReader(home.path, "duckdb")
    warming = Warming(reader, BoundedSemaphore(1))
    for user in ("bob", "ann", *(f"u{i}" for i in range(MAX_USERS - 1)), "bob"):
        warming.searched(user)
    order = [scope.user_id for scope in warming._order()]
    reader.close()
    assert len(warming._users) == MAX_USERS and "ann" not in warming._users
    assert order[0] == "bob" and set(order[1:]) == {"ann", "shared"}
