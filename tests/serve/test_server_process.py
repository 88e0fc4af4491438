"""A server in a process of its own: strangers keep nobody out, and nothing that anybody wrote reaches its log."""

import io
import json
import logging
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from palimpsest.core.errors import ComponentFailed
from palimpsest.serve.guard import BODY_S, MAX_HEADER_BYTES, make_token
from palimpsest.serve.run_server import HEADER_S, MAX_WAITING, _Formatter
from tests.serve.conftest import TOKENS, start_server

MIB = 2**20
BEARER = {"Authorization": f"Bearer {make_token(TOKENS, 'ann')}"}


@pytest.fixture(scope="module")
def address(served):
    with start_server(served / "home") as (_, url):
        host, _, port = url.removeprefix("http://").partition(":")
        yield host, int(port)


def sent(address: tuple[str, int], data: bytes) -> socket.socket:
    opened = socket.create_connection(address, timeout=20)
    opened.sendall(data)
    return opened


def answer(connection: socket.socket) -> bytes:
    """Returns the first bytes of the answer; nothing where the connection was closed without one."""
    try:
        return connection.recv(4096)
    except ConnectionResetError:
        return b""


def head(path: str, length: int, headers: dict[str, str] | None = None) -> bytes:
    given = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": str(length), **(headers or {})}
    return f"POST {path} HTTP/1.1\r\n{''.join(f'{k}: {v}' + chr(13) + chr(10) for k, v in given.items())}\r\n".encode()


def test_connections_without_a_request_or_with_half_a_body_are_closed_and_keep_nobody_out(address):
    with ExitStack() as stack, httpx.Client(base_url=f"http://{address[0]}:{address[1]}", headers=BEARER) as client:
        begun = b"GET /health HTTP/1.1\r\nHost: x"
        waiting = [stack.enter_context(sent(address, begun)) for _ in range(MAX_WAITING + 44)]
        assert client.get("/health").status_code == 200
        assert client.get("/search", params={"q": "My bike"}).status_code == 200
        half = [stack.enter_context(sent(address, head("/memory", 8 * MIB, BEARER) + b"{" * 1000)) for _ in range(8)]
        assert client.post("/memories/search", json={"q": "My bike"}).status_code == 200
        time.sleep(max(HEADER_S, BODY_S) + 1)
        assert all(answer(connection) == b"" for connection in waiting)
        assert answer(half[0])[:12] == b"HTTP/1.1 408"


def test_a_body_without_a_token_is_not_read_and_a_small_one_gets_its_answer(address):
    with ExitStack() as stack:
        large = [stack.enter_context(sent(address, head("/memory", 32 * MIB) + b"{" * MIB)) for _ in range(20)]
        assert all(answer(c)[:12] in (b"HTTP/1.1 401", b"HTTP/1.1 429", b"") for c in large)
        small = stack.enter_context(sent(address, head("/memories/search", 10) + b'{"q": "x"}'))
        assert answer(small)[:12] in (b"HTTP/1.1 401", b"HTTP/1.1 429")


def test_an_endpoint_takes_a_body_of_its_own_size(address):
    with sent(address, head("/memories/search", 2 * MIB, BEARER)) as connection:
        assert answer(connection)[:12] == b"HTTP/1.1 413"


@pytest.mark.parametrize(
    "line", [b"X-Long: " + b"x" * 2 * MAX_HEADER_BYTES, b"\r\n".join(b"X-%d: x" % n for n in range(20_000))]
)
def test_headers_without_an_end_are_refused(address, line):
    with socket.create_connection(address, timeout=20) as connection:
        try:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n" + line + b"\r\n\r\n")
            assert answer(connection)[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 431", b"")
        except (BrokenPipeError, ConnectionResetError):
            pass


CANARY = "zqcanary"
LONG = CANARY * 20_000
MCP = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


def sample(schema: Mapping[str, Any], schemas: Mapping[str, Any], text: str) -> Any:
    """Returns a value of a JSON schema with a text in each place that takes one."""
    if ref := schema.get("$ref"):
        return sample(schemas.get(ref.rsplit("/", 1)[1], {"type": "object"}), schemas, text)
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return sample(next((s for s in schema[choice] if s.get("type") != "null"), {}), schemas, text)
    match schema.get("type"):
        case "object":
            return {n: sample(s, schemas, text) for n, s in schema.get("properties", {}).items()} | {text[:20]: text}
        case "array":
            return [sample(schema.get("items", {}), schemas, text)]
        case "integer" | "number":
            return 1
        case "boolean":
            return True
    return text


def requests_of(openapi: Mapping[str, Any], text: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yields method, path and arguments of a request to each endpoint, with a text wherever one may stand."""
    schemas = openapi["components"]["schemas"]
    short = text[:200]
    for path, methods in openapi["paths"].items():
        for method, described in methods.items():
            given = described.get("parameters", ())
            query = {p["name"]: str(sample(p["schema"], schemas, text[:2000])) for p in given if p["in"] == "query"}
            named = path
            for p in (p for p in given if p["in"] == "path"):
                named = named.replace(f"{{{p['name']}}}", short)
            if path == "/events":
                continue
            bodies = described.get("requestBody", {}).get("content", {})
            if not bodies:
                yield method, named, {"params": query}
            for kind, body in bodies.items():
                value = sample(body.get("schema", {}), schemas, text)
                yield method, named, {"content": json.dumps(value), "headers": {"Content-Type": kind}}
                yield method, named, {"content": f"{{{text}", "headers": {"Content-Type": kind}}


def call(client: httpx.Client, method: str, parameters: Mapping[str, Any]) -> httpx.Response:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
    return client.post("/mcp", json=message, headers=MCP)


def test_no_field_of_an_endpoint_or_a_tool_reaches_a_log_and_a_tool_names_what_it_cannot_use(home, tmp_path):
    log = tmp_path / "stderr"
    token = make_token(TOKENS, "ann", projects=[CANARY])
    with (
        start_server(home.path, log) as (_, url),
        httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client,
    ):
        queries = ({"query": LONG}, {"query": "bike", "user": "bob"})
        wrong = [call(client, "tools/call", {"name": "search_memory", "arguments": q}).json() for q in queries]
        openapi = client.get("/openapi.json").json()
        for text in (CANARY, LONG):
            for method, path, arguments in requests_of(openapi, text):
                if (method, path) != ("delete", "/users/me"):
                    assert client.request(method, path, **arguments).status_code != 500
        tools = call(client, "tools/list", {}).json()["result"]["tools"]
        for tool in tools:
            for text in (CANARY, LONG):
                arguments = sample(tool["inputSchema"], tool["inputSchema"].get("$defs", {}), text)
                for given in (arguments, {n: v for n, v in arguments.items() if not n.startswith(CANARY)}):
                    said = call(client, "tools/call", {"name": tool["name"], "arguments": given})
                    assert said.status_code == 200, said.text
        client.get("/search", params={"q": "x"}, headers={"Authorization": f"Bearer {CANARY}"})
    written = [log, *home.path.glob("logs/*"), *home.path.glob(".service/*")]
    assert [p.name for p in written if p.is_file() and CANARY.encode() in p.read_bytes()] == []
    assert "Traceback" not in log.read_text()
    assert all(answer["result"]["isError"] for answer in wrong)
    long, other = (answer["result"]["content"][0]["text"] for answer in wrong)
    assert "query: String should have at most 10000 characters" in long and CANARY not in long and "user" in other


@pytest.mark.parametrize("logger, words", [("palimpsest.serve", "zqwords"), ("other.library", CANARY)])
def test_a_record_has_words_of_our_own_calls_only_and_an_error_none(logger, words):
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(_Formatter())
    try:
        try:
            raise ValueError(CANARY)
        except ValueError:
            raise ComponentFailed("Neo4j does not answer") from None
    except ComponentFailed as e:
        record = logging.LogRecord(logger, logging.ERROR, __file__, 1, words, None, (type(e), e, e.__traceback__))
        handler.handle(record)
    written = out.getvalue()
    assert CANARY not in written and "Neo4j does not answer" in written and "builtins.ValueError" in written
    assert ("zqwords" in written) == (logger == "palimpsest.serve")
