import numpy as np
import pytest

from palimpsest.core.errors import ArgumentError
from palimpsest.query import Scope, open_index
from palimpsest.query.ranking.hierarchy import find_nodes, reach_memories
from tests.query.graphed import graph_tables
from tests.query.made import memory, tables, write

ANA = Scope("notes", "ana")
ZERO = np.zeros(384, np.float32)


@pytest.fixture
def reader(tmp_path):
    write(graph_tables(), tmp_path / "i.duckdb")
    with open_index(tmp_path / "i.duckdb") as opened:
        yield opened


def search(reader, question, **options):
    found = reader.search(question, ANA, k=10, strategy="hierarchical", explain=True, **options).memories
    return {m.memory_id: m for m in found}


def test_the_node_that_a_question_names_lifts_its_memories(reader):
    found = search(reader, "What of Corvid?")
    assert "the question asks about 'Corvid', which it names" in found["m3"].why
    assert next(iter(found)) in ("m3", "m4")


def test_narrow_returns_memories_of_the_nodes_found_alone(reader):
    of_people = {"node_types": ["organisation"], "depth": 0}
    assert set(search(reader, "What of Basin?", narrow=False, **of_people)) == {"m1", "m3", "m4"}
    assert set(search(reader, "What of Basin?", narrow=True, **of_people)) == {"m3"}


def test_nodes_are_found_by_what_their_metadata_satisfies(reader):
    found = search(reader, "What of Basin?", narrow=True, depth=0, node_where='city = "Aalst" and since >= 2020')
    assert set(found) == {"m3", "m4"}
    with pytest.raises(ArgumentError, match="node_where"):
        search(reader, "What of Basin?", node_where="city =")


def test_metadata_of_a_node_with_a_hidden_memory_filters_nothing(reader):
    of_ida = {"narrow": True, "depth": 0, "node_where": "since = 1999"}
    shown = search(reader, "Ida Moreau", include_hidden=True, **of_ida)
    assert "m5" in shown and set(search(reader, "Ida Moreau", **of_ida)) != set(shown) - {"m5"}


def test_hidden_memories_stay_hidden(reader):
    assert "m5" not in search(reader, "Zorro", narrow=True) and "m5" in search(reader, "Zorro", include_hidden=True)


def test_another_users_nodes_are_not_found(reader):
    assert "m6" not in search(reader, "Ida Paris", narrow=True)


def test_edges_are_followed_as_deep_as_asked_and_each_costs_a_share(reader):
    view, graph = reader.backend.view(ANA), reader.backend.graph(ANA)
    only, with_places = (reach_memories(graph, view.ids, ["ana:city"], depth)["ana:city"] for depth in (0, 1))
    assert only.names == ("cities",) and set(with_places.names) == {"Bruges", "Ghent", "cities"}
    assert only.gains.tolist() == with_places.gains.tolist() == pytest.approx([0.5, 0.5])
    assert reach_memories(graph, view.ids, ["ana:Ghent"], 2)["ana:Ghent"].names == ("Ghent",)  # not what it is part of
    related = reach_memories(graph, view.ids, ["ana:Zorro"], 1)["ana:Zorro"]
    assert dict(zip(view.ids[related.rows], related.gains, strict=True)) == pytest.approx(
        {"m3": 0.7 * 0.5, "m4": 0.7 * 0.5, "m5": 1.0}
    )


def test_names_count_more_than_nearness_and_types_leave_out_the_rest(reader):
    graph = reader.backend.graph(ANA)
    assert next(iter(find_nodes(graph, "Ida Moreau?", ZERO, (), 5))) == "ana:Ida Moreau"
    assert find_nodes(graph, "Ida Moreau?", ZERO, ("place",), 5).keys() <= {"ana:Bruges", "ana:Ghent", "ana:Zorro"}


def test_without_nodes_memories_rank_by_themselves(tmp_path):
    write(tables([memory("m1", "The bees swarm."), memory("m2", "The rent is due.")]), tmp_path / "i.duckdb")
    with open_index(tmp_path / "i.duckdb") as opened:
        flat = opened.search("bees", ANA, strategy="hybrid", hops=0).memories
        for narrow in (False, True):
            found = opened.search("bees", ANA, strategy="hierarchical", hops=0, narrow=narrow).memories
            assert {m.memory_id: m.score for m in found} == {m.memory_id: m.score for m in flat}


@pytest.mark.parametrize(
    ("options", "field"), [({"narrow": True}, "strategy"), ({"strategy": "hierarchical", "depth": 3}, "depth")]
)
def test_options_of_the_strategy_are_checked(reader, options, field):
    with pytest.raises(ArgumentError, match=field):
        reader.search("bees", ANA, **options)
