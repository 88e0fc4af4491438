"""What is sent, edited, decided and deleted: built or gone, and of its caller alone; numbers count what is visible."""

import datetime as dt
import json
import time
from urllib.parse import quote

import pytest
from filelock import FileLock

from palimpsest.consolidation.consolidate import consolidate
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query import open_home
from palimpsest.query.request.types import Scope
from palimpsest.serve.app import create_app
from palimpsest.serve.operations import Operations
from palimpsest.serve.settings import ServeSettings
from palimpsest.serve.state import WAIT_S
from palimpsest.store.home import Home
from palimpsest.store.proposals import read_proposals
from tests.query.made import home as write_home
from tests.query.made import memory, rows, tables
from tests.serve.conftest import TOKENS, client_of, serving
from tests.serve.conftest import call_tool as call
from tests.small_corpus import write_chats, write_notes


def wait_for(client, operation: str, *states: str) -> dict:
    end = time.monotonic() + 180
    while (found := client.get(f"/operations/{quote(operation, safe='')}").json()).get("state") not in states:
        assert time.monotonic() < end, found
        time.sleep(0.2)  # each request takes a hundredth of a second from what is waited for
    return found


def test_a_text_or_file_is_pending_then_published_once_and_only_its_caller_sees_it(writers, home):
    ann, bob, eve = writers("ann"), writers("bob"), writers("eve")
    dock, key = {"text": "The boat is in dock zqdock.", "collection": "chats"}, {"Idempotency-Key": "chat/../1"}
    sent, again = (ann.post("/memory", json=dock, headers=key) for _ in range(2))
    assert sent.status_code == 202 and sent.json()["state"] == "received" and sent.json() == again.json()
    assert len(list((home.inbox / "chats").glob("*.jsonl"))) == 1
    other = ann.post("/memory", json=dock | {"text": "I like cake."}, headers=key)
    assert other.status_code == 422 and "Idempotency-Key" in other.json()["detail"]
    operation = sent.json()["operation_id"]
    found = ann.get("/search?q=Which+berth+does+our+ship+lie+in").json()["memories"]
    pending = [m for m in found if m["is_pending"]]
    assert [m["text"] for m in pending] == [dock["text"]]
    assert ann.get(f"/memory/{pending[0]['memory_id']}").json()["text"] == dock["text"]
    assert all(not m["is_pending"] for m in bob.get("/search?q=Where+is+the+boat").json()["memories"])
    assert bob.get(f"/memory/{pending[0]['memory_id']}").status_code == 404
    assert not any(m["is_pending"] for m in ann.get("/search?q=boat&include_pending=false").json()["memories"])
    path = f"/operations/{quote(operation, safe='')}"
    assert ann.get(path).json()["operation_id"] == operation == "chat/../1" and bob.get(path).status_code == 404
    turns = [{"role": "user", "content": "When do you sail?"}, {"role": "assistant", "content": "At noon zqnoon."}]
    assert ann.post("/memory", json={"turns": turns, "session": "s9", "collection": "chats"}).status_code == 202
    file = ann.post("/memory", files={"file": ("../../logbook.txt", b"The logbook says zqlog.")}, data=CHATS)
    assert file.status_code == 202
    # without a collection: that with all memories of the caller; ann has memories in two, eve has none
    alone = bob.post("/memory", json={"text": "My boat is blue."})
    assert alone.status_code == 202 and alone.json()["collection"] == "chats"
    assert {c.post("/memory", json={"text": "My boat is green."}).status_code for c in (ann, eve)} == {422}
    run_without_dagster(home, make_plan(home, None))
    assert wait_for(ann, operation, "published")["chunks"] == 1
    wait_for(ann, file.json()["operation_id"], "published")
    time.sleep(0.6)  # the reader looks for a new build twice a second
    assert "zqdock" in ann.get("/search?q=Where+is+the+boat").json()["context"]
    assert "zqdock" not in bob.get("/search?q=Where+is+the+boat").text
    assert "zqlog" in ann.get("/search?q=What+does+the+logbook+say").text
    assert "zqnoon" in ann.get("/search?q=When+do+you+sail&session=s9").text
    assert not list(home.path.parent.glob("logbook*"))


CHATS = {"collection": "chats"}
JSON = {"headers": {"Content-Type": "application/json"}}
REFUSED = [
    ({"json": {}}, 422),
    ({"json": {"text": "a", "turns": [{"text": "b"}]}}, 422),
    ({"json": {"text": "..."}}, 422),
    ({"json": {"text": "I like tea.", "collection": "nowhere"}}, 422),
    ({"json": {"text": "I like tea.", "project": "apollo", "collection": "chats"}}, 403),
    ({"content": b"{", **JSON}, 422),
    ({"content": b"[" * 100_000, **JSON}, 422),
    ({"content": b"x", "headers": {"Content-Type": "text/plain"}}, 415),
    ({"files": {"other": ("a.txt", b"x")}}, 422),
    *(({"files": {"file": file}}, 415) for file in (("a.exe", b"x"), ("a.md", b"\x89PNG\r\n"), ("a.pdf", b"no pdf"))),
]


def test_what_cannot_be_received_is_a_problem_and_writes_nothing(writers, home):
    ann = writers("ann")
    for request, status in REFUSED:
        answer = ann.post("/memory", **request)
        assert answer.status_code == status and answer.json()["detail"], request
        assert not list(home.inbox.rglob("*.jsonl"))


def test_a_problem_of_a_request_names_the_field_and_nothing_of_the_code(writers):
    ann = writers("ann")
    image = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}
    for message, detail in (
        (image, "turns.0.content.parts.1.type: Input should be 'text'"),
        ({"role": "user", "content": 5}, "turns.0.content.text: Input should be a valid string"),
    ):
        answer = ann.post("/memory", json={"turns": [message], **CHATS})
        assert answer.status_code == 422 and answer.json()["detail"] == detail
    long = ann.post("/memory", json={"text": "I like tea.", **CHATS}, headers={"Idempotency-Key": "k" * 201})
    assert long.json()["detail"].startswith("Idempotency-Key: ")


def test_a_text_with_line_separators_is_kept_found_and_deleted_and_stops_no_delete_of_others(writers, home):
    ann, eve = writers("ann"), writers("eve")
    said = "My tent is zqtent.\u2028It has\u2029four\x85poles."
    for _ in range(2):
        assert eve.post("/memory", json={"text": said, **CHATS}, headers={"Idempotency-Key": "k"}).status_code == 202
    (tent,) = eve.get("/search?q=tent+zqtent").json()["memories"]
    assert "zqtent" in tent["text"] and "poles" in tent["text"] and tent["is_pending"]
    bike = next(m for m in ann.get("/search?q=bike").json()["memories"] if "zqann" in m["text"])
    for client, found in ((ann, bike), (eve, tent)):
        begun = client.delete(f"/memory/{found['memory_id']}").json()["operation_id"]
        assert wait_for(client, begun, "deleted", "failed")["state"] == "deleted"
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


def test_what_is_pending_is_edited_and_deleted_at_once_and_leaves_nothing_in_the_inbox(writers, home):
    ann, bob = writers("ann"), writers("bob")
    turns = [
        {"role": "user", "content": t} for t in ("My skiff is called Wren zqwren.", "It lies in dock four zqdock.")
    ]
    assert ann.post("/memory", json={"turns": turns, "collection": "chats"}).status_code == 202
    skiff = next(m["memory_id"] for m in found(ann, "What is my skiff called?") if "zqwren" in m["text"])
    text = {"text": "My skiff is called Heron zqheron."}
    assert bob.put(f"/memory/{skiff}", json=text).status_code == bob.delete(f"/memory/{skiff}").status_code == 404
    assert ann.put(f"/memory/{skiff}", json=text).status_code == 200
    now = found(ann, "What is my skiff called?")
    assert now[0]["text"] == text["text"] and all("zqwren" not in m["text"] for m in now)
    begun = ann.delete(f"/memory/{now[0]['memory_id']}")
    assert all("zqheron" not in m["text"] for m in found(ann, "What is my skiff called?"))
    done = wait_for(ann, begun.json()["operation_id"], "deleted", "failed")
    assert done["state"] == "deleted" and done["proof"]["memories"] == 1 and done["proof"]["residue"] == []
    left = "".join(path.read_text() for path in home.inbox.rglob("*.jsonl"))
    assert "zqdock" in left and "zqheron" not in left and "zqwren" not in left
    assert any("zqdock" in m["text"] for m in found(ann, "Where does it lie?"))


def test_each_request_finds_what_is_pending_after_a_change_of_another_pending_memory(writers):
    gus = writers("gus")
    for text in ("My skiff is zqskiff.", "My kite is zqkite.", "My drum is zqdrum."):
        assert gus.post("/memory", json={"text": text, "collection": "chats"}).status_code == 202
    ids = {m["text"][3:7]: m["memory_id"] for m in gus.get("/memories").json()["memories"]}
    assert gus.put(f"/memory/{ids['skif']}", json={"text": "My skiff is sold."}).status_code == 200
    assert gus.put(f"/memory/{ids['kite']}", json={"text": "My kite is sold."}).status_code == 200
    now = {m["text"]: m["memory_id"] for m in gus.get("/memories").json()["memories"]}
    begun = gus.delete(f"/memory/{now['My skiff is sold.']}").json()
    drum = gus.get(f"/memory/{ids['drum']}")
    assert drum.status_code == 200, drum.text
    assert drum.json()["is_pending"]
    (version,) = gus.get(f"/memory/{ids['drum']}/history").json()["versions"]
    assert version["is_latest"] and version["text"] == "My drum is zqdrum."
    source = gus.get(f"/memory/{ids['drum']}/source").json()["memories"]
    assert [m["memory_id"] for m in source] == [ids["drum"]]
    assert wait_for(gus, begun["operation_id"], "deleted", "failed")["state"] == "deleted"


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
    assert Operations(home).status(begun, "ann")["state"] == "deleted"
    path = home.path / "deletions" / f"{begun}.json"
    path.write_text(path.read_text().replace('"deleted"', '"received"'))
    assert Operations(home).status(begun, "ann")["state"] == "failed"


def test_history_shows_what_replaced_what(clients):
    ann = clients("ann")
    found = ann.get("/search?q=Where+do+I+work&history=true").json()["memories"]
    old = next(m for m in found if m["text"].startswith("I work at Basin"))
    assert old["is_latest"] is False
    versions = ann.get(f"/memory/{old['memory_id']}/history").json()["versions"]
    assert [v["is_latest"] for v in versions] == [True, False] and versions[1]["why"]["kind"] == "updated"
    assert ann.get(f"/memory/{old['memory_id']}").json()["superseded_by"] == versions[0]["memory_id"]


def test_the_newest_memories_are_listed_without_a_question(writers):
    ann, eve = writers("ann"), writers("eve")
    said = [{"role": "user", "content": "My tent is zqtent."}, {"role": "user", "content": "My stove is zqstove."}]
    for sent in ({"text": "My boat is zqboat.", "tags": ["a"]}, {"turns": said, "session": "s9"}):
        assert eve.post("/memory", json=sent | {"collection": "chats"}).status_code == 202
    me = eve.get("/users/me").json()
    assert me["own_collections"] == me["collections"] == ["chats"] and me["memories"] == 3
    page = eve.get("/memories?limit=2").json()
    rest = eve.get(f"/memories?offset={page['next_offset']}").json()
    found = {m["text"]: m for m in page["memories"] + rest["memories"]}
    assert len(found) == 3 and all(m["is_pending"] for m in found.values()) and rest["next_offset"] is None
    assert [m["text"] for m in eve.get("/memories?tags=a").json()["memories"]] == ["My boat is zqboat."]
    assert eve.get("/memories?session=s8").json() == {"memories": [], "next_offset": None}
    boat = found["My boat is zqboat."]["memory_id"]
    assert eve.get(f"/memory/{boat}").json()["is_pending"] and ann.get(f"/memory/{boat}").status_code == 404
    current, every = (ann.get(f"/memories?session=s1{more}").json()["memories"] for more in ("", "&history=true"))
    assert [m["is_latest"] for m in current] == [True] and {m["is_latest"] for m in every} == {True, False}


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


TURNS = [
    ("s1", "ann", "Ann", "I love rare stamps.", "2026-01-01T09:02:00Z"),
    ("s2", "ann", "Ann", "I love old maps.", "2026-02-01T09:02:00Z"),
    ("s3", "ann", "Ann", "I love tin toys.", "2026-03-01T09:02:00Z"),
    ("s4", "bob", "Bob", "The landlord of the workshop is Mira Quandt.", "2026-02-01T09:00:00Z"),
    ("s5", "bob", "Bob", "Mira Quandt plays the cello at the harbour festival.", "2026-03-01T09:00:00Z"),
]


def rebuild(home, corpus=None):
    run_without_dagster(home, make_plan(home, [corpus] if corpus else None))


def found(client, question, **options):
    return client.get("/search", params={"q": question, **options}).json()["memories"]


def test_who_the_caller_is_follows_from_the_token_and_a_source_shows_turns_of_theirs_alone(clients):
    me = clients("ann", projects=["apollo"]).get("/users/me").json()
    assert (me["user"], me["projects"], me["permissions"]) == ("ann", ["apollo"], ["delete", "read", "write"])
    assert me["memories"] == 4 and me["own_collections"] == ["chats", "plans"] and "town" in me["collections"]
    assert clients("nobody").get("/users/me").json()["memories"] == 0
    assert clients().get("/users/me").status_code == 401
    client = clients("ann")
    memory = found(client, "red bike")[0]["memory_id"]
    shown = client.get(f"/memory/{memory}/source").json()["memories"]
    assert [m["text"] for m in shown] == ["My bike is red zqann.", "I work at Basin as a tester."]
    assert client.get(f"/memory/{memory}/source", params={"reach": 0}).json()["memories"][0]["memory_id"] == memory
    assert clients("bob").get(f"/memory/{memory}/source").status_code == 404
    memory = found(clients("ann"), "red bike")[0]["memory_id"]
    for text in ("", "   ", "?!", "x" * 20_001):
        assert clients("ann").put(f"/memory/{memory}", json={"text": text}).status_code == 422


def test_an_update_is_taken_back_by_its_owner_alone(writers, home):
    client = writers("ann")
    old = next(m for m in found(client, "Basin tester", history="true", k=10) if "Basin as" in m["text"])
    assert not old["is_latest"]
    assert writers("bob").post(f"/memory/{old['memory_id']}/undo").status_code == 404
    done = client.post(f"/memory/{old['memory_id']}/undo")
    assert done.status_code == 200 and done.json()["label"] == "NONE"
    rebuild(home)
    assert writers("ann").get(f"/memory/{old['memory_id']}").json()["is_latest"]
    assert writers("ann").post(f"/memory/{old['memory_id']}/undo").status_code == 409


def test_an_edit_is_its_owners_alone_refused_during_a_build_and_keeps_what_the_memory_was(writers, home):
    reader, client = writers("ann", permissions=["read"]), writers("ann")
    memory, text = found(client, "red bike")[0]["memory_id"], {"text": "My bike is green zqann."}
    assert reader.put(f"/memory/{memory}", json=text).status_code == 403
    assert reader.post(f"/memory/{memory}/undo").status_code == 403
    assert writers("bob").put(f"/memory/{memory}", json=text).status_code == 404
    assert client.put("/memory/0000000000000000", json=text).status_code == 404
    before = {path: path.read_bytes() for path in home.log.rglob("*") if path.is_file()}
    with FileLock(home.path / ".lock", is_singleton=False):  # as another process has it
        refused = client.put(f"/memory/{memory}", json=text)
    assert refused.status_code == 503 and refused.headers["retry-after"] and "a build is running" in refused.text
    with client.app.state.service.writer.change():  # as another request has it
        assert client.put(f"/memory/{memory}", json=text).status_code == 503
    assert {path: path.read_bytes() for path in home.log.rglob("*") if path.is_file()} == before
    assert WAIT_S <= 1, "a request that waits has a thread, of which all requests have some forty"
    edited = client.put(f"/memory/{memory}", json=text)
    assert edited.status_code == 200 and edited.json()["memory_id"] == memory and "zqann" not in edited.text
    at_once = found(client, "colour of my bike")
    assert at_once[0]["is_pending"] and at_once[0]["text"] == text["text"]
    assert all("red" not in m["text"] for m in at_once)
    again = client.put(f"/memory/{at_once[0]['memory_id']}", json={"text": "My bike is teal zqann."})
    assert again.status_code == 200 and found(client, "colour of my bike")[0]["text"] == "My bike is teal zqann."
    served = found(client, "colour of my bike")[0]["memory_id"]
    rebuild(home)
    now = found(writers("ann"), "colour of my bike")
    assert (now[0]["text"], now[0]["memory_id"]) == ("My bike is teal zqann.", served) and not now[0]["is_pending"]
    assert all("red" not in m["text"] and "green" not in m["text"] for m in now)
    old = found(writers("ann"), "red bike", history="true")
    assert any(m["text"] == "My bike is red zqann." and not m["is_latest"] for m in old)


def test_proposals_are_seen_and_decided_by_their_owner_alone(writers, home, tmp_path):
    corpus = write_notes(write_chats(tmp_path / "more", TURNS), {"hours.md": "The library opens at nine.\n"}, "town")
    rebuild(home, corpus)
    consolidate(home, everything=True)
    ann, bob = writers("ann"), writers("bob")
    own = {
        who: {p["proposal_id"]: p for p in c.get("/proposals").json()["proposals"]}
        for who, c in (("a", ann), ("b", bob))
    }
    stored = read_proposals(home.path)
    assert own["a"] and own["b"] and not own["a"].keys() & own["b"].keys()
    assert all(stored[i].scope[1] == "ann" for i in own["a"]) and all(stored[i].scope[1] == "bob" for i in own["b"])
    first = next(p for p in own["a"].values() if p["kind"] == "note")
    assert {m["text"] for m in first["memories"]} == {t[3] for t in TURNS if "I love" in t[3]}
    place = f"/proposals/{first['proposal_id']}"
    for verb in ("confirm", "reject", "undo"):
        assert bob.post(f"{place}/{verb}").status_code == 404
        assert writers("ann", permissions=["read"]).post(f"{place}/{verb}").status_code == 403
    for verb, state in (("undo", "open"), ("confirm", "confirmed"), ("undo", "open"), ("reject", "rejected")):
        for _ in range(2):  # who sends it again gets the same answer
            assert ann.post(f"{place}/{verb}").json()["state"] == state
    assert ann.post(f"{place}/confirm").status_code == 409
    assert first["proposal_id"] not in {p["proposal_id"] for p in ann.get("/proposals").json()["proposals"]}
    assert ann.get("/proposals", params={"state": "rejected"}).json()["total"] == 1


def test_a_question_that_was_sent_before_is_no_answer_to_itself(writers):
    dan = writers("dan")
    for text in ("Which instrument do I play?", "I play the cello.", "The bus was late."):
        assert dan.post("/memory", json={"text": text, "collection": "chats"}).status_code == 202
    found = dan.get("/search", params={"q": "Which instrument do I play?"}).json()["memories"]
    assert found[0]["text"] == "I play the cello." and "instrument" not in str([m["text"] for m in found])


def test_the_graph_has_positions_and_its_outline_each_link_once(clients):
    nodes = clients("ann").get("/graph").json()["nodes"]
    assert nodes and all(isinstance(n["x"], float) and isinstance(n["y"], float) for n in nodes)
    assert len({(n["x"], n["y"]) for n in nodes}) > 1
    client = clients("ann", projects=["apollo"])
    graph, outline = client.get("/graph").json(), client.get("/graph/outline").json()
    assert [(n["id"], n["x"]) for n in outline["nodes"]] == [(n["id"], n["x"]) for n in graph["nodes"]]
    ids = [n["id"] for n in outline["nodes"]]
    links = {frozenset((ids[a], ids[b])) for a, b in outline["links"]}
    edges = {frozenset((e["source"], e["target"])) for e in graph["edges"]}
    assert links == edges and len(outline["links"]) == outline["total_links"] == len(links) > 0
    part = client.get("/graph/outline", params={"nodes": 2, "links": 0}).json()
    assert len(part["nodes"]) == 2 and part["links"] == [] and part["total_nodes"] == len(ids)
    others = clients("bob").get("/graph/outline").json()["nodes"]
    assert not {n["id"] for n in others if n["name"] == "Ann"} and "zqann" not in str(others)


EDITS = {  # memories of ann: to the same words, to more words, to other words
    "My bike is red zqann.": "My bike is red, zqann!",
    "I work at Heron now, no longer at Basin.": "I work at Heron now, no longer at Basin. It has a zqbell.",
    "The bike rack of Apollo is zqgreen.": "A boat zqboat.",
}


@pytest.mark.parametrize("is_built", [False, True])
def test_a_delete_of_an_edited_memory_removes_what_it_was_edited_to(writers, home, is_built):
    client = writers("ann", projects=["apollo"])
    memories = {
        m["text"]: m["memory_id"] for m in found(client, "red bike, bike rack, work at Heron", k=20, all_results=True)
    }
    for before, text in EDITS.items():
        assert client.put(f"/memory/{memories[before]}", json={"text": text}).status_code == 200
    if is_built:
        rebuild(home)
    for before in EDITS:
        begun = client.delete(f"/memory/{memories[before]}").json()["operation_id"]
        done = wait_for(client, begun, "deleted", "failed")
        assert done["state"] == "deleted" and done["proof"]["residue"] == []
    rebuild(home)
    texts = str(found(writers("ann", projects=["apollo"]), "bike boat bell Heron", history="true", k=20))
    assert not [word for word in ("zqann", "Heron", "zqbell", "zqgreen", "zqboat") if word in texts]
    assert b"zqbell" not in b"".join(p.read_bytes() for p in home.log.rglob("*") if p.is_file())


SEEN = ["Mira works at Basin in Ghent.", "Mira plays the cello with Tom Vale."]
HIDDEN = {"Zora Quill lives in Utrecht.": {"user_visible": False}, "Zeno Pratt works at Zircon.": {"pii": True}}
EXPIRING = {"Zelda Frey lives in Aalst.": {"retention_days": 1}}
SCOPE = Scope("chats", "ann")


@pytest.fixture(scope="module")
def hidden_home(tmp_path_factory, shared_vectors):
    """A built home with memories of ann, two of which are left out of answers, and one of which soon is."""
    base = tmp_path_factory.mktemp("hidden")
    folder = base / "corpus" / "chats"
    folder.mkdir(parents=True)
    (folder / "collection.yaml").write_text("name: chats\ndescription: small talk\nunit: turn\nuser_id: ann\n")
    texts = {text: {} for text in SEEN} | HIDDEN | EXPIRING
    now = dt.datetime.now(dt.UTC).isoformat()
    rows = [
        {"session_id": f"s{n}", "text": text, "timestamp": now} | ({"privacy": marks} if marks else {})
        for n, (text, marks) in enumerate(texts.items())
    ]
    (folder / "turns.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    home = Home(base / "home", shared_vectors)
    run_without_dagster(home, make_plan(home, [base / "corpus"]))
    return home


@pytest.fixture
def client(hidden_home):
    with serving(hidden_home) as app:
        yield client_of(app, "ann")


def test_totals_of_the_graph_and_its_pages_count_visible_nodes_alone(hidden_home, client):
    with open_home(hidden_home.path) as reader:
        everything = reader.graph_page(SCOPE, limit=5_000, include_hidden=True, include_pii=True)
    whole, outline = client.get("/graph?limit=5000").json(), client.get("/graph/outline").json()
    names = {n["name"] for n in whole["nodes"]}
    assert {"Mira", "Basin"} <= names and not {"Zora Quill", "Zeno Pratt", "Zircon"} & names
    assert whole["total"] == outline["total_nodes"] == len(whole["nodes"]) == len(outline["nodes"]) < everything.total
    assert [n["id"] for n in outline["nodes"]] == [n["id"] for n in whole["nodes"]]
    pages, offset = [], 0
    while offset is not None:
        page = client.get(f"/graph?limit=2&offset={offset}").json()
        assert page["total"] == whole["total"]
        assert len(page["nodes"]) == min(2, whole["total"] - offset), "a gap would say where a hidden node is"
        pages, offset = pages + page["nodes"], page["next_offset"]
    assert pages == whole["nodes"]
    small = client.get("/graph/outline", params={"nodes": 3}).json()
    assert len(small["nodes"]) == 3 and small["total_nodes"] == whole["total"]


def test_numbers_of_memories_count_visible_ones_alone(hidden_home, client, monkeypatch):
    assert client.get("/users/me").json()["memories"] == len(SEEN) + len(EXPIRING)
    info = call(hidden_home, "ann", "collection_info", {"collection": "chats"})
    assert info["memories"] == len(SEEN) + len(EXPIRING)
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=2)
    monkeypatch.setattr("palimpsest.serve.mcp_rare_tools._now", lambda: later)
    assert call(hidden_home, "ann", "collection_info", {"collection": "chats"})["memories"] == len(SEEN)
    documents = call(hidden_home, "ann", "list_documents")["documents"]
    assert sum(d["memories"] for d in documents) == len(SEEN)
