"""Ten thousand requests with forged, expired and swapped tokens and with ids of others: nothing leaks."""

import datetime as dt
from random import Random

import jwt
import pytest
from fastapi.testclient import TestClient
from mcp import Client

from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.serve.guard import make_token
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from tests.serve.conftest import TOKENS, serving, speak, text_of
from tests.small_corpus import write_chats

pytestmark = pytest.mark.slow
USERS = [f"user{n:02}" for n in range(20)]
REQUESTS = 10_000


@pytest.fixture(scope="module")
def app(tmp_path_factory, shared_vectors):
    base = tmp_path_factory.mktemp("forged")
    turns = [
        (f"s{user}", user, user, f"My {thing} is zq{user}z.", f"2026-02-0{1 + n}T09:00:00Z")
        for user in USERS
        for n, thing in enumerate(("bike", "boat", "house"))
    ]
    home = Home(base / "home", shared_vectors)
    run_without_dagster(home, make_plan(home, [write_chats(base / "corpus", turns)]))
    with serving(home, requests_per_minute=10**6, failures_per_minute=10**6) as app:
        yield app


def tokens(user: str, other: str, random: Random) -> tuple[str, int]:
    """Returns a token, and the code that a request with it gets: 200 or 404 where it is valid, else 401."""
    now = dt.datetime.now(dt.UTC)
    good = make_token(TOKENS, user)
    claims = {"sub": user, "iss": "palimpsest", "aud": "palimpsest", "exp": now + dt.timedelta(hours=1)}
    head, body, signature = good.split(".")
    swapped = make_token(TOKENS, other).split(".")
    return random.choice(
        [
            *[(good, 200)] * 6,
            (jwt.encode(claims, "x" * 48, "HS256"), 401),
            (jwt.encode({**claims, "exp": now - dt.timedelta(hours=1)}, TOKENS.secret, "HS256"), 401),
            (f"{head}.{swapped[1]}.{signature}", 401),
            (f"{head}.{body}.{swapped[2]}", 401),
            (f"{head}.{body}.", 401),
            ("", 401),
        ]
    )


def test_no_request_shows_anything_of_another_user(app):
    random = Random(1)
    memories = published(Home(app.state.service.home.path)).tables(["memories"])["memories"]
    ids = {user: memories.filter(user_id=user)["memory_id"].to_list() for user in USERS}
    client, counts = TestClient(app, raise_server_exceptions=False), dict.fromkeys((200, 401, 404), 0)
    for _ in range(REQUESTS):
        user, other = random.sample(USERS, 2)
        token, code = tokens(user, other, random)
        memory = random.choice(ids[random.choice((user, other))])
        path, is_by_id = random.choice(
            [
                (f"/search?q=my+bike&user={other}&user_id={other}", False),
                (f"/search?q=zq{other}z", False),
                (f"/graph?user_id={other}&limit=50", False),
                (f"/profile?user={other}", False),
                (f"/memory/{memory}", True),
                (f"/memory/{memory}/history", True),
                (f"/memory/{memory}/source?user={other}", True),
                (f"/graph/outline?user_id={other}", False),
                (f"/users/me?user={other}", False),
                (f"/proposals?user={other}", False),
                (f"/api/v1/knowledge/nodes?name={other}", False),
            ]
        )
        answer = client.get(path, headers={"Authorization": f"Bearer {token}", "X-User-Id": other})
        expected = 404 if code == 200 and is_by_id and memory not in ids[user] else code
        assert answer.status_code == expected, (path, answer.status_code)
        for name in USERS:
            assert name == user or f"zq{name}z" not in answer.text, (path, name)
        assert code == 200 or "zq" not in answer.text
        counts[expected] += 1
    assert min(counts.values()) > REQUESTS / 50


def test_no_tool_of_mcp_shows_anything_of_another_user(app):
    home, random = app.state.service.home, Random(2)
    memories = published(Home(home.path)).tables(["memories"])["memories"]

    async def work(client: Client) -> int:
        found = 0
        for _ in range(60):
            other = random.choice([name for name in USERS if name != user])
            memory = random.choice(memories.filter(user_id=other)["memory_id"].to_list())
            tool, arguments = random.choice(
                [
                    ("search_memory", {"query": f"Where is the bike of {other}, zq{other}z?"}),
                    ("get_context", {"query": f"my boat zq{other}z", "user": other, "user_id": other}),
                    ("get_memory", {"memory_id": memory}),
                    ("get_memory", {"memory_id": memory, "history": True}),
                    ("update_memory", {"memory_id": memory, "text": "mine"}),
                    ("search_graph", {"query": other, "kind": "nodes"}),
                    ("search_graph", {"query": f"How does {other} relate to the house?"}),
                    ("search_graph", {"query": f"What did {other} say of the boat?", "kind": "timeline"}),
                    ("recent", {"limit": 100}),
                    ("profile", {}),
                ]
            )
            shown = text_of(await client.call_tool(tool, arguments))
            for name in USERS:
                is_named = f"zq{name}z" in str(arguments)
                assert name == user or is_named or f"zq{name}z" not in shown, (user, tool, arguments)
            found += f"zq{user}z" in shown
        return found

    answered = 0
    for user in USERS[:10]:
        answered += speak(home, user, work)
    assert answered > 60
