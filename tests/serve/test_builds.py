"""The builds that a home keeps, and what two of them answer to one question."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from palimpsest.query.compare_answers import compare_answers
from palimpsest.query.request.types import NewerText
from palimpsest.serve import build_routes
from palimpsest.serve.open_reader import REFRESH_S
from tests.export.made import with_own_vectors
from tests.serve.conftest import TURNS, client_of, serving
from tests.small_corpus import build_home, copy_built, write_chats

LATER = ("s4", "ann", "Ann", "I work at Calder now, no longer at Heron.", "2026-04-02T09:00:00Z")


@pytest.fixture(scope="module")
def built(served, tmp_path_factory, shared_vectors):
    """A home of two builds: in the second ann works elsewhere and a note of hers is hidden."""
    home, corpus = copy_built(served, tmp_path_factory.mktemp("compared"), shared_vectors)
    home = with_own_vectors(home)
    plan = corpus / "plans" / "plan.md"
    plan.write_text(plan.read_text().replace("---\n", "---\nprivacy: {user_visible: false}\n", 1))
    build_home(home, write_chats(corpus, [*TURNS, LATER]))
    (home.builds / "000003").mkdir()  # one that is being made
    with serving(home) as app:
        yield app


def compared(app, user, projects=(), **query):
    answer = client_of(app, user, projects=projects).get("/search/compare", params={"before": "000001", **query})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_builds_that_were_published_are_listed_newest_first(built):
    found = client_of(built, "ann").get("/builds").json()["builds"]
    assert [(b["build_id"], b["is_published"]) for b in found] == [("000002", True), ("000001", False)]
    assert client_of(built, None).get("/builds").status_code == 401


def test_what_entered_moved_and_changed_its_state_is_named(built):
    found = compared(built, "ann", q="Where do I work?", history="true")
    assert (found["before"], found["after"]) == ("000001", "000002")
    by_text = {m["text"]: m for m in found["memories"]}
    new, heron, basin = (
        next(m for text, m in by_text.items() if word in text) for word in ("Calder", "Heron now", "Basin as")
    )
    assert new["changes"] == ["entered"] and new["before"] is None and new["after"]["is_latest"]
    assert "state" in heron["changes"] and heron["before"]["is_latest"] and not heron["after"]["is_latest"]
    assert heron["after"]["superseded_by"] == new["memory_id"]
    assert "state" not in basin["changes"] and basin["before"]["rank"] and basin["after"]["rank"]
    latest = compared(built, "ann", q="Where do I work?")["memories"]
    assert [m["changes"] for m in latest if "Heron now" in m["text"]] == [["left", "state"]]


def test_a_comparison_shows_only_what_the_caller_may_read_and_nothing_that_was_hidden_since(built, monkeypatch):
    bob = compared(built, "bob", q="What do I know of work and bikes?")["memories"]
    assert [m["text"] for m in bob] == ["My bike is blue zqbob."]
    assert compared(built, "eve", q="work")["memories"] == []
    question = {"q": "Where is the bike rack of Apollo zqgreen?", "projects": ["apollo"], "project": "apollo"}
    assert not [m for m in compared(built, "ann", **question)["memories"] if "zqgreen" in m["text"]]
    monkeypatch.setattr("palimpsest.serve.build_routes._is_hidden", lambda *_: False)
    assert [m["changes"] for m in compared(built, "ann", **question)["memories"] if "zqgreen" in m["text"]] == [
        ["left"]
    ]
    (hidden,) = (m["memory_id"] for m in compared(built, "ann", **question)["memories"] if "zqgreen" in m["text"])
    monkeypatch.undo()
    newer = NewerText(hidden, "zqgreen", None, "", "uncertain")

    def disputed(*asked):
        found = compare_answers(*asked)
        return [replace(m, before=m.before and replace(m.before, disputed_by=newer)) for m in found]

    monkeypatch.setattr(build_routes, "compare_answers", disputed)
    assert "zqgreen" not in str(compared(built, "ann", projects=["apollo"], q="Where do I work?"))
    monkeypatch.undo()
    same = compared(built, "bob", q="bike", after="000001")["memories"]
    assert [m["changes"] for m in same] == [[]]


@pytest.mark.parametrize("query", ["before=000003", "before=000009", "before=000001&after=000003"])
def test_a_build_that_was_not_published_is_not_there(built, query):
    assert client_of(built, "ann").get(f"/search/compare?q=work&{query}").status_code == 404


@pytest.mark.parametrize("query", ["before=../1", "before=000001&k=0", "before=000001&include_pending=true", "q=work"])
def test_parameters_of_a_comparison_are_checked(built, query):
    assert client_of(built, "ann").get(f"/search/compare?q=work&{query}").status_code == 422


def test_what_was_deleted_is_in_the_answer_of_no_build(built):
    bob = client_of(built, "bob")
    (memory,) = compared(built, "bob", q="bike")["memories"]
    assert memory["before"] and memory["after"]
    operation = bob.delete(f"/memory/{memory['memory_id']}").json()["operation_id"]
    end = time.monotonic() + 60
    while bob.get(f"/operations/{operation}").json()["state"] == "received" and time.monotonic() < end:
        time.sleep(0.1)
    assert bob.get(f"/operations/{operation}").json()["state"] == "deleted"
    time.sleep(REFRESH_S)
    assert compared(built, "bob", q="bike")["memories"] == []


def test_few_comparisons_wait_for_one_and_others_are_refused_at_once(built, monkeypatch):
    monkeypatch.setattr("palimpsest.serve.build_routes.WAIT_S", 1.0)
    ann, path = client_of(built, "ann"), "/search/compare?q=work&before=000001"
    with build_routes._comparing, ThreadPoolExecutor(8) as threads:
        started = time.monotonic()
        ends = list(threads.map(lambda _: (ann.get(path), time.monotonic() - started), range(8)))
    assert {r.status_code for r, _ in ends} == {503} and all(r.headers["Retry-After"] for r, _ in ends)
    assert sum(after > 1 for _, after in ends) == build_routes._MAX_WAITING
    assert ann.get(path).status_code == 200
