"""Stressors: what a text says of its speaker, what it does not, and the nodes and edges that follow."""

import json

import pytest

from palimpsest.nodes.stressors import stated_stressors
from tests.nodes.made_nodes import Page, edges_of, made, nodes_of


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("My physics exam stresses me out.", "physics exam"),
        ("I'm really worried about my sister's operation lately.", "sister's operation"),
        ("The noise next door keeps me awake.", "noise next door"),
        ("Still struggling with the thesis chapter again.", "thesis chapter"),
        ("Work was fine, but the new boss is stressing me.", "new boss"),
        ("I lose sleep over the loan every night.", "loan"),
    ],
)
def test_a_stressor_is_what_somebody_says_of_themselves(text, name):
    assert [found for found, _, _ in stated_stressors(text)] == [name]


@pytest.mark.parametrize(
    "text",
    [
        "I don't worry about the rent.",
        "The exam no longer worries me.",
        "If the exam stresses me, I walk.",
        "Am I worried about the exam?",
        "What keeps me awake at night?",
        "Flowers came, which worries me.",
        "I worry about it.",
        "Ben worries about the rent.",
        "My sister is struggling with grammar.",
        "The taxi gets me out of town.",
    ],
)
def test_denials_conditions_questions_pronouns_and_others_state_no_stressor(text):
    assert not list(stated_stressors(text))


def test_a_stressor_is_a_concept_related_to_the_category_of_what_it_names():
    schools = [Page(f"schools/{n}.md", [f"{n} stands."], title=n) for n in ("Harbour School", "Moor House")]
    texts = [
        "I worry about the roof of Harbour School.",
        "I dread the roof of Harbour School.",
        "I dread school mornings.",
    ]
    pages = [Page(f"{i}.md", [text]) for i, text in enumerate(texts)]
    tables = made([*pages, *schools], {"Harbour School": "title", "Moor House": "title"})
    node = nodes_of(tables)["roof of Harbour School"]
    assert (node["type"], node["memory_count"]) == ("concept", 2)
    assert json.loads(node["metadata"])["properties"] == {"role": "stressor"}
    related = {frozenset((a, b)) for a, kind, b in edges_of(tables) if kind == "related_to"}
    assert {frozenset(("roof of Harbour School", other)) for other in ("schools", "Harbour School")} <= related
    assert frozenset(("school mornings", "schools")) in related


def test_a_stressor_with_the_name_of_an_entity_is_that_entity():
    tables = made([Page("a.md", ["Harbour Loan keeps me awake."])], {"Harbour Loan": "name"})
    nodes = nodes_of(tables)
    assert list(nodes) == ["Harbour Loan"]
    assert json.loads(nodes["Harbour Loan"]["metadata"])["properties"] == {"role": "stressor"}


def test_a_memory_with_personal_data_states_no_stressor():
    tables = made([Page("a.md", ["I worry about the rent."])], {})
    assert "rent" in nodes_of(tables)
    tables["memories"] = tables["memories"].with_columns(pii=True)
    assert "rent" not in nodes_of(tables)
