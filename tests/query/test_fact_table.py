"""The fact table: keys, values that conflict, what a search finds where there is no key, and what nobody may see."""

from pathlib import Path

import pytest

from palimpsest.core.errors import ArgumentError
from palimpsest.query.graph.fact_table import FactTable
from palimpsest.query.reader import Reader, open_home
from tests.query.graphed import ANA, fact, graph_tables
from tests.query.made import at, home, rows

SCOPE = ("notes", "ana")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    return open_home(home(tmp_path_factory.mktemp("home"), graph_tables()), count_reads=False)


@pytest.fixture
def table(reader: Reader) -> FactTable:
    return reader.facts(SCOPE)


@pytest.mark.parametrize("text", ["ida_moreau.works_at", "Ida Moreau works at", "IDA.works_at", "ida works at"])
def test_a_key_gives_its_latest_value_under_any_name_of_its_subject(table: FactTable, text: str) -> None:
    answer = table.get(text)
    (line,) = answer.facts
    assert answer.is_direct and (line.key, line.value) == ("ida_moreau.works_at", "Corvid")
    assert line.provenance == ("m3",) and line.confidence == 0.8 and tuple(line.scope) == ("notes", "ana", "")


def test_history_shows_what_was_superseded_after_what_is_latest(table: FactTable) -> None:
    lines = table.get("ida.works_at", history=True).facts
    assert [(x.value, x.is_latest) for x in lines] == [("Corvid", True), ("Basin", False)]
    assert not any(x.conflicts for x in lines)


def test_a_text_that_is_no_key_gives_the_facts_of_what_a_search_finds(table: FactTable) -> None:
    answer = table.get("who has an office in Bruges?")
    assert not answer.is_direct and (answer.facts[0].subject, answer.facts[0].value) == ("Corvid", "Bruges")


def test_all_facts_are_listed_by_key_and_hidden_ones_only_on_demand(table: FactTable, reader: Reader) -> None:
    keys = [line.key for line in table.facts().facts]
    assert keys == ["corvid.has", "ida_moreau.lives_in", "ida_moreau.works_at"]
    hidden = reader.facts(SCOPE, include_hidden=True).facts("Ida").facts
    assert "ida_moreau.is" in [line.key for line in hidden]


def test_facts_of_another_user_are_never_shown(table: FactTable, reader: Reader) -> None:
    assert "Paris" not in {line.value for line in (*table.facts().facts, *table.get("ida.lives_in").facts)}
    assert [line.value for line in reader.facts(("notes", "ben")).facts().facts] == ["Paris"]


def test_two_latest_values_of_a_slot_that_has_one_at_a_time_conflict(tmp_path: Path) -> None:
    tables = graph_tables()
    other = fact("f7", "ana:Ida Moreau", "lives_in", ANA, object_id="ana:Bruges", memory_ids=["m4"])
    same = fact("f8", "ana:Ida Moreau", "lives_in", ANA, object_id="ana:Ghent", memory_ids=["m1"])
    old = fact("f9", "ana:Ida Moreau", "lives_in", ANA, object_id="ana:Basin", valid_until=at("2026-03-06"))
    tables["facts"] = rows("facts", other, same, old | {"memory_ids": ["m2"], "is_latest": False})
    with open_home(home(tmp_path, tables), count_reads=False) as reader:
        found = {line.value: line.conflicts for line in reader.facts(SCOPE).get("ida.lives_in").facts}
    assert found == {"Bruges": ("Ghent",), "Ghent": ("Bruges",)}


def test_an_unknown_subject_is_an_error_that_names_the_fix(table: FactTable) -> None:
    with pytest.raises(ArgumentError, match="; facts shows all"):
        table.facts("Nobody")
