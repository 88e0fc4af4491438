"""Messages of any form over the WebSocket and MCP: refused or answered, never a server error, and others are served."""

import asyncio
import json
import logging

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.websockets import WebSocketDisconnect

from palimpsest.serve.app import MCP_PATH, create_app
from palimpsest.serve.guard import make_token
from palimpsest.serve.settings import ServeSettings
from palimpsest.store.home import Home
from tests.serve.conftest import TOKENS, client_of
from tests.serve.test_mcp import TOOLS

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
NUMBERS = [pytest.param(60), pytest.param(2000, marks=pytest.mark.slow)]


def examples(number):
    return settings(
        max_examples=number, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )


@pytest.fixture
def app(served, monkeypatch):
    monkeypatch.setattr("palimpsest.serve.event_routes.TOKEN_WAIT_S", 0.05)
    made = create_app(Home(served / "home"), ServeSettings(TOKENS, 10_000_000, 10_000_000))
    yield made
    made.state.service.reader.close()


@pytest.mark.parametrize("number", NUMBERS)
def test_a_websocket_that_begins_with_anything_is_closed_and_not_a_fault(app, number, caplog):
    caplog.set_level(logging.ERROR)
    with client_of(app, None) as client:

        @given(st.one_of(TEXT, st.binary(max_size=200), JSON, st.fixed_dictionaries({"token": JSON})), TEXT)
        @examples(number)
        def connect(first, query):
            with client.websocket_connect("/ws", params={"token": query} if query.strip() else None) as socket:
                if isinstance(first, bytes):
                    socket.send_bytes(first)
                else:
                    socket.send_text(first if isinstance(first, str) else json.dumps(first))
                assert socket.receive_json()["code"] in (4401, 4403)
                with pytest.raises(WebSocketDisconnect):
                    socket.receive_json()

        connect()
    assert not caplog.records


@pytest.mark.parametrize("number", NUMBERS)
def test_what_a_connected_client_sends_is_not_read(app, number, caplog):
    caplog.set_level(logging.ERROR)
    with client_of(app, None) as client:

        @given(st.lists(st.one_of(TEXT, st.binary(max_size=200)), max_size=5))
        @examples(number)
        def send(messages):
            with client.websocket_connect("/ws", subprotocols=["palimpsest", make_token(TOKENS, "ann")]) as socket:
                assert socket.receive_json()["type"] == "CONNECTED"
                for message in messages:
                    (socket.send_bytes if isinstance(message, bytes) else socket.send_text)(message)

        send()
    assert not caplog.records
    assert client_of(app, "ann").get("/search?q=bike").status_code == 200


@pytest.mark.parametrize("number", NUMBERS)
def test_mcp_answers_requests_of_any_form_without_a_server_error(app, number):
    method = st.sampled_from(["tools/call", "tools/list", "resources/read", "prompts/get", "initialize", "ping"]) | TEXT
    call = st.fixed_dictionaries(
        {"name": st.sampled_from(sorted(set(TOOLS) - {"add_memory", "delete_memory"})) | TEXT, "arguments": JSON}
    )
    arguments = st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("query", "memory_id", "name", "k", "collection", "limit"), JSON)
    )
    known = st.fixed_dictionaries(
        {"name": st.sampled_from(["search_memory", "get_memory", "search_nodes", "timeline"]), "arguments": arguments}
    )
    message = st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0") | JSON, "id": JSON, "method": method, "params": st.one_of(JSON, call, known)}
    )
    headers = {
        "Authorization": f"Bearer {make_token(TOKENS, 'ann')}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
    }

    async def main() -> None:
        async with app.router.lifespan_context(app), httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as http:
            loop = asyncio.get_running_loop()

            def post(content: bytes) -> httpx2.Response:
                sent = http.post(f"http://127.0.0.1:1{MCP_PATH}", content=content, headers=headers, timeout=20)
                return asyncio.run_coroutine_threadsafe(sent, loop).result(30)

            @given(st.one_of(message.map(json.dumps), JSON.map(json.dumps), TEXT))
            @examples(number)
            def send(content):
                assert post(content.encode()).status_code < 500, content

            await asyncio.to_thread(send)

    asyncio.run(main())
