"""A service over a home without a build: every answer is empty or pending, and builds begin by its own schedule."""

import asyncio

import pytest

from palimpsest.serve import scheduled_builds
from palimpsest.serve.events import Event, Rooms
from palimpsest.serve.guard import Identity
from palimpsest.serve.scheduled_builds import ScheduledBuilds, default_minutes
from palimpsest.sources.inbox import ingest_text
from palimpsest.store.home import Home
from tests.serve.conftest import client_of, serving


@pytest.fixture
def new_home(tmp_path):
    return Home(tmp_path / "new")


def test_a_home_without_a_build_answers_with_nothing_and_with_what_is_pending(new_home):
    new_home.create_alone()
    with serving(new_home) as app:
        ann, bob = client_of(app, "ann", projects=["apollo"]), client_of(app, "bob")
        assert ann.get("/ready").json() == {"status": "ready", "build_id": ""}
        for path in ("/users/me", "/profile", "/graph", "/graph/outline", "/proposals", "/relations", "/summary"):
            assert ann.get(path).status_code == 200, path
        assert ann.get("/search?q=bike").json()["memories"] == []
        assert ann.get("/memory/cdb6bb060420f927").status_code == 404
        for sent in ({"text": "My bike is red.", "session": "s1"}, {"text": "The plan is blue.", "project": "apollo"}):
            assert ann.post("/memory", json=sent).json()["collection"] == "inbox"
        found = ann.get("/search?q=bike+plan&project=apollo").json()
        assert sorted(m["text"] for m in found["memories"] if m["is_pending"]) == [
            "My bike is red.",
            "The plan is blue.",
        ]
        assert "My bike is red." in found["message"]["content"]
        assert [m["text"] for m in ann.get("/search?q=bike&project=x").json()["memories"]] == ["My bike is red."]
        assert bob.get("/search?q=bike").json()["memories"] == []
        body = {"session": "s1", "turns": [{"role": "user", "content": "And the bell?"}]}
        working = ann.post("/working-set", json=body).json()
        assert [t["text"] for t in working["turns"]] == ["My bike is red.", "user: And the bell?"]
        assert bob.post("/working-set", json={"session": "s1"}).json()["turns"] == []


def run_for(builds: ScheduledBuilds, seconds: float) -> None:
    async def main() -> None:
        task = asyncio.create_task(builds.run())
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


def test_the_first_build_begins_when_something_was_sent_and_each_change_is_built_once(new_home, monkeypatch):
    codes, started = iter([3, 0, 1]), []
    new_home.create()
    builds = ScheduledBuilds(new_home, Rooms(), every_minutes=0.05 / 60)

    async def child(_: ScheduledBuilds) -> int:
        started.append(builds.status()["state"])
        return next(codes)

    monkeypatch.setattr(scheduled_builds, "LOOK_S", 0.01)
    monkeypatch.setattr(ScheduledBuilds, "_run_child", child)
    run_for(builds, 0.2)
    assert started == []
    ingest_text(new_home, "My bike is red.", user="ann")
    run_for(builds, 0.4)
    assert started == ["running"] * 2  # the failed one is tried again
    assert builds.status()["last"]["outcome"] == "unchanged" and builds.status()["state"] == "waiting"
    ingest_text(new_home, "My bike is blue.", user="ann")
    run_for(builds, 0.4)
    last = builds.status()["last"]
    assert len(started) == 3 and (last["outcome"], last["exit_code"]) == ("refused", 1)


def test_a_build_by_the_service_may_cost_so_much(new_home, monkeypatch):
    new_home.create()
    started: list[list[str]] = []

    class Child:
        def __init__(self, command: list[str], **_: object) -> None:
            started.append(command)

        def poll(self) -> int:
            return 0

    monkeypatch.setattr(scheduled_builds.subprocess, "Popen", Child)
    for cost in (None, 2.5):
        asyncio.run(ScheduledBuilds(new_home, Rooms(), 1, cost)._run_child())
    assert "--max-cost" not in started[0] and started[1][-2:] == ["--max-cost", "2.5"]


def test_a_service_does_not_build_where_others_do(new_home):
    assert default_minutes(new_home, "127.0.0.1") == default_minutes(new_home, "localhost") > 0
    assert default_minutes(new_home, "0.0.0.0") == 0
    run_for(ScheduledBuilds(new_home, Rooms()), 0.01)


def test_who_connects_again_gets_what_came_after_the_last_event_and_nothing_of_others():
    rooms = Rooms()

    async def received(user: str, last: str) -> list[Event]:
        with rooms.join(Identity(user), last) as connection:
            await asyncio.sleep(0)
            return [connection.queue.get_nowait() for _ in range(connection.queue.qsize())]

    async def main() -> None:
        with rooms.join(Identity("ann")) as connection:
            for number in range(2):
                rooms.send("ann", Event("OPERATION", {"operation_id": str(number)}))
            first = await connection.next(1)
        assert first is not None and first.id
        rooms.send("bob", Event("OPERATION", {"operation_id": "bob"}))
        rooms.send("ann", Event("NODE_FOCUS", {"node_id": "1"}))  # it means nothing later
        rooms.send_all(Event("BUILD", {"state": "published", "build_id": "000002"}))
        again = await received("ann", first.id)
        assert [e.data.get("operation_id", e.data.get("build_id")) for e in again] == ["1", "000002"]
        assert [e.type for e in await received("bob", first.id)] == ["OPERATION", "BUILD"]
        for unknown in ("", "7", "other-1", f"{first.id}x", "-"):
            assert await received("ann", unknown) == []

    asyncio.run(main())
