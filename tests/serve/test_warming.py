"""Scopes are read into memory in the background: those of users who searched last come first."""

import time
from threading import BoundedSemaphore

from fastapi.testclient import TestClient

from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query.reader import Reader, open_home
from palimpsest.query.request.types import Scope
from palimpsest.serve.app import create_app
from palimpsest.serve.open_reader import SharedReader
from palimpsest.serve.settings import ServeSettings
from palimpsest.serve.state import MAX_USERS, Warming
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from tests.serve.conftest import TOKENS, client_of


def wait_for(warmed: list[tuple[str, Scope]], home: Home, scopes: set[Scope]) -> None:
    build_id, deadline = published(home).build_id, time.monotonic() + 20
    while {scope for warm_build, scope in warmed if warm_build == build_id} != scopes:
        assert time.monotonic() < deadline, warmed
        time.sleep(0.02)


def test_a_start_and_each_publication_warm_every_scope_once(home, monkeypatch):
    warmed: list[tuple[str, Scope]] = []
    warm = Reader.warm
    monkeypatch.setattr(Reader, "warm", lambda r, s: (warm(r, s), warmed.append((r.build_id, s))))
    with open_home(home.path) as reader:
        scopes = set(reader.scopes())
    app = create_app(home, ServeSettings(TOKENS, 100_000, 100_000))
    with TestClient(app):
        wait_for(warmed, home, scopes)
        turns = home.sources["chats"] / "turns.jsonl"
        turns.write_text(turns.read_text().replace("blue", "green"))
        run_without_dagster(home, make_plan(home, None))
        wait_for(warmed, home, scopes)
        answer = client_of(app, "bob").get("/search", params={"q": "Which colour has my bike?"})
    assert "green" in answer.json()["context"]
    assert len(warmed) == 2 * len(scopes)


def test_those_who_searched_last_come_first_and_few_are_remembered(home):
    reader = SharedReader(home.path, "duckdb")
    warming = Warming(reader, BoundedSemaphore(1))
    for user in ("bob", "ann", *(f"u{i}" for i in range(MAX_USERS - 1)), "bob"):
        warming.searched(user)
    order = [scope.user_id for scope in warming._order()]
    reader.close()
    assert len(warming._users) == MAX_USERS and "ann" not in warming._users
    assert order[0] == "bob" and set(order[1:]) == {"ann", "shared"}
