"""Agents read and write the memories of their token's user, by the official client, of this era and the one before."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from palimpsest.serve.app import MCP_PATH, create_app
from palimpsest.serve.guard import make_token
from palimpsest.serve.settings import ServeSettings
from palimpsest.store.home import Home
from tests.command import CLI
from tests.serve.conftest import TOKENS

TOOLS = [
    "search_memory",
    "get_context",
    "get_memory",
    "memory_history",
    "add_memory",
    "delete_memory",
    "search_nodes",
    "get_relations",
    "timeline",
    "list_collections",
    "get_operation",
    "whoami",
]
Work = Callable[[Client], Awaitable[object]]


def speak(home: Home, user: str | None, work: Work, mode: str = "auto", **claims: object) -> object:
    """Connects the official client to the app, in this process, and does some work with it."""

    async def main() -> object:
        app = create_app(home, ServeSettings(TOKENS))
        headers = {"Authorization": f"Bearer {make_token(TOKENS, user, **claims)}"} if user else {}
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=httpx2.ASGITransport(app), headers=headers) as http,
            Client(streamable_http_client(f"http://127.0.0.1:1{MCP_PATH}", http_client=http), mode=mode) as client,
        ):
            return await work(client)

    return asyncio.run(main())


def text_of(result) -> str:
    return "".join(part.text for part in result.content)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_lists_twelve_tools_in_one_order(served: Path, mode: str):
    async def work(client: Client) -> object:
        return [t async for t in _tools(client)]

    tools = speak(Home(served / "home"), "ann", work, mode)
    assert [t.name for t in tools] == TOOLS and all(t.description for t in tools)
    hints = {t.name: (t.annotations.read_only_hint, t.annotations.destructive_hint) for t in tools}
    assert hints["delete_memory"] == (False, True) and hints["add_memory"] == (False, False)
    assert all(hints[name][0] for name in TOOLS if name not in ("add_memory", "delete_memory"))


async def _tools(client: Client):
    for tool in (await client.list_tools()).tools:
        yield tool


def test_every_tool_answers_for_the_user_of_the_token_alone(home: Home):
    async def work(client: Client) -> None:
        async def call(tool: str, **arguments: object) -> str:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, (tool, text_of(result))
            assert "zqbob" not in text_of(result), tool
            return text_of(result)

        found = json.loads(await call("search_memory", query="What colour is my bike?"))["memories"]
        bike = next(m["memory_id"] for m in found if "zqann" in m["text"])
        assert "zqann" in await call("get_context", query="What colour is my bike?")
        assert "zqann" in await call("get_memory", memory_id=bike)
        assert "versions" in await call("memory_history", memory_id=bike)
        assert "Basin" in await call("search_nodes", name="Basin")
        assert "lines" in await call("get_relations", question="How do I relate to Basin?")
        assert "lines" in await call("timeline", question="Where do I work?")
        assert "chats" in await call("list_collections")
        assert json.loads(await call("whoami"))["user"] == "ann"
        added = json.loads(await call("add_memory", text="I like tea.", collection="chats"))
        assert json.loads(await call("get_operation", operation_id=added["operation_id"]))["state"] == "received"
        begun = json.loads(await call("delete_memory", memory_id=bike))
        assert json.loads(await call("get_operation", operation_id=begun["operation_id"]))["state"] in (
            "received",
            "deleted",
        )
        profile = await client.read_resource("palimpsest://profile")
        assert "zqbob" not in profile.contents[0].text
        prompt = await client.get_prompt("context", {"question": "Where do I work?"})
        assert "Heron" in prompt.messages[0].content.text

    speak(home, "ann", work)


def test_what_a_token_does_not_allow_is_an_error_and_reads_nothing(served: Path):
    async def work(client: Client) -> None:
        for tool, arguments in (
            ("add_memory", {"text": "I like tea."}),
            ("delete_memory", {"memory_id": "f" * 16}),
            ("get_memory", {"memory_id": "f" * 16}),
            ("search_memory", {"query": "bike", "k": 10_000}),
            ("search_memory", {}),
        ):
            result = await client.call_tool(tool, arguments)
            assert result.is_error and "zq" not in text_of(result), tool

    speak(Home(served / "home"), "ann", work, permissions=["read"])


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("search_memory", {"query": ""}, "query: "),
        ("get_context", {"query": "?!"}, "query: has no words"),
        ("search_memory", {"query": "bike", "collection": ""}, "collection\n  Value error, is empty"),
        ("add_memory", {"text": "I like tea.", "session": " "}, "session\n  Value error, is empty"),
        ("get_relations", {"question": "?!"}, "question: has no words"),
        (
            "search_nodes",
            {"name": "zxnobody"},
            "has this name; get_relations looks for words",
        ),
    ],
)
def test_an_argument_that_cannot_be_used_is_named_as_the_tool_names_it(served: Path, tool, arguments, message):
    async def work(client: Client) -> None:
        result = await client.call_tool(tool, arguments)
        assert result.is_error and message in text_of(result), text_of(result)
        assert "palimpsest " not in text_of(result)

    speak(Home(served / "home"), "ann", work, permissions=["read", "write"])


def test_without_a_token_no_tool_is_listed(served: Path):
    async def work(client: Client) -> None:
        await client.list_tools()

    with pytest.raises(BaseException):  # noqa: B017 (the client raises a group of its own)
        speak(Home(served / "home"), None, work)


def test_over_pipes_the_user_is_that_of_the_environment(served: Path):
    environment = {**os.environ, "PALIMPSEST_JWT_SECRET": TOKENS.secret, "PALIMPSEST_TOKEN": make_token(TOKENS, "bob")}
    arguments = ["serve", "mcp", "--home", str(served / "home")]

    async def main() -> str:
        async with Client(StdioServerParameters(command=str(CLI), args=arguments, env=environment)) as client:
            return text_of(await client.call_tool("search_memory", {"query": "What colour is my bike?"}))

    found = asyncio.run(main())
    assert "zqbob" in found and "zqann" not in found
