"""The subgraph of a search: in the answer, and as lines of the context."""

import re

import pytest

from palimpsest.query.embed_query import count_tokens
from palimpsest.query.reader import open_home
from tests.query.graphed import graph_tables
from tests.query.made import home, rows

ANA = ("notes", "ana")
QUESTION = "Where does Ida work, and where is the office of Corvid?"


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    made = graph_tables()
    scope = {"collection": "notes", "user_id": "ana", "project_id": ""}
    relation = {"relation_id": "x", **scope, "newer_id": "m4", "older_id": "m3", "label": "EXTEND", "confidence": 0.9}
    made["relations"] = rows("relations", *made["relations"].to_dicts(), relation)
    return open_home(home(tmp_path_factory.mktemp("home"), made), count_reads=False)


def test_without_it_an_answer_has_no_subgraph_and_the_same_context(reader):
    plain = reader.search(QUESTION, ANA)
    assert plain.subgraph is None and plain.to_json()["subgraph"] is None and "Relations:" not in plain.context
    assert "subgraph_ms" not in plain.timings


def test_a_search_returns_what_its_results_name_and_state(reader):
    found = reader.search(QUESTION, ANA, subgraph=True).to_json()["subgraph"]
    assert isinstance(found, dict)
    assert {"f1", "f3", "f4"} <= {f["fact_id"] for f in found["facts"]}
    assert {"Ida Moreau", "Corvid", "Bruges"} <= {n["name"] for n in found["nodes"]}
    assert found["relations"] == [{"source": "m4", "target": "m3", "type": "EXTEND", "weight": 0.9}]


def test_relations_and_facts_are_lines_of_the_context_that_cite_memories_in_it(reader):
    plain, answer = (reader.search(QUESTION, ANA, subgraph=s, sources="full") for s in (False, True))
    relations = answer.context.split("Relations:\n")[1].split("\nSources:")[0].splitlines()
    assert any("adds to" in line and line.endswith("[memory:m4] [memory:m3]") for line in relations)
    assert any("Ida Moreau works at Corvid" in line and line.endswith("[memory:m3]") for line in relations)
    assert answer.packed_ids == plain.packed_ids
    cited = {i for line in relations for i in re.findall(r"\[memory:(\w+)\]", line)}
    assert cited <= set(answer.packed_ids)
    assert answer.context_tokens == count_tokens(answer.context) or answer.context_tokens <= 1200


@pytest.mark.parametrize("budget", [0, 40, 80, 120, 160, 200, 260])
def test_lines_of_relations_displace_no_memory_and_keep_to_the_budget(reader, budget):
    plain = reader.search(QUESTION, ANA, budget_tokens=budget, sources="full")
    answer = reader.search(QUESTION, ANA, budget_tokens=budget, sources="full", subgraph=True)
    assert answer.packed_ids == plain.packed_ids and answer.context_tokens <= budget
    assert count_tokens(answer.context) <= max(budget, answer.context_tokens)
    without = re.sub(r"Relations:\n(?:- .*\n)+", "", answer.context)
    assert without == plain.context


def test_a_subgraph_shows_nothing_that_the_filters_leave_out(reader):
    answer = reader.search("Who says that Ida is ill?", ANA, subgraph=True, k=10)
    assert "Zorro" not in str(answer.to_json()) and "ill" not in answer.context
    later = reader.search(QUESTION, ANA, subgraph=True, as_of="2026-02-01")
    assert "Corvid" not in str(later.to_json())
