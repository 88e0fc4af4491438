"""Decisions of a caller over REST, of what is theirs alone: relations, feedback, consolidation; and summaries."""

import time

import pytest

from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query import open_home
from palimpsest.relations.relation_review import review_table
from palimpsest.store.builds import published
from palimpsest.store.decisions import read_decisions


@pytest.fixture
def update(home):
    """The update of ann's work, as the build found it."""
    relations = published(home).tables(["relations"])["relations"]
    return relations.filter(label="UPDATE", user_id="ann").row(0, named=True)


def test_a_relation_is_taken_back_and_confirmed_by_its_owner_alone(writers, home, update):
    ann, place = writers("ann"), f"/relations/{update['relation_id']}"
    for verb in ("undo", "confirm"):
        assert writers("bob").post(f"{place}/{verb}").status_code == 404
        assert writers("ann", permissions=["read"]).post(f"{place}/{verb}").status_code == 403
    assert ann.post("/relations/0000000000000000/undo").status_code == 404
    done = ann.post(f"{place}/undo").json()
    assert done == {n: update[n] for n in ("relation_id", "newer_id", "older_id")} | {
        "was": "UPDATE",
        "label": "NONE",
        "stays_retired": None,
    }
    assert ann.post(f"{place}/undo").json() == done  # a second time, too
    assert ann.post(f"{place}/confirm", json={"label": "EXTEND"}).json()["label"] == "EXTEND"
    assert ann.post(f"{place}/confirm", json={"label": "SAME"}).status_code == 422
    assert [(r.relation_id, r.label) for r in read_decisions(home.decisions).relations] == [
        (update["relation_id"], "EXTEND")
    ]


def test_two_memories_are_related_by_their_owner_alone(writers, update):
    ids = [update["newer_id"], update["older_id"]]
    assert writers("bob").post("/relations", json={"memory_ids": ids, "label": "EXTEND"}).status_code == 404
    assert writers("ann").post("/relations", json={"memory_ids": ids, "label": "EXTEND"}).json()["label"] == "EXTEND"
    assert writers("ann").post("/relations", json={"memory_ids": ids[:1]}).status_code == 422


def test_relations_to_review_are_the_callers_own(clients, writers, served, home):
    build = published(home)
    names = ("memories", "documents", "document_relations", "relations", "versions")
    wanted = review_table(build.tables(names)).filter(user_id="ann")["relation_id"].to_list()
    found = clients("ann").get("/relations", params={"limit": 100}).json()
    assert [r["relation_id"] for r in found["relations"]] == wanted and found["next_offset"] is None
    assert clients("carl").get("/relations").json() == {"relations": [], "next_offset": None}


def test_feedback_counts_from_the_next_build_on_until_it_is_taken_back(writers, home, served):
    ann = writers("ann")

    def found() -> dict[str, float]:
        memories = ann.get("/search?q=red+bike").json()["memories"]
        ids = [m["memory_id"] for m in memories if "bike is red" in m["text"]]
        with open_home(home.path) as reader:
            return {i: reader.memory(("chats", "ann"), i).confidence for i in ids}

    def build() -> None:
        run_without_dagster(home, make_plan(home, [served / "corpus"]))
        time.sleep(0.6)  # a change may go unnoticed for so long

    ((memory_id, before),) = found().items()
    place = f"/memory/{memory_id}/feedback"
    assert writers("bob").put(place, json={"verdict": "wrong"}).status_code == 404
    assert writers("ann", permissions=["read"]).put(place, json={"verdict": "wrong"}).status_code == 403
    for _ in range(2):
        assert ann.put(place, json={"verdict": "right"}).json() == {"memory_id": memory_id, "verdict": "right"}
    build()
    assert found() == {memory_id: 1.0} and before != 1.0
    assert ann.put(place, json={"verdict": "wrong"}).status_code == 200
    build()
    assert found() == {} and ann.get(f"/memory/{memory_id}").status_code == 404
    assert writers("bob").delete(place).json() == {"memory_id": memory_id, "verdict": None}  # which changes nothing
    assert len(read_decisions(home.decisions).memories) == 1
    assert ann.delete(place).json() == {"memory_id": memory_id, "verdict": None}
    build()
    assert found() == {memory_id: before}


def test_a_run_of_consolidation_is_an_operation_of_its_caller(writers):
    ann = writers("ann")
    assert writers("ann", permissions=["read"]).post("/consolidation").status_code == 403
    assert writers("carl").post("/consolidation").status_code == 404
    begun = ann.post("/consolidation").json()
    assert begun["state"] == "received"
    assert ann.post("/consolidation").json()["operation_id"] == begun["operation_id"]  # while it runs
    place = f"/operations/{begun['operation_id']}"
    assert writers("bob").get(place).status_code == 404
    for _ in range(300):
        if (done := ann.get(place).json())["state"] != "received":
            break
        time.sleep(0.1)
    assert done["state"] == "consolidated"
    assert ann.get("/proposals").json()["total"] == done["open"] == done["new"] and done["expired"] == 0
    assert writers("bob").get("/proposals").json()["total"] == 0  # nobody looked


def test_a_summary_is_of_the_callers_sessions(clients):
    ann = clients("ann")
    found = ann.get("/summary", params={"session": "s1", "sentences": 1}).json()
    assert len(found["sentences"]) == 1 and found["memories"] > 0
    whole = ann.get("/summary").json()
    assert {s["scope"][1] for s in whole["sentences"]} == {"ann"} and whole["sessions"] > 1
    for wrong in ({"session": "s3"}, {"session": "s1", "task": "x"}, {"task": "no such"}, {"sentences": 99}):
        assert ann.get("/summary", params=wrong).status_code == 422, wrong
    assert clients("carl").get("/summary").json() == {"sentences": [], "memories": 0, "sessions": 0}


def test_a_working_set_has_the_turns_of_a_session_in_a_window(clients):
    body = {"session": "s1", "turns": [{"role": "user", "content": "Is it zqnew?"}], "max_turns": 1}
    found = clients("ann").post("/working-set", json=body).json()
    assert [t["text"] for t in found["turns"]] == ["user: Is it zqnew?"]
    assert found["left_out"] == 1 and "<session>" in found["message"]["content"]
    assert clients("bob").post("/working-set", json={"session": "s1"}).json()["turns"] == []
