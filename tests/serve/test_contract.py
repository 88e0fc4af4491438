"""Requests and messages of any form: no server error, and no break of the OpenAPI description."""

import asyncio
import json
import logging
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from starlette.websockets import WebSocketDisconnect

from palimpsest.serve.app import MCP_PATH
from palimpsest.serve.guard import make_token
from tests.serve.conftest import TOKENS, TOOLS, client_of, examples_of, serving

ENDLESS = "/events"
DELETES_ALL = "DELETE /users/me"


@pytest.fixture
def app(home):
    with serving(home, requests_per_minute=10_000_000, failures_per_minute=10_000_000) as made:
        yield made


def send_requests(operation, mode, examples, known) -> int:
    """Sends requests of one endpoint, half of those about a memory for one that the caller has; returns how many."""
    from schemathesis import GenerationMode
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    # What a description cannot say is refused too: a question without a word, a condition that is none.
    not_checked = [positive_data_acceptance]
    token = {"Authorization": f"Bearer {make_token(TOKENS, 'nobody' if operation.label == DELETES_ALL else 'ann')}"}
    sent = 0

    @given(operation.as_strategy(generation_mode=mode), st.booleans(), st.sampled_from(known))
    @settings(phases=[Phase.explicit, Phase.generate], **examples_of(examples))
    def send(case, is_known, memory_id):
        nonlocal sent
        sent += 1
        if is_known and mode is GenerationMode.POSITIVE and "memory_id" in (case.path_parameters or {}):
            case.path_parameters["memory_id"] = memory_id
        case.call_and_validate(headers=token, excluded_checks=not_checked)

    try:
        send()
    except Unsatisfiable:  # an endpoint without parameters has nothing to get wrong
        assert mode is GenerationMode.NEGATIVE
    return sent


@pytest.mark.parametrize("examples", [4, pytest.param(1000, marks=pytest.mark.slow)])
def test_every_endpoint_keeps_its_contract(app, examples):
    import schemathesis

    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    known = [m["memory_id"] for m in client_of(app, "ann").get("/search?q=bike+work&k=10").json()["memories"]]
    operations = [o for o in (result.ok() for result in schema.get_all_operations()) if o.path != ENDLESS]
    assert len(operations) > 25
    sent = 0
    for operation in operations:
        for mode in schemathesis.GenerationMode:
            sent += send_requests(operation, mode, examples, known)
        # A delete that still runs has the home, and a change is then answered 503, as described; others are dropped.
        deletions = app.state.service.operations
        deletions.close()
        deletions._pool = ThreadPoolExecutor(1)
    assert sent > 30 * examples


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
NUMBERS = [30, pytest.param(2000, marks=pytest.mark.slow)]


def examples(number):
    return settings(**examples_of(number))


@pytest.fixture
def app_fuzz(served, monkeypatch):
    monkeypatch.setattr("palimpsest.serve.event_routes.TOKEN_WAIT_S", 0.05)
    with serving(served / "home", requests_per_minute=10_000_000, failures_per_minute=10_000_000) as made:
        yield made


@pytest.mark.parametrize("number", NUMBERS)
def test_a_websocket_that_begins_with_anything_is_closed_and_not_a_fault(app_fuzz, number, caplog):
    caplog.set_level(logging.ERROR)
    with client_of(app_fuzz, None) as client:

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
def test_what_a_connected_client_sends_is_not_read(app_fuzz, number, caplog):
    caplog.set_level(logging.ERROR)
    with client_of(app_fuzz, None) as client:

        @given(st.lists(st.one_of(TEXT, st.binary(max_size=200)), max_size=5))
        @examples(number)
        def send(messages):
            with client.websocket_connect("/ws", subprotocols=["palimpsest", make_token(TOKENS, "ann")]) as socket:
                assert socket.receive_json()["type"] == "CONNECTED"
                for message in messages:
                    (socket.send_bytes if isinstance(message, bytes) else socket.send_text)(message)

        send()
    assert not caplog.records
    assert client_of(app_fuzz, "ann").get("/search?q=bike").status_code == 200


@pytest.mark.parametrize("number", NUMBERS)
def test_mcp_answers_requests_of_any_form_without_a_server_error(app_fuzz, number):
    method = st.sampled_from(["tools/call", "tools/list", "resources/read", "prompts/get", "initialize", "ping"]) | TEXT
    call = st.fixed_dictionaries(
        {
            "name": st.sampled_from(sorted(set(TOOLS) - {"add_memory", "update_memory", "delete_memory"})) | TEXT,
            "arguments": JSON,
        }
    )
    arguments = st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(("query", "memory_id", "kind", "since", "tags", "cursor", "collection", "limit"), JSON),
    )
    known = st.fixed_dictionaries(
        {"name": st.sampled_from(["search_memory", "get_memory", "recent", "search_graph"]), "arguments": arguments}
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
        async with (
            app_fuzz.router.lifespan_context(app_fuzz),
            httpx2.AsyncClient(transport=httpx2.ASGITransport(app_fuzz)) as http,
        ):
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
