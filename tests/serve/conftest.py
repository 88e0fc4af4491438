"""A home of two users behind the app, and clients with tokens."""

import asyncio
import multiprocessing
import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.serve.app import MCP_PATH, create_app
from palimpsest.serve.guard import make_token
from palimpsest.serve.settings import ServeSettings, TokenSettings
from palimpsest.store.home import Home
from tests.command import CLI
from tests.export.made import with_own_vectors
from tests.small_corpus import copy_built, write_chats, write_notes

TOKENS = TokenSettings(secret="k" * 48)
TURNS = [
    ("s1", "ann", "Ann", "My bike is red zqann.", "2026-02-01T09:00:00Z"),
    ("s1", "ann", "Ann", "I work at Basin as a tester.", "2026-02-01T09:01:00Z"),
    ("s2", "ann", "Ann", "I work at Heron now, no longer at Basin.", "2026-03-02T09:00:00Z"),
    ("s3", "bob", "Bob", "My bike is blue zqbob.", "2026-02-03T10:00:00Z"),
]

TOOLS = [
    *("search_memory", "get_context", "get_memory", "add_memory", "update_memory", "delete_memory", "recent"),
    *("profile", "search_graph", "get_operation"),
]

Clients = Callable[..., TestClient]


@pytest.fixture(scope="package")
def served(tmp_path_factory, shared_vectors):
    """A built home with conversations of ann and bob, and notes that nobody owns."""
    base = tmp_path_factory.mktemp("served")
    corpus = write_notes(write_chats(base / "corpus", TURNS), {"hours.md": "The library opens at nine.\n"}, "town")
    plan = "---\nproject_id: apollo\n---\nThe bike rack of Apollo is zqgreen.\n"
    write_notes(corpus, {"plan.md": plan}, "plans", user_id="ann")
    home = Home(base / "home", shared_vectors)
    run_without_dagster(home, make_plan(home, [corpus]))
    return base


@pytest.fixture(scope="package", autouse=True)
def _kept_deleter():
    """Deletes run in one process, which takes four seconds to start; `own_deleter` gives a test the service's own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as kept, pytest.MonkeyPatch.context() as patch:
        patch.setattr("palimpsest.serve.operations.ProcessPoolExecutor", lambda *_: nullcontext(kept))
        patch.setattr("palimpsest.serve.open_reader.PENDING_WAIT_S", 60.0)  # other tests run beside these
        yield


@pytest.fixture
def own_deleter(monkeypatch):
    """A delete runs in a process of its own, as in a service."""
    monkeypatch.setattr("palimpsest.serve.operations.ProcessPoolExecutor", ProcessPoolExecutor)


@pytest.fixture
def home(served, tmp_path, shared_vectors):
    """A copy that a test may change, with vectors of its own."""
    return with_own_vectors(Home(copy_built(served, tmp_path)[0].path, shared_vectors))


@contextmanager
def start_server(
    home: Path, log: Path | None = None, port: int = 0, **settings: str
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Serves a home in a process of its own, with its stderr in a file; yields the process and the address."""
    environment = {**os.environ, "PALIMPSEST_JWT_SECRET": TOKENS.secret, **settings}
    command = [CLI, "serve", "--home", str(home), "--port", str(port), "--build-every", "0"]
    with (
        nullcontext(None) if log is None else log.open("w") as stderr,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True) as server,
    ):
        try:
            assert server.stdout is not None
            yield server, server.stdout.readline().split(" at ")[1].strip()
        finally:
            server.terminate()
            server.wait(30)


@pytest.fixture(scope="package")
def address(served, tmp_path_factory, shared_vectors):
    """A running server over a copy of the home, for generated clients and recipes."""
    home = copy_built(served, tmp_path_factory.mktemp("running"))[0]
    with start_server(with_own_vectors(Home(home.path, shared_vectors)).path) as (_, found):
        yield found


def examples_of(number: int) -> dict[str, Any]:
    """Settings of Hypothesis: so many examples, the same in each run, however long they take."""
    checks = {"deadline": None, "derandomize": True, "database": None, "suppress_health_check": list(HealthCheck)}
    return {"max_examples": number, **checks}


def client_of(app: FastAPI, user: str | None, **claims: object) -> TestClient:
    """Returns a client with a token of a user; without a user it sends none."""
    client = TestClient(app, raise_server_exceptions=False)
    if user is not None:
        client.headers["Authorization"] = f"Bearer {make_token(TOKENS, user, **claims)}"
    return client


@contextmanager
def serving(home: Home | Path, **settings: Any) -> Iterator[FastAPI]:
    """An app over a home, with no limits that a test would reach; closed at the end."""
    known = {"requests_per_minute": 100_000, "failures_per_minute": 100_000}
    app = create_app(home if isinstance(home, Home) else Home(home), ServeSettings(TOKENS, **(known | settings)))
    try:
        yield app
    finally:
        app.state.service.operations.close()
        app.state.service.reader.close()


@pytest.fixture(scope="package")
def clients(served):
    """Makes clients of an app that only reads."""
    with serving(served / "home", shared=frozenset({"town"})) as app:
        yield lambda user=None, **claims: client_of(app, user, **claims)


@pytest.fixture
def writers(home):
    """Makes clients of an app whose home a test may change."""
    with serving(home) as app:
        yield lambda user=None, **claims: client_of(app, user, **claims)


def speak(home: Home, user: str | None, work: Any, mode: str = "auto", all_tools: bool = False, **claims: Any) -> Any:
    """Connects the official MCP client to the app, in this process, and does some work with it."""

    async def main() -> Any:
        app = create_app(home, ServeSettings(TOKENS, all_tools=all_tools))
        headers = {"Authorization": f"Bearer {make_token(TOKENS, user, **claims)}"} if user else {}
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=httpx2.ASGITransport(app), headers=headers) as http,
            Client(streamable_http_client(f"http://127.0.0.1:1{MCP_PATH}", http_client=http), mode=mode) as client,
        ):
            return await work(client)

    return asyncio.run(main())


def text_of(result: Any) -> str:
    return "".join(part.text for part in result.content)


def call_tool(home: Home, user: str, name: str, arguments: Any = None) -> Any:
    """Calls a tool; returns its structured output, or the text of its error."""

    async def work(client: Any) -> Any:
        done = await client.call_tool(name, arguments or {})
        return text_of(done) if done.is_error else done.structured_content

    return speak(home, user, work, all_tools=True)


async def tools_of(client: Any) -> Any:
    return (await client.list_tools()).tools
