"""What a caller learns of itself, edits, takes back and decides: never anything of somebody else."""

import pytest
from filelock import FileLock

from palimpsest.consolidation.consolidate import consolidate
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.serve.state import WAIT_S
from palimpsest.store.proposals import read_proposals
from tests.serve.test_memories import wait_for
from tests.small_corpus import write_chats, write_notes

TURNS = [
    ("s1", "ann", "Ann", "I collect stamps.", "2026-01-01T09:02:00Z"),
    ("s2", "ann", "Ann", "I collect old maps.", "2026-02-01T09:02:00Z"),
    ("s3", "ann", "Ann", "I collect tin toys.", "2026-03-01T09:02:00Z"),
    ("s4", "bob", "Bob", "The landlord of the workshop is Mira Quandt.", "2026-02-01T09:00:00Z"),
    ("s5", "bob", "Bob", "Mira Quandt plays the cello at the harbour festival.", "2026-03-01T09:00:00Z"),
]


def rebuild(home, corpus=None):
    run_without_dagster(home, make_plan(home, [corpus] if corpus else None))


def found(client, question, **options):
    return client.get("/search", params={"q": question, **options}).json()["memories"]


def test_who_the_caller_is_follows_from_the_token(clients):
    me = clients("ann", projects=["apollo"]).get("/users/me").json()
    assert (me["user"], me["projects"], me["permissions"]) == ("ann", ["apollo"], ["delete", "read", "write"])
    assert me["memories"] == 4 and me["own_collections"] == ["chats", "plans"] and "town" in me["collections"]
    assert clients("nobody").get("/users/me").json()["memories"] == 0
    assert clients().get("/users/me").status_code == 401


def test_a_source_shows_the_turns_around_a_memory_and_none_of_others(clients):
    client = clients("ann")
    memory = found(client, "red bike")[0]["memory_id"]
    shown = client.get(f"/memory/{memory}/source").json()["memories"]
    assert [m["text"] for m in shown] == ["My bike is red zqann.", "I work at Basin as a tester."]
    assert client.get(f"/memory/{memory}/source", params={"reach": 0}).json()["memories"][0]["memory_id"] == memory
    assert clients("bob").get(f"/memory/{memory}/source").status_code == 404


def test_an_edit_changes_the_memory_with_the_next_build_and_keeps_what_it_was(writers, home):
    client = writers("ann")
    memory = found(client, "red bike")[0]["memory_id"]
    edited = client.put(f"/memory/{memory}", json={"text": "My bike is green zqann."})
    assert edited.status_code == 200 and edited.json()["memory_id"] == memory and "zqann" not in edited.text
    assert found(client, "colour of my bike")[0]["text"] == "My bike is red zqann."
    rebuild(home)
    now = found(writers("ann"), "colour of my bike")
    assert now[0]["text"] == "My bike is green zqann." and all("red" not in m["text"] for m in now)
    old = found(writers("ann"), "red bike", history="true")
    assert any(m["text"] == "My bike is red zqann." and not m["is_latest"] for m in old)


def test_an_edit_during_a_build_is_refused_at_once_and_possible_afterwards(writers, home):
    client = writers("ann")
    memory, text = found(client, "red bike")[0]["memory_id"], {"text": "My bike is green zqann."}
    before = {path: path.read_bytes() for path in home.log.rglob("*") if path.is_file()}
    with FileLock(home.path / ".lock", is_singleton=False):  # as another process has it
        refused = client.put(f"/memory/{memory}", json=text)
    assert refused.status_code == 503 and refused.headers["retry-after"] and "a build is running" in refused.text
    with client.app.state.service.writer.change():  # as another request has it
        assert client.put(f"/memory/{memory}", json=text).status_code == 503
    assert {path: path.read_bytes() for path in home.log.rglob("*") if path.is_file()} == before
    assert client.put(f"/memory/{memory}", json=text).status_code == 200
    assert WAIT_S <= 1, "a request that waits has a thread, of which all requests have some forty"


@pytest.mark.parametrize("text", ["", "   ", "?!", "x" * 20_001])
def test_a_text_that_is_none_is_refused(clients, text):
    memory = found(clients("ann"), "red bike")[0]["memory_id"]
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


def test_writing_needs_the_permission_and_the_callers_own_memory(writers):
    reader = writers("ann", permissions=["read"])
    memory = found(reader, "red bike")[0]["memory_id"]
    assert reader.put(f"/memory/{memory}", json={"text": "Mine."}).status_code == 403
    assert reader.post(f"/memory/{memory}/undo").status_code == 403
    assert writers("bob").put(f"/memory/{memory}", json={"text": "Mine."}).status_code == 404
    shared = writers("ann")
    assert shared.put("/memory/0000000000000000", json={"text": "Mine."}).status_code == 404


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
    assert {m["text"] for m in first["memories"]} == {t[3] for t in TURNS if "collect" in t[3]}
    place = f"/proposals/{first['proposal_id']}"
    for verb in ("confirm", "reject", "undo"):
        assert bob.post(f"{place}/{verb}").status_code == 404
        assert writers("ann", permissions=["read"]).post(f"{place}/{verb}").status_code == 403
    assert ann.post(f"{place}/undo").status_code == 409
    assert ann.post(f"{place}/confirm").json()["state"] == "confirmed"
    assert ann.post(f"{place}/confirm").status_code == 409
    assert ann.post(f"{place}/undo").json()["state"] == "open"
    assert ann.post(f"{place}/reject").json()["state"] == "rejected"
    assert first["proposal_id"] not in {p["proposal_id"] for p in ann.get("/proposals").json()["proposals"]}
    assert ann.get("/proposals", params={"state": "rejected"}).json()["total"] == 1


def test_nodes_of_the_graph_have_the_positions_of_the_build(clients):
    nodes = clients("ann").get("/graph").json()["nodes"]
    assert nodes and all(isinstance(n["x"], float) and isinstance(n["y"], float) for n in nodes)
    assert len({(n["x"], n["y"]) for n in nodes}) > 1


def test_the_outline_has_the_nodes_of_the_graph_and_each_link_of_its_edges_and_facts_once(clients):
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
