"""Results that other text speaks against: marked with that memory, inside the same scope and filters only."""

import datetime as dt
import json

import polars as pl
import pytest

from palimpsest.query import Scope, open_index
from palimpsest.query.present import results_text
from tests.query.made import at, memory, rows, tables, write

ANA = Scope("notes", "ana")
OLD, NEW = "Team leads may approve up to 2,000 euros.", "Team leads sign for up to 5,000 euros now, no more forms."
MEMORIES = [
    memory("m1", OLD, observed_at=at("2024-01-01")),
    memory("m2", NEW, observed_at=at("2024-06-01"), type="task"),
    memory("m3", "Team leads meet on Mondays.", observed_at=at("2024-07-01")),
    memory("m4", "Team leads approve nothing over 900 euros.", observed_at=at("2024-02-01")),
    memory("m5", "Team leads approve all.", observed_at=at("2024-08-01"), user_visible=False),
    memory("b1", "Ben approves 10 euros.", user_id="ben", observed_at=at("2024-09-01")),
]


def doubt(newer, older, **more):
    columns = {"label": "NONE", "labeler": "offline", "evidence": {"rule": "abstain", "instead_of": "UPDATE"}} | more
    ids = {"relation_id": f"{newer}?{older}", "newer_id": newer, "older_id": older}
    scope = {"collection": "notes", "user_id": "ana"}
    return {**ids, **scope, "confidence": 0.4, **columns, "evidence": json.dumps(columns["evidence"])}


def write_doubts(path, *doubts, updates=()):
    made = tables(MEMORIES, updates)
    write(made | {"relations": pl.concat([made["relations"], rows("relations", *doubts)])}, path)
    return path


def marks(index, question="What may team leads approve?", **filters):
    with open_index(index) as reader:
        found = reader.search(question, ANA, k=10, **filters)
    return {m.memory_id: m.may_be_outdated.memory_id for m in found.memories if m.may_be_outdated}, found


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return write_doubts(tmp_path_factory.mktemp("outdated") / "i.duckdb", doubt("m2", "m1"), doubt("m4", "m1"))


def test_a_near_retirement_is_reported_with_the_newest_of_the_newer_memories(index):
    marked, found = marks(index)
    assert marked == {"m1": "m2"}
    newer = next(m for m in found.memories if m.memory_id == "m1").may_be_outdated
    assert (newer.text, newer.observed_at, newer.relation_id) == (NEW, at("2024-06-01"), "m2?m1")


def test_json_text_and_context_mark_it(index):
    _, found = marks(index)
    as_json = {m["memory_id"]: m["may_be_outdated"] for m in found.to_json()["memories"]}
    assert as_json["m1"] == {
        "memory_id": "m2",
        "text": NEW,
        "observed_at": "2024-06-01T00:00:00+00:00",
        "relation_id": "m2?m1",
    }
    assert as_json["m2"] is None
    assert f"     may be outdated: {NEW}  (2024-06-01, m2)" in results_text(found)
    assert f"- (2024-01-01, may be outdated) {OLD} [memory:m1]" in found.context
    assert found.context.count("may be outdated") == 1


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"type": "document"}, {"m1": "m4"}),
        ({"until": "2024-03-01"}, {"m1": "m4"}),
        ({"as_of": "2024-03-01"}, {"m1": "m4"}),
        ({"until": "2024-01-15"}, {}),
        ({"as_of": "2024-01-15"}, {}),
    ],
)
def test_a_text_that_the_filters_exclude_is_never_returned(index, filters, expected):
    marked, found = marks(index, **filters)
    assert marked == expected
    if not expected:
        assert "m2" not in json.dumps(found.to_json()) and NEW not in results_text(found)


def test_hidden_memories_and_those_of_other_users_are_never_returned(tmp_path):
    index = write_doubts(tmp_path / "i.duckdb", doubt("m5", "m1"), doubt("b1", "m1"))
    assert marks(index)[0] == {}
    assert marks(index, include_hidden=True)[0] == {"m1": "m5"}


def test_no_mark_where_it_was_decided_ruled_out_or_replaced(tmp_path):
    veto = {"rule": "abstain", "instead_of": "UPDATE", "veto": "another statement"}
    index = write_doubts(
        tmp_path / "i.duckdb",
        doubt("m2", "m1", labeler="person"),
        doubt("m2", "m3", evidence=veto),
        doubt("m2", "m4"),
        updates=[("m3", "m4")],
    )
    assert marks(index, history=True)[0] == {}


def ranked(index, question, **filters):
    return [(m.memory_id, m.score) for m in marks(index, question, **filters)[1].memories]


NOW = "How many euros do team leads sign for now?"


def test_a_result_comes_last_where_the_newer_memory_ranks_above_it(index, tmp_path):
    plain = ranked(write_doubts(tmp_path / "i.duckdb"), NOW)
    assert [i for i, _ in plain] == ["m2", "m1", "m4", "m3"]
    assert ranked(index, NOW) == [*plain[:1], *plain[2:], plain[1]]
    with open_index(index) as reader:
        assert [m.memory_id for m in reader.search(NOW, ANA, k=3).memories] == ["m2", "m4", "m3"]


@pytest.mark.parametrize(
    ("question", "filters"),
    [
        ("What may team leads approve?", {}),
        (NOW, {"history": True}),
        (NOW, {"as_of": "2024-12-01"}),
        (NOW, {"strategy": "flat"}),
        (NOW, {"strategy": "words"}),
    ],
)
def test_the_order_stays_otherwise(index, tmp_path, question, filters):
    assert ranked(index, question, **filters) == ranked(write_doubts(tmp_path / "i.duckdb"), question, **filters)


def test_a_newer_memory_that_the_filters_exclude_changes_no_order(index, tmp_path):
    plain = ranked(write_doubts(tmp_path / "i.duckdb"), NOW, type="document")
    assert [i for i, _ in plain] == ["m1", "m4", "m3"] and ranked(index, NOW, type="document") == plain


def test_a_doubt_is_no_reason_in_a_history(index):
    with open_index(index) as reader:
        (version,) = reader.history_of(ANA, "m1")
    assert version.why is None and version.kept == ()
    assert version.memory.observed_at == dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def contradiction(newer, older, rule="model", **more):
    return doubt(newer, older, conflict="static", evidence={"rule": rule, "instead_of": "UPDATE"}, **more)


def contradictions(index, **filters):
    with open_index(index) as reader:
        found = reader.search("What may team leads approve?", ANA, k=10, **filters)
    marked = {m.memory_id: m.contradicted_by for m in found.memories if m.contradicted_by}
    return {i: (c.memory_id, c.is_newer, c.why) for i, c in marked.items()}, found


def test_a_contradiction_marks_both_memories_and_is_no_doubt(tmp_path):
    index = write_doubts(tmp_path / "i.duckdb", contradiction("m2", "m1"), contradiction("m3", "m4", "low trust"))
    marked, found = contradictions(index)
    assert marked == {
        "m1": ("m2", True, "contradiction"),
        "m2": ("m1", False, "contradiction"),
        "m3": ("m4", False, "low trust"),
        "m4": ("m3", True, "low trust"),
    }
    assert all(m.may_be_outdated is None for m in found.memories)
    as_json = {m["memory_id"]: m["contradicted_by"] for m in found.to_json()["memories"]}
    assert as_json["m1"] == {
        "memory_id": "m2",
        "text": NEW,
        "observed_at": "2024-06-01T00:00:00+00:00",
        "relation_id": "m2?m1",
        "is_newer": True,
        "why": "contradiction",
    }
    assert f"     contradicted later: {NEW}  (2024-06-01, m2)" in results_text(found)
    marks = {"m1": "contradicted later", "m2": "contradicts an earlier statement"}
    marks |= {"m3": "contradicts a more trusted source", "m4": "contradicted by a less trusted source"}
    lines = {i: next(line for line in found.context.splitlines() if f"[memory:{i}]" in line) for i in marks}
    assert all(f", {mark}) " in lines[i] for i, mark in marks.items())


def test_a_contradiction_is_shown_only_while_it_is_open_and_visible(tmp_path):
    index = write_doubts(
        tmp_path / "i.duckdb",
        contradiction("m2", "m1", labeler="person"),
        contradiction("m3", "m4"),
        contradiction("m5", "m3"),
        contradiction("b1", "m1"),
        updates=[("m3", "m4")],
    )
    assert contradictions(index, history=True)[0] == {}
    assert contradictions(index, include_hidden=True)[0] == {
        "m5": ("m3", False, "contradiction"),
        "m3": ("m5", True, "contradiction"),
    }


def test_a_contradiction_later_than_the_requested_time_is_not_shown(tmp_path):
    index = write_doubts(tmp_path / "i.duckdb", contradiction("m2", "m1"))
    assert contradictions(index, as_of="2024-03-01")[0] == {}


def test_contradictions_change_no_rank_and_no_history(tmp_path, index):
    with_conflict = write_doubts(tmp_path / "i.duckdb", contradiction("m2", "m1"))
    ranked = [[(m.memory_id, m.score) for m in marks(i)[1].memories] for i in (index, with_conflict)]
    assert ranked[0] == ranked[1]
    with open_index(with_conflict) as reader:
        (version,) = reader.history_of(ANA, "m1")
    assert version.why is None and version.kept == ()
