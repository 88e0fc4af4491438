"""Agents read and write the memories of their token's user; rare tools only where they are set."""

import asyncio
import base64
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from mcp import Client, StdioServerParameters

from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.serve.app import create_app
from palimpsest.serve.guard import make_token
from palimpsest.serve.settings import ServeSettings, serve_settings
from palimpsest.sources.crawl.address_guard import AddressPolicy
from palimpsest.store.home import Home
from tests.command import CLI
from tests.serve.conftest import TOKENS, TOOLS, client_of, speak, text_of, tools_of
from tests.serve.conftest import call_tool as call


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_lists_twelve_tools_in_one_order(served, mode):
    tools = speak(Home(served / "home"), "ann", tools_of, mode)
    assert [t.name for t in tools] == TOOLS and all(t.description for t in tools)
    hints = {t.name: (t.annotations.read_only_hint, t.annotations.destructive_hint) for t in tools}
    assert hints["delete_memory"] == (False, True) and hints["add_memory"] == (False, False)
    assert all(hints[name][0] for name in TOOLS if name not in ("add_memory", "delete_memory"))


def test_every_tool_answers_for_the_user_of_the_token_alone(home):
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
        state = json.loads(await call("get_operation", operation_id=begun["operation_id"]))["state"]
        assert state in ("received", "deleted")
        profile = await client.read_resource("palimpsest://profile")
        assert "zqbob" not in profile.contents[0].text
        prompt = await client.get_prompt("context", {"question": "Where do I work?"})
        assert "Heron" in prompt.messages[0].content.text

    speak(home, "ann", work)


def test_what_a_token_does_not_allow_is_an_error_and_reads_nothing(served):
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


def test_without_a_token_no_tool_is_listed(served):
    with pytest.raises(BaseException):  # noqa: B017 (the client raises a group of its own)
        speak(Home(served / "home"), None, tools_of)


def test_over_pipes_the_user_is_that_of_the_environment(served):
    environment = {**os.environ, "PALIMPSEST_JWT_SECRET": TOKENS.secret, "PALIMPSEST_TOKEN": make_token(TOKENS, "bob")}
    arguments = ["serve", "mcp", "--home", str(served / "home")]

    async def main() -> str:
        async with Client(StdioServerParameters(command=str(CLI), args=arguments, env=environment)) as client:
            return text_of(await client.call_tool("search_memory", {"query": "What colour is my bike?"}))

    found = asyncio.run(main())
    assert "zqbob" in found and "zqann" not in found


RARE = ["ingest_file", "ingest_url", "list_documents", "delete_document", "collection_info", "analyze_website"]


@pytest.fixture
def site(monkeypatch):
    """A site of one page on this machine, which the guard lets pass in the test alone."""

    class Site(BaseHTTPRequestHandler):
        def do_GET(self):
            is_page = self.path == "/"
            self.send_response(200 if is_page else 404)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            if is_page:
                self.wfile.write(b"<html><body><main><p>The lighthouse of Weir is zqlight.</p></main></body></html>")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("PALIMPSEST_WEB_ALLOW_PRIVATE", "127.0.0.1")
    monkeypatch.setattr("palimpsest.serve.mcp_server._PUBLIC", AddressPolicy.from_environment())
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_they_follow_the_common_tools_where_they_are_set(served, monkeypatch):
    listed = [[t.name for t in speak(Home(served / "home"), "ann", tools_of, all_tools=a)] for a in (True, False)]
    assert listed == [[*TOOLS, *RARE], TOOLS]
    monkeypatch.setenv("PALIMPSEST_JWT_SECRET", "k" * 40)
    assert not serve_settings().all_tools
    monkeypatch.setenv("PALIMPSEST_MCP_TOOLS", "all")
    assert serve_settings().all_tools


def test_documents_and_figures_are_the_callers_own(home):
    listed = call(home, "ann", "list_documents")["documents"]
    assert {d["collection"] for d in listed} == {"chats"} and sum(d["memories"] for d in listed) == 3
    info = call(home, "bob", "collection_info", {"collection": "chats"})
    assert (info["memories"], info["documents"]) == (1, 1)
    assert "no such thing" in call(home, "bob", "collection_info", {"collection": "plans"})
    uri = listed[0]["uri"]
    assert "operation_id" in call(home, "ann", "delete_document", {"uri": uri, "collection": "chats"})
    assert "no such thing" in call(home, "ann", "delete_document", {"uri": "nowhere", "collection": "chats"})


def test_a_file_and_a_page_become_memories_of_the_caller(home, site):
    content = base64.b64encode(b"The oar is zqoar.\n").decode()
    sent = call(home, "ann", "ingest_file", {"name": "oar.md", "content_base64": content, "collection": "chats"})
    assert sent["state"] == "received"
    assert "not base64" in call(home, "ann", "ingest_file", {"name": "a.md", "content_base64": "%"})
    read = call(home, "ann", "ingest_url", {"url": site, "collection": "chats"})
    assert read["stored"] == 1 or read["counts"]["stored"] == 1
    run_without_dagster(home, make_plan(home, None))
    app = create_app(home, ServeSettings(TOKENS))
    for word in ("zqoar", "zqlight"):
        assert word in client_of(app, "ann").get("/search", params={"q": f"what is {word}"}).text
        assert word not in client_of(app, "bob").get("/search", params={"q": "what is the lighthouse, the oar"}).text
    app.state.service.reader.close()


def test_callers_read_the_public_web_alone_and_learn_nothing_of_the_inside(served, site, monkeypatch):
    home = Home(served / "home")
    assert call(home, "ann", "analyze_website", {"url": site})["urls"] == 1
    monkeypatch.setattr("palimpsest.serve.mcp_server._PUBLIC", AddressPolicy())
    for name in ("analyze_website", "ingest_url"):
        for url in (site, site.replace("127.0.0.1", "localhost")):
            answer = call(home, "ann", name, {"url": url})
            assert answer.startswith("Error") or "the page cannot be read" in answer
            assert "zqlight" not in answer and "127.0.0.1" not in answer
