"""What is sent is received once and built; what is deleted is gone, with a proof; operations are their caller's."""

import time

import pytest

from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.serve.app import create_app
from palimpsest.serve.settings import ServeSettings
from palimpsest.store.home import Home
from tests.query.made import home as write_home
from tests.query.made import memory, rows, tables
from tests.serve.conftest import TOKENS, client_of


def wait_for(client, operation: str, *states: str) -> dict:
    end = time.monotonic() + 60
    while (found := client.get(f"/operations/{operation}").json()).get("state") not in states:
        assert time.monotonic() < end, found
        time.sleep(0.2)  # each request takes a hundredth of a second from what is waited for
    return found


def test_a_text_is_pending_then_published_and_only_its_caller_sees_it(writers, home):
    ann, bob = writers("ann"), writers("bob")
    sent = ann.post("/memory", json={"text": "The boat is in dock zqdock.", "collection": "chats"})
    assert sent.status_code == 202 and sent.json()["state"] == "received"
    operation = sent.json()["operation_id"]
    pending = ann.get("/search?q=Where+is+the+boat&include_pending=true").json()["pending"]
    assert [p["text"] for p in pending] == ["The boat is in dock zqdock."]
    assert bob.get("/search?q=Where+is+the+boat&include_pending=true").json()["pending"] == []
    assert bob.get(f"/operations/{operation}").status_code == 404
    run_without_dagster(home, make_plan(home, None))
    assert wait_for(ann, operation, "published")["chunks"] == 1
    time.sleep(0.6)  # the reader looks for a new build twice a second
    assert "zqdock" in ann.get("/search?q=Where+is+the+boat").json()["context"]
    assert "zqdock" not in bob.get("/search?q=Where+is+the+boat").text


def test_without_a_collection_a_text_goes_to_the_one_with_all_memories_of_the_caller(writers):
    bob, ann, eve = writers("bob"), writers("ann"), writers("eve")
    sent = bob.post("/memory", json={"text": "My boat is blue."}, headers={"Idempotency-Key": "k"})
    assert sent.status_code == 202 and sent.json()["collection"] == "chats"
    for other in (ann, eve):  # ann has memories in two collections, eve has none, and no collection is the default
        assert other.post("/memory", json={"text": "My boat is green."}).status_code == 422


def test_a_key_makes_a_second_call_write_nothing(writers, home):
    ann = writers("ann")
    key = {"Idempotency-Key": "k-1"}
    tea, cake = ({"text": f"I like {what}.", "collection": "chats"} for what in ("tea", "cake"))
    first, again = (ann.post("/memory", json=tea, headers=key) for _ in range(2))
    assert first.json() == again.json() and len(list((home.inbox / "chats").glob("*.jsonl"))) == 1
    other = ann.post("/memory", json=cake, headers=key)
    assert other.status_code == 422 and "operation_id" in other.json()["detail"]


def test_a_conversation_and_a_file_are_received(writers, home):
    ann = writers("ann")
    turns = [{"text": "When do you sail?", "role": "user"}, {"text": "At noon zqnoon.", "role": "assistant"}]
    assert ann.post("/memory", json={"turns": turns, "session": "s9", "collection": "chats"}).status_code == 202
    file = {"file": ("../../logbook.txt", b"The logbook says zqlog.")}
    sent = ann.post("/memory", files=file, data={"collection": "chats"})
    assert sent.status_code == 202
    run_without_dagster(home, make_plan(home, None))
    wait_for(ann, sent.json()["operation_id"], "published")
    time.sleep(0.6)
    assert "zqlog" in ann.get("/search?q=What+does+the+logbook+say").text
    assert "zqnoon" in ann.get("/search?q=When+do+you+sail&session=s9").text
    assert not list(home.path.parent.glob("logbook*"))


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({"json": {}}, 422),
        ({"json": {"text": "a", "turns": [{"text": "b"}]}}, 422),
        ({"json": {"text": "..."}}, 422),
        ({"json": {"text": "I like tea.", "collection": "nowhere"}}, 422),
        ({"json": {"text": "I like tea.", "project": "apollo", "collection": "chats"}}, 403),
        ({"content": b"{", "headers": {"Content-Type": "application/json"}}, 422),
        ({"content": b"[" * 100_000, "headers": {"Content-Type": "application/json"}}, 422),
        ({"content": b"x", "headers": {"Content-Type": "text/plain"}}, 415),
        ({"files": {"other": ("a.txt", b"x")}}, 422),
        ({"files": {"file": ("a.exe", b"x")}}, 415),
        ({"files": {"file": ("a.md", b"\x89PNG\r\n")}}, 415),
        ({"files": {"file": ("a.pdf", b"no pdf")}}, 415),
    ],
)
def test_what_cannot_be_received_is_a_problem_and_writes_nothing(writers, home, request_, status):
    answer = writers("ann").post("/memory", **request_)
    assert answer.status_code == status and answer.json()["detail"]
    assert not list(home.inbox.rglob("*.jsonl"))


def test_a_deleted_memory_is_gone_with_a_proof_that_its_caller_alone_reads(writers, own_deleter):
    ann, bob = writers("ann"), writers("bob")
    memory = next(m for m in ann.get("/search?q=bike").json()["memories"] if "zqann" in m["text"])["memory_id"]
    begun = ann.delete(f"/memory/{memory}")
    assert begun.status_code == 202
    done = wait_for(ann, begun.json()["operation_id"], "deleted", "failed")
    assert done["state"] == "deleted" and done["proof"]["memories"] >= 1 and done["proof"]["residue"] == []
    assert bob.get(f"/operations/{begun.json()['operation_id']}").status_code == 404
    assert ann.get(f"/memory/{memory}").status_code == 404 and "zqann" not in ann.get("/search?q=bike").text


def test_a_caller_deletes_themselves_and_nobody_else(writers):
    ann, bob = writers("ann"), writers("bob")
    begun = ann.delete("/users/me").json()["operation_id"]
    assert wait_for(ann, begun, "deleted", "failed")["state"] == "deleted"
    assert ann.get("/search?q=bike").json()["memories"] == [] and "zqbob" in bob.get("/search?q=bike").text


@pytest.mark.slow
def test_a_delete_that_a_stopped_service_did_not_finish_says_so(writers, home):
    ann = writers("ann")
    begun = ann.delete("/users/me").json()["operation_id"]
    wait_for(ann, begun, "deleted")
    from palimpsest.serve.deletions import Deletions

    assert Deletions(home).status(begun, "ann")["state"] == "deleted"
    path = home.path / "deletions" / f"{begun}.json"
    path.write_text(path.read_text().replace('"deleted"', '"received"'))
    assert Deletions(home).status(begun, "ann")["state"] == "failed"


def test_history_shows_what_replaced_what(clients):
    ann = clients("ann")
    found = ann.get("/search?q=Where+do+I+work&history=true").json()["memories"]
    old = next(m for m in found if m["text"].startswith("I work at Basin"))
    assert old["is_latest"] is False
    versions = ann.get(f"/memory/{old['memory_id']}/history").json()["versions"]
    assert [v["is_latest"] for v in versions] == [True, False] and versions[1]["why"]["kind"] == "updated"
    assert ann.get(f"/memory/{old['memory_id']}").json()["superseded_by"] == versions[0]["memory_id"]


def test_a_memory_and_its_history_name_what_disputes_it(tmp_path):
    folder = tmp_path / "home"
    Home(folder).create()
    made = tables([memory("m1", "The desk is at Acme."), memory("m2", "The desk is at Basin, they say.")])
    ids = {"relation_id": "r", "newer_id": "m2", "older_id": "m1", "label": "NONE", "labeler": "offline"}
    scope = {"collection": "notes", "user_id": "ana"}
    write_home(folder, made | {"relations": rows("relations", {**scope, **ids, "consequence": "disputed"})})
    app = create_app(Home(folder), ServeSettings(TOKENS))
    ana = client_of(app, "ana")
    found = ana.get("/memory/m1").json()
    (version,) = ana.get("/memory/m1/history").json()["versions"]
    assert found["disputed_by"] == version["disputed_by"] and found["later"] == []
    assert (found["disputed_by"]["memory_id"], found["disputed_by"]["why"]) == ("m2", "uncertain")
    assert ana.get("/memory/m2").json()["disputed_by"] is None
    assert client_of(app, "ben").get("/memory/m1").status_code == 404
    app.state.service.reader.close()
