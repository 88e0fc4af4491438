"""Results that newer text may contradict: marked with the newer memory, inside the same scope and filters only."""

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


def test_marks_change_no_rank_and_no_score(index, tmp_path):
    plain = write_doubts(tmp_path / "i.duckdb")
    ranked = [[(m.memory_id, m.score) for m in marks(i)[1].memories] for i in (index, plain)]
    assert ranked[0] == ranked[1]


def test_a_doubt_is_no_reason_in_a_history(index):
    with open_index(index) as reader:
        (version,) = reader.history_of(ANA, "m1")
    assert version.why is None and version.kept == ()
    assert version.memory.observed_at == dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
