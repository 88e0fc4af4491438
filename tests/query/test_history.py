"""The history of one fact: its versions, newest first, each with what took its place and why."""

import json

import duckdb
import polars as pl
import pytest

from palimpsest.query import Scope, open_index
from palimpsest.query.result import history_text, results_text
from tests.query.made import at, memory, tables, write

ANA = Scope("notes", "ana")
FACTS = [
    memory("m1", "The launch is on Monday.", observed_at=at("2024-01-01")),
    memory("m2", "The launch moved to Friday.", observed_at=at("2024-02-01")),
    memory("m3", "The launch is on Monday again, not on Friday.", observed_at=at("2024-03-01")),
    memory("m4", "The van is red.", observed_at=at("2024-01-05"), valid_until=at("2024-12-31")),
    memory("b1", "Ben's launch is on Tuesday.", user_id="ben", observed_at=at("2024-01-01")),
    memory("b2", "Ben's launch is on Sunday.", user_id="ben", observed_at=at("2024-01-02")),
]
EVIDENCE = {"rule": "slot:day", "from": "Monday", "to": "Friday", "newer": [11, 26], "older": [11, 23]}


def made():
    t = tables(FACTS, [("m2", "m1"), ("m3", "m2"), ("b2", "b1")])
    evidence = pl.col("relation_id").replace_strict({"m2>m1": json.dumps(EVIDENCE)}, default=None)
    return t | {"relations": t["relations"].with_columns(evidence=evidence, labeler=pl.lit("offline"))}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("history") / "i.duckdb"
    write(made(), path)
    return path


@pytest.mark.parametrize("version", ["m1", "m2", "m3"])
def test_every_version_of_a_fact_has_the_same_history(index, version):
    with open_index(index) as reader:
        newest, middle, oldest = reader.history_of(ANA, version)
    assert [v.memory.memory_id for v in (newest, middle, oldest)] == ["m3", "m2", "m1"]
    assert newest.why is None and newest.memory.is_latest
    why = oldest.why
    assert (why.kind, why.by, why.label, why.confidence, why.labeler) == ("updated", "m2", "UPDATE", 0.9, "offline")
    assert (why.rule, why.was, why.now, why.relation_id) == ("slot:day", "Monday", "Friday", "m2>m1")
    assert (why.newer_quote, why.older_quote) == ("moved to Friday", "is on Monday")
    assert middle.why.by == "m3" and middle.memory.valid_until == at("2024-03-01")


def test_a_history_in_text_has_when_each_version_was_valid_and_what_changed(index):
    with open_index(index) as reader:
        assert history_text(reader.history_of(ANA, "m1")).splitlines() == [
            "2024-03-01 to now  The launch is on Monday again, not on Friday.  [m3]",
            "2024-02-01 to 2024-03-01  The launch moved to Friday.  [m2]",
            "    replaced by [m3]: it is an update, found by the labeler offline (0.90 sure); relation m3>m2",
            "2024-01-01 to 2024-02-01  The launch is on Monday.  [m1]",
            "    replaced by [m2]: 'Monday' became 'Friday', found by the labeler offline (0.90 sure); relation m2>m1",
        ]
        assert "2024-01-05 to 2024-12-31" in history_text(reader.history_of(ANA, "m4"))


def test_an_answer_has_each_replaced_fact_once_with_history_and_none_without(index):
    with open_index(index) as reader:
        results = reader.search("When is the launch?", ANA, history=True)
        assert results_text(results).count("history, newest first") == 1 and "history: see 1" in results_text(results)
        first = next(m for m in results.to_json()["memories"] if m["memory_id"] == "m1")
        assert [v["memory_id"] for v in first["history"]] == ["m3", "m2", "m1"]
        assert first["history"][2]["why"]["text"].startswith("replaced by [m2]: 'Monday' became 'Friday'")
        assert first["history"][0]["why"] is None and json.dumps(first)
        plain = reader.search("When is the launch?", ANA)
        assert not plain.versions and "history" not in results_text(plain)
        assert "history" not in plain.to_json()["memories"][0]


def test_no_history_leaves_its_scope(index):
    with open_index(index) as reader:
        assert reader.history_of(ANA, "b1") == () and reader.history_of(("notes", "nobody"), "m1") == ()
        assert [v.memory.memory_id for v in reader.history_of(("notes", "ben"), "b1")] == ["b2", "b1"]


def test_an_index_of_an_earlier_version_has_histories_without_reasons(index, tmp_path):
    old = tmp_path / "old.duckdb"
    old.write_bytes(index.read_bytes())
    with duckdb.connect(str(old)) as db:
        db.execute("DROP TABLE reasons").fetchall()
    with open_index(old) as reader:
        history = reader.history_of(ANA, "m1")
    assert [v.memory.memory_id for v in history] == ["m3", "m2", "m1"] and all(v.why is None for v in history)
