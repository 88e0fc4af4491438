"""Types of nodes: what the texts, the names and the documents show, and nothing without evidence."""

import pytest

from palimpsest.nodes.type_evidence import head_noun, name_type, noun_type, singular
from tests.nodes.made_nodes import Page, fact, made, nodes_of
from tests.query.made import rows


@pytest.mark.parametrize(
    ("phrase", "noun"),
    [
        ("mill town at the sea", "town"),
        ("one of the fathers of rail", "father"),
        ("group of nine low islands", "island"),
        ("football club, founded by waiters", "club"),
        ("only one with a camera", ""),
        ("painter of snow and ice", "painter"),
    ],
)
def test_the_last_noun_before_a_preposition_shows_what_a_phrase_names(phrase, noun):
    assert head_noun(phrase) == noun


@pytest.mark.parametrize(
    ("noun", "one"), [("cities", "city"), ("churches", "church"), ("people", "person"), ("works", "works")]
)
def test_a_plural_has_the_type_of_its_singular(noun, one):
    assert singular(noun) == one
    assert noun_type(noun) == noun_type(one) != ""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Grit Lane", "place"),
        ("Flood of 1874", "event"),
        ("Tidal Print", "organisation"),
        ("Dr. Hallam", "person"),
        ("Calder (river)", "place"),
        ("Mondays", "date"),
        ("Firmware 4.1", "product"),
        ("Hotel Patience", "place"),
        ("Norwegian", "concept"),
        ("The Salt Clerk", None),
        ("Port Digital Service", None),
        ("Project Board", "organisation"),
        ("Vera Maling", None),
    ],
)
def test_the_words_of_a_name_show_its_type(name, kind):
    found = name_type(name)
    assert (found.type if found else None) == kind


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("Basin is the database of the lab.", "Basin", "product"),
        ("We met the guide Moll on the way.", "Moll", "person"),
        ("Our tickets live in a tracker called Sluice.", "Sluice", "product"),
        ("He came from the village of Skell.", "Skell", "place"),
        ("Quoll, the programme for reminders, grows.", "Quoll", "project"),
        ("She rented rooms near Brakel. They are in Brakel.", "Brakel", "concept"),
        ("Ferry said nothing.", "Ferry", "person"),
        ("Ask the owner.", "Ask", "concept"),
        ("Corvane did it.", "Corvane", "concept"),
        ("Each of us has one Corvane, and two Corvane.", "Corvane", "concept"),
    ],
)
def test_the_words_around_a_name_show_its_type(text, name, kind):
    assert nodes_of(made([Page("a.md", [text])], {name: "name"}))[name]["type"] == kind


def test_names_of_cities_and_first_names_show_a_type_and_words_that_are_both_none():
    names = dict.fromkeys(("Sevilla", "Maria", "Reading"), "name")
    nodes = nodes_of(made([Page("a.md", ["The lamp of Sevilla.", "Maria knows.", "A day in Reading."])], names))
    assert [nodes[n]["type"] for n in names] == ["place", "person", "concept"]


def test_the_folder_of_a_document_shows_what_its_title_names():
    pages = [Page("customers/calder.md", ["Calder pays late."], title="Calder")]
    assert nodes_of(made(pages, {"Calder": "title"}))["Calder"]["type"] == "organisation"


def test_a_title_that_names_its_document_alone_is_a_concept_or_an_event():
    pages = [
        Page("customers/how.md", ["Nobody knows."], title="How we sell lamps"),
        Page("meetings/a.md", ["Nobody came."], title="Meeting about lamps"),
    ]
    nodes = nodes_of(made(pages, {"How we sell lamps": "title", "Meeting about lamps": "title"}))
    assert nodes["How we sell lamps"]["type"] == "concept"
    assert nodes["Meeting about lamps"]["type"] == "event"


def test_facts_show_the_type_of_both_ends():
    pages = [Page("a.md", ["Rask works for Tarn."])]
    facts = rows("facts", fact("Rask", "works_for", "Tarn"))
    clauses = rows("clause_facts", fact("Rask", "works_for", "Tarn") | {"memory_id": "m0.0"})
    nodes = nodes_of(made(pages, {"Rask": "name", "Tarn": "name"}, facts=facts, clause_facts=clauses))
    assert nodes["Rask"]["type"] == "person"
    assert nodes["Tarn"]["type"] == "organisation"


def test_serial_numbers_take_the_type_of_those_with_the_same_letters():
    pages = [Page("a.md", ["The probe TP-1 drifts.", "TP-2 came back."])]
    nodes = nodes_of(made(pages, {"TP-1": "acronym", "TP-2": "acronym"}))
    assert nodes["TP-2"]["type"] == nodes["TP-1"]["type"] == "product"


def test_a_first_name_is_a_person_where_the_scope_has_the_full_name():
    pages = [Page("a.md", ["Jonas Feld said so.", "A note by Jonas."])]
    nodes = nodes_of(made(pages, {"Jonas Feld": "person", "Jonas": "name"}))
    assert nodes["Jonas"]["type"] == "person"


def test_the_evidence_of_a_type_is_in_the_metadata_with_the_memory_that_shows_it():
    node = nodes_of(made([Page("a.md", ["Basin is the database of the lab."])], {"Basin": "name"}))["Basin"]
    assert '"rule": "defined"' in node["metadata"] and '"memory_id": "m0.0"' in node["metadata"]
