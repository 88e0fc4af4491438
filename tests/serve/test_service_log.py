"""The log of the service has nothing that anybody wrote: a canary in every field of every endpoint and tool."""

import io
import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from palimpsest.core.errors import ComponentFailed
from palimpsest.serve.guard import make_token
from palimpsest.serve.run_server import _Formatter
from tests.serve.conftest import TOKENS, start_server

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


def test_no_field_of_an_endpoint_or_a_tool_reaches_a_log(home, tmp_path):
    log = tmp_path / "stderr"
    token = make_token(TOKENS, "ann", projects=[CANARY])
    with (
        start_server(home.path, log) as (_, url),
        httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client,
    ):
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


def test_a_tool_says_which_argument_it_cannot_use(home):
    token = make_token(TOKENS, "ann")
    with (
        start_server(home.path) as (_, url),
        httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client,
    ):
        long = call(client, "tools/call", {"name": "search_memory", "arguments": {"query": LONG}})
        other = call(client, "tools/call", {"name": "search_memory", "arguments": {"query": "bike", "user": "bob"}})
    said = [a.json()["result"]["content"][0]["text"] for a in (long, other)]
    assert all(a.json()["result"]["isError"] for a in (long, other))
    assert "q: String should have at most 10000 characters" in said[0] and CANARY not in said[0]
    assert "user" in said[1]


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
