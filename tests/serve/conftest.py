"""A home of two users behind the app, and clients with tokens."""

import multiprocessing
import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.serve.app import create_app
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
        patch.setattr("palimpsest.serve.deletions.ProcessPoolExecutor", lambda *_: nullcontext(kept))
        yield


@pytest.fixture
def own_deleter(monkeypatch):
    """A delete runs in a process of its own, as in a service."""
    monkeypatch.setattr("palimpsest.serve.deletions.ProcessPoolExecutor", ProcessPoolExecutor)


@pytest.fixture
def home(served, tmp_path, shared_vectors):
    """A copy that a test may change, with vectors of its own."""
    return with_own_vectors(Home(copy_built(served, tmp_path)[0].path, shared_vectors))


@contextmanager
def start_server(home: Path, log: Path | None = None) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Serves a home in a process of its own, with its stderr in a file; yields the process and the address."""
    environment = {**os.environ, "PALIMPSEST_JWT_SECRET": TOKENS.secret}
    command = [CLI, "serve", "--home", str(home), "--port", "0"]
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


def client_of(app: FastAPI, user: str | None, **claims: object) -> TestClient:
    """Returns a client with a token of a user; without a user it sends none."""
    client = TestClient(app, raise_server_exceptions=False)
    if user is not None:
        client.headers["Authorization"] = f"Bearer {make_token(TOKENS, user, **claims)}"
    return client


@pytest.fixture(scope="package")
def clients(served):
    """Makes clients of an app that only reads."""
    app = create_app(Home(served / "home"), ServeSettings(TOKENS, 100_000, 100_000, shared=frozenset({"town"})))
    yield lambda user=None, **claims: client_of(app, user, **claims)
    app.state.service.reader.close()


@pytest.fixture
def writers(home):
    """Makes clients of an app whose home a test may change."""
    app = create_app(home, ServeSettings(TOKENS, 100_000, 100_000))
    yield lambda user=None, **claims: client_of(app, user, **claims)
    app.state.service.deletions.close()
    app.state.service.reader.close()
