"""Those who are connected are sent what changes for them, and nothing of anybody else; slow clients are closed."""

import asyncio
import json
import time

import pytest
from starlette.websockets import WebSocketDisconnect

from palimpsest.core.errors import DamagedFile
from palimpsest.pipeline.document_info import UnknownOperation
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.serve.app import create_app
from palimpsest.serve.events import MAX_CONNECTIONS, MAX_WAITING, Event, Rooms
from palimpsest.serve.guard import Identity, make_token
from palimpsest.serve.settings import ServeSettings
from tests.serve.conftest import TOKENS, client_of


def token(user: str, **claims: object) -> str:
    return make_token(TOKENS, user, **claims)


@pytest.fixture
def app(home, monkeypatch):
    monkeypatch.setattr("palimpsest.serve.event_routes.HEARTBEAT_S", 0.5)  # so that no test waits without an end
    return create_app(home, ServeSettings(TOKENS, 100_000, 100_000))


def receive_until(socket, type_: str, limit: int = 50) -> dict:
    for _ in range(limit):
        if (event := socket.receive_json())["type"] == type_:
            return event
    raise AssertionError(type_)


WAYS = {
    "the first message": lambda client: client.websocket_connect("/ws"),
    "a subprotocol": lambda client: client.websocket_connect("/ws", subprotocols=["palimpsest", token("ann")]),
    "the query": lambda client: client.websocket_connect(f"/ws?token={token('ann')}"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_client_connects_by_its_token(app, way):
    with client_of(app, None) as client, WAYS[way](client) as socket:
        if way == "the first message":
            socket.send_json({"token": token("ann")})
        assert socket.receive_json() == {"type": "CONNECTED", "user": "ann"}
        assert socket.accepted_subprotocol == ("palimpsest" if way == "a subprotocol" else None)


@pytest.mark.parametrize(
    "first", [json.dumps({"token": "x.y.z"}), "{", "[]", json.dumps({"token": None}), "x" * 20_000]
)
def test_without_a_valid_token_a_client_gets_one_error_and_is_closed(app, first):
    with client_of(app, None) as client, client.websocket_connect("/ws") as socket:
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
            sent = client.post(
                "/memory", json={"text": "I work at Quernmill with Ada Lovelace.", "collection": "chats"}
            )
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
                "type": "http",
                "asgi": {"version": "3.0", "spec_version": "2.3"},
                "http_version": "1.1",
                "method": "GET",
                "path": "/events",
                "raw_path": b"/events",
                "query_string": b"",
                "root_path": "",
                "scheme": "http",
                "headers": [(b"authorization", f"Bearer {token('ann')}".encode())],
                "client": ("127.0.0.1", 1),
                "server": ("127.0.0.1", 80),
            }
            streaming = asyncio.create_task(app(scope, receive, send))
            async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://x") as client:
                while not lines:
                    await asyncio.sleep(0.05)
                body, headers = (
                    {"text": "I like tea.", "collection": "chats"},
                    {"Authorization": f"Bearer {token('ann')}"},
                )
                assert (await client.post("/memory", json=body, headers=headers)).status_code == 202
            await asyncio.wait_for(done.wait(), 20)
            streaming.cancel()
            return lines

    lines = asyncio.run(main())
    assert lines[0] == ": connected" and "event: OPERATION" in lines
    assert json.loads(next(line for line in lines if line.startswith("data:"))[5:])["state"] == "received"


def test_a_connection_ends_when_its_token_expires(app, monkeypatch):
    monkeypatch.setattr("palimpsest.serve.guard.LEEWAY_S", 0)
    import datetime as dt

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
        from contextlib import ExitStack

        from palimpsest.serve.events import TooManyConnections

        with ExitStack() as stack:
            for _ in range(MAX_CONNECTIONS):
                stack.enter_context(rooms.join(ann))
            with pytest.raises(TooManyConnections):
                stack.enter_context(rooms.join(ann))
            stack.enter_context(rooms.join(Identity("bob")))

    asyncio.run(main())


def test_an_operation_that_cannot_be_read_now_is_read_again(app, monkeypatch):
    answers = iter([DamagedFile(app.state.service.home.path, "wait"), UnknownOperation("gone")])

    def status(*_: object) -> object:
        raise next(answers)

    monkeypatch.setattr("palimpsest.serve.events.operation_status", status)
    watch = app.state.service.watch

    async def main() -> list[str]:
        with app.state.service.rooms.join(Identity("ann")) as ann:
            watch.follow("ann", "of ann")
            watch.look()
            assert watch._operations, "it is followed still"
            watch.look()
            return [str(event.data["state"]) for _ in range(2) if (event := await ann.next(1))]

    assert asyncio.run(main()) == ["received", "deleted"]


def test_operations_of_users_who_never_connect_are_followed_for_so_many_users(app, monkeypatch):
    monkeypatch.setattr("palimpsest.serve.events.MAX_USERS", 3)
    service = app.state.service

    async def main() -> None:
        with service.rooms.join(Identity("ann")):
            for user in ("ann", "u1", "u2", "u1", "u3", "u4"):
                service.watch.follow(user, f"operation of {user}")
            assert list(service.watch._operations) == ["ann", "u3", "u4"], "of users who are away the oldest go"
            service.watch.look()
            assert list(service.watch._operations) == ["u3", "u4"], "what has ended is not followed"

    asyncio.run(main())
