"""Every filter holds for every text of an answer: what was replaced, neighbors, history, reasons, links."""

import json

import polars as pl
import pytest

from palimpsest.query import Scope, open_index
from palimpsest.query.result import results_text
from tests.query.made import at, memory, tables, write

ANA = Scope("notes", "ana")
TURN = {"unit": "turn", "document_id": "d", "tags": ["old"], "type": "episodic"}
FACTS = [
    memory("m1", "The launch is on Monday zqone.", observed_at=at("2024-01-01"), session_id="s1", **TURN),
    memory("m2", "The launch moved to Friday zqtwo.", observed_at=at("2024-03-01"), session_id="s2"),
    memory("m3", "The launch needs a van zqthree.", observed_at=at("2024-01-02"), session_id="s1", ordinal=1, **TURN)
    | {"ordinal": 1},
    memory("m4", "The van of the launch is red zqfour.", observed_at=at("2024-04-01"), session_id="s2"),
]
EVIDENCE = {"rule": "slot:day", "from": "Monday zqone", "to": "Friday zqtwo", "newer": [11, 32], "older": [11, 29]}


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "i.duckdb"
    mentions = [("m3", "Zqthree Van"), ("m4", "Zqthree Van"), ("m2", "Other")]
    made = tables(FACTS, [("m2", "m1")], [("m4", "m3", "EXTEND")], mentions)
    relations = made["relations"].with_columns(evidence=pl.lit(json.dumps(EVIDENCE)), labeler=pl.lit("offline"))
    write(made | {"relations": relations}, path)
    with open_index(path) as r:
        yield r


def answer_text(reader, **filters):
    found = reader.search("When is the launch, and which van?", ANA, k=10, explain=True, **filters)
    return results_text(found, True) + json.dumps(found.to_json())


@pytest.mark.parametrize("more", [{}, {"history": True}, {"strategy": "graph"}, {"strategy": "flat"}])
@pytest.mark.parametrize(
    ("filters", "shown", "hidden"),
    [
        ({}, ["zqtwo", "zqthree", "zqfour"], []),
        ({"session": "s2"}, ["zqtwo", "zqfour"], ["zqone", "zqthree"]),
        ({"since": "2024-02-01"}, ["zqtwo", "zqfour"], ["zqone", "zqthree"]),
        ({"until": "2024-03-15"}, ["zqtwo", "zqthree"], ["zqfour"]),
        ({"types": ["document"]}, ["zqtwo", "zqfour"], ["zqone", "zqthree"]),
        ({"tags": ["old"]}, ["zqthree"], ["zqtwo", "zqfour"]),
        ({"as_of": "2024-02-01"}, ["zqone", "zqthree"], ["zqtwo", "zqfour"]),
    ],
)
def test_a_filter_holds_for_every_text_of_an_answer(reader, filters, shown, hidden, more):
    text = answer_text(reader, **filters, **more).casefold()
    assert all(word in text for word in shown)
    assert not [word for word in hidden if word in text]


def test_without_a_filter_replaced_memories_are_in_the_answer(reader):
    assert "replaced: (2024-01-01, until 2024-03-01) The launch is on Monday zqone." in answer_text(reader)
