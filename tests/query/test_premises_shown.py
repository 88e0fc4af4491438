"""An answer with `explain` and a history name all premises of a derived memory, inside the scope and filters only."""

import json

import polars as pl
import pytest

from palimpsest.query import Scope, open_index
from palimpsest.query.result import history_text, results_text
from palimpsest.text.questions import asks_for_reasons
from tests.query.made import at, memory, rows, tables, write

ANA = Scope("notes", "ana")
BUDGET, SPENT, LEFT = "Stoat has 180,000 euros.", "Stoat spent 64,000 euros.", "That leaves Stoat 116,000 euros."
MEMORIES = [
    memory("m1", BUDGET, observed_at=at("2024-01-01")),
    memory("m2", SPENT, observed_at=at("2024-03-01")),
    memory("m3", LEFT, observed_at=at("2024-03-02")),
    memory("m4", "Stoat is secret.", observed_at=at("2024-01-05"), user_visible=False),
    memory("m5", "Stoat has 190,000 euros.", observed_at=at("2024-06-01")),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("premises") / "i.duckdb"
    made = tables(MEMORIES, [("m5", "m1")])
    scope = {"collection": "notes", "user_id": "ana", "confidence": 0.9, "labeler": "premises", "label": "DERIVE"}
    derived = [
        {**scope, "relation_id": f"m3>{older}", "newer_id": "m3", "older_id": older, "evidence": json.dumps({})}
        for older in ("m1", "m2", "m4")
    ]
    write(made | {"relations": pl.concat([made["relations"], rows("relations", *derived)])}, path)
    return path


def test_an_explained_answer_names_all_premises_but_those_that_filters_leave_out(index):
    with open_index(index) as reader:
        found = reader.search("What is left of Stoat?", ANA, k=10, explain=True)
    premises = {m.memory_id: m.premises for m in found.memories if m.premises}
    assert {i: [p.memory_id for p in named] for i, named in premises.items()} == {"m3": ["m1", "m2"]}
    assert [(p.text, p.is_latest, p.relation_id) for p in premises["m3"]] == [
        (BUDGET, False, "m3>m1"),
        (SPENT, True, "m3>m2"),
    ]
    text = results_text(found, explain=True)
    assert f"follows from: {BUDGET}  (2024-01-01, superseded, m1)" in text and f"follows from: {SPENT}" in text
    as_json = {m["memory_id"]: m["premises"] for m in found.to_json()["memories"]}
    assert [p["memory_id"] for p in as_json["m3"]] == ["m1", "m2"] and as_json["m2"] == []


def test_an_answer_without_explain_names_none(index):
    with open_index(index) as reader:
        found = reader.search("What is left of Stoat?", ANA, k=10)
    assert not any(m.premises for m in found.memories) and "premises" not in found.to_json()["memories"][0]


def test_a_history_names_the_premises_of_each_version(index):
    with open_index(index) as reader:
        (version,) = reader.history_of(ANA, "m3")
        hidden = reader.history_of(ANA, "m3", include_hidden=True)[0]
        retired = reader.history_of(ANA, "m1")
    assert [p.memory_id for p in version.premises] == ["m1", "m2"] and version.why is None
    assert [p.memory_id for p in hidden.premises] == ["m1", "m4", "m2"]
    assert f"follows from: {SPENT}  (2024-03-01, m2)" in history_text([version])
    assert all(v.premises == () for v in retired)


def test_a_question_that_asks_why_lifts_the_premises_of_the_conclusion(index):
    with open_index(index) as reader:
        plain, why = (
            {m.memory_id: m for m in reader.search(q, ANA, k=10, strategy="hybrid", explain=True).memories}
            for q in ("What is left of Stoat?", "Why is that left of Stoat?")
        )
    conclusion, premise = why["m3"], why["m2"]
    assert "follows from it" in premise.why and premise.score == pytest.approx(0.9 * conclusion.score)
    assert plain["m2"].score < 0.9 * plain["m3"].score


@pytest.mark.parametrize(
    ("question", "is_why"),
    [
        ("Why did we go back to the old supplier?", True),
        ("How come the shop is closed?", True),
        ("What is the reason for the delay?", True),
        ("Who wrote the report on Whyte?", False),
        ("When does the shop open?", False),
    ],
)
def test_questions_for_reasons_are_known_by_their_words(question, is_why):
    assert asks_for_reasons(question) is is_why
