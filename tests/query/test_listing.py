import json

import pytest

from palimpsest.query import Scope, open_index
from palimpsest.text.questions import listed_nouns
from tests.query.graphed import ANA as NOTES_OF_ANA
from tests.query.graphed import graph_tables, node
from tests.query.made import rows, write

ANA = Scope("notes", "ana")


@pytest.fixture
def reader(tmp_path):
    """Ghent and Bruges are cities; m1 describes the one, m4 the other, and hidden m5 a third."""
    made = graph_tables()
    described = {"Ghent": "m1", "Bruges": "m4", "Zorro": "m5"}
    nodes = made["nodes"].to_dicts()
    for row in nodes:
        if row["name"] in described:
            row["metadata"] = json.dumps({"description_memory_id": described[row["name"]]})
    zorro = {"source_id": "ana:Zorro", "target_id": "ana:city", **NOTES_OF_ANA, "type": "part_of", "weight": 1.0}
    made["nodes"] = rows("nodes", *nodes, node("ana:none", "empty things", "category", NOTES_OF_ANA))
    made["edges"] = rows("edges", *made["edges"].to_dicts(), zorro)
    write(made, tmp_path / "i.duckdb")
    with open_index(tmp_path / "i.duckdb") as opened:
        yield opened


def ranked(reader, question):
    return {m.memory_id: m for m in reader.search(question, ANA, k=10, strategy="hybrid", explain=True).memories}


def test_a_question_for_all_of_a_kind_finds_what_describes_each(reader):
    found = ranked(reader, "Which cities did Ida leave when she left Basin for Corvid?")
    assert {"m1", "m4"} <= set(list(found)[:3])
    assert any("the question asks for all of a kind, and it describes one" in m.why for m in found.values())


def test_hidden_memories_describe_nothing(reader):
    assert "m5" not in ranked(reader, "Which cities are there?")


def test_another_question_and_an_empty_category_lift_nothing(reader):
    for question in ("Does Ida like cities?", "Which empty things are there?", "Which rivers are there?"):
        assert all("it describes one" not in m.why for m in ranked(reader, question).values())


@pytest.mark.parametrize(
    ("question", "nouns"),
    [
        ("Which customers do we have?", ["customers"]),
        ("List all the notable buildings", ["notable buildings", "buildings"]),
        ("Who are our suppliers?", ["suppliers"]),
        ("What do people eat on Sundays?", []),
        ("Which book was written first?", []),
        ("When is the fair?", []),
        ("", []),
    ],
)
def test_what_a_question_asks_to_list(question, nouns):
    assert listed_nouns(question) == nouns
