"""The tools that few agents need: only where they are set, and each for the caller's own memories alone."""

import asyncio
import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.serve.app import MCP_PATH, create_app
from palimpsest.serve.guard import make_token
from palimpsest.serve.settings import ServeSettings, serve_settings
from palimpsest.sources.crawl.address_guard import AddressPolicy
from tests.serve.conftest import TOKENS, client_of
from tests.serve.test_mcp import TOOLS

RARE = ["ingest_file", "ingest_url", "list_documents", "delete_document", "collection_info", "analyze_website"]


def call(home, user, name, arguments=None, all_tools=True):
    """Calls a tool by the official client; returns its JSON, or the text of its error. Without a name: the tools."""

    async def main():
        app = create_app(home, ServeSettings(TOKENS, all_tools=all_tools))
        headers = {"Authorization": f"Bearer {make_token(TOKENS, user)}"}
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=httpx2.ASGITransport(app), headers=headers) as http,
            Client(streamable_http_client(f"http://127.0.0.1:1{MCP_PATH}", http_client=http)) as client,
        ):
            if name is None:
                return [t.name for t in (await client.list_tools()).tools]
            done = await client.call_tool(name, arguments or {})
            text = "".join(part.text for part in done.content)
            return text if done.is_error else json.loads(text)

    return asyncio.run(main())


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
    from palimpsest.store.home import Home

    home = Home(served / "home")
    assert call(home, "ann", None) == [*TOOLS, *RARE] and call(home, "ann", None, all_tools=False) == TOOLS
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


def test_a_site_is_analyzed(home, site):
    assert call(home, "ann", "analyze_website", {"url": site})["urls"] == 1


@pytest.mark.parametrize("name", ["analyze_website", "ingest_url"])
def test_callers_read_the_public_web_alone_and_learn_nothing_of_the_inside(home, site, name, monkeypatch):
    monkeypatch.setattr("palimpsest.serve.mcp_server._PUBLIC", AddressPolicy())
    for url in (site, site.replace("127.0.0.1", "localhost")):
        answer = call(home, "ann", name, {"url": url})
        assert answer.startswith("Error") or "the page cannot be read" in answer
        assert "zqlight" not in answer and "127.0.0.1" not in answer
