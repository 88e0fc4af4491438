"""Questions over the graph: how things relate, how one changed, what is near, and what nobody may see."""

import polars as pl
import pytest

from palimpsest.core.errors import ArgumentError
from palimpsest.query.graph.graph_answer import GraphAnswer
from palimpsest.query.reader import open_home
from tests.query.graphed import ANA as SCOPE
from tests.query.graphed import graph_tables
from tests.query.made import home, rows

ANA = ("notes", "ana")


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    return open_home(home(tmp_path_factory.mktemp("home"), graph_tables()), count_reads=False)


@pytest.fixture
def graph(reader):
    return reader.graph(ANA)


def memory_ids(answer: GraphAnswer) -> list[tuple[str, ...]]:
    return [line.memory_ids for line in answer.lines]


def test_a_relation_is_shown_with_the_fact_and_the_memory_that_states_it(graph):
    answer = graph.relations("How does Ida relate to Ghent?")
    first = answer.lines[0]
    assert first.memory_ids == ("m1",) and first.kind == "fact" and "Ida Moreau lives in Ghent" in first.text
    assert first.cited.endswith("[memory:m1]") and answer.names == ("Ida", "Ghent")
    (step,) = answer.paths[0]
    assert (step.source_id, step.target_id, step.type) == ("ana:Ida Moreau", "ana:Ghent", "lives in")


def test_two_things_that_no_memory_names_together_are_tied_by_a_path(graph):
    answer = graph.relations("What connects Ida with Bruges?")
    path = next(line for line in answer.lines if line.kind == "path")
    assert path.memory_ids == ("m3", "m4")
    assert [(s.source_id, s.target_id) for s in answer.paths[0]] == [
        ("ana:Ida Moreau", "ana:Corvid"),
        ("ana:Corvid", "ana:Bruges"),
    ]


def test_a_timeline_has_the_stages_in_the_order_of_events_and_what_replaced_what(graph):
    answer = graph.timeline("Where has Ida worked, and what changed?")
    worked = [line for line in answer.lines if line.memory_ids[0] in ("m2", "m3")]
    assert [line.memory_ids for line in worked] == [("m2",), ("m3",)]
    assert "replaced by [m3]" in worked[0].text
    times = [line.time for line in answer.lines if line.time]
    assert times == sorted(times)


def test_what_is_disputed_is_named_with_what_disputes_it(tmp_path):
    ids = {"relation_id": "r", "newer_id": "m3", "older_id": "m1", "label": "NONE", "labeler": "offline"}
    dispute = rows("relations", {**SCOPE, **ids, "consequence": "disputed", "likelihood": 0.5})
    made = graph_tables()
    made |= {"relations": pl.concat([made["relations"], dispute])}
    words = "(disputed by [memory:m3], 2026-03-06: “Ida left Basin and works at Corvid.”)"
    with open_home(home(tmp_path, made), count_reads=False) as opened:
        graph = opened.graph(ANA)
        assert words in graph.relations("How does Ida relate to Ghent?").lines[0].text
        (stage,) = (line for line in graph.timeline("Where has Ida lived?").lines if "m1" in line.memory_ids)
    assert words in stage.text and stage.memory_ids == ("m1", "m3")


def test_nodes_are_filtered_by_type_and_metadata(graph):
    near = graph.neighbors("Ida Moreau", 2, node_types=["organisation"], where="since > 2000 and importance = 0.5")
    assert [n.name for n in near.nodes] == ["Ida Moreau", "Corvid"]
    assert {s for e in near.facts for s in e.ends} == {"ana:Ida Moreau", "ana:Corvid"}
    assert [n.name for n in graph.neighbors("Corvid", 1, where='exists(city) or name = "Bruges"').nodes] == [
        "Corvid",
        "Bruges",
    ]
    assert graph.node("Corvid", where="not since < 2021").nodes
    with pytest.raises(ArgumentError, match="satisfies"):
        graph.node("Corvid", node_types=["person"])


def test_a_node_is_shown_with_its_facts_and_edges_alone(graph):
    answer = graph.node("Corvid")
    assert {f.fact_id for f in answer.facts} == {"f3", "f4"} and answer.nodes[0].name == "Corvid"
    assert all("Corvid" in line.text and line.memory_ids for line in answer.lines)


def test_neighbors_are_reached_step_by_step_over_the_types_that_are_followed(graph):
    one, two = graph.neighbors("Bruges", 1), graph.neighbors("Bruges", 2)
    assert {n.name for n in one.nodes} == {"Bruges", "Corvid", "cities"}
    assert {"Ghent", "Ida Moreau"} <= {n.name for n in two.nodes}
    assert {n.name for n in graph.neighbors("Bruges", 2, ["part_of"]).nodes} == {"Bruges", "cities", "Ghent"}
    edges = one.to_json()["edges"]
    assert isinstance(edges, list) and {"source", "target", "type"} <= set(edges[0])


def test_nothing_that_only_a_hidden_memory_states_is_shown(reader):
    for answer in (
        reader.graph(ANA).neighbors("Ida", 3),
        reader.graph(ANA).relations("How does Ida relate to Zorro?"),
        reader.graph(ANA).timeline("Ida"),
        reader.graph(ANA).subgraph(["m1", "m5"]),
    ):
        assert "Zorro" not in str(answer.nodes) + str(answer.lines) and "f5" not in {f.fact_id for f in answer.facts}
        assert "m5" not in str(answer.to_json())
    with pytest.raises(ArgumentError, match="no node in this scope"):
        reader.graph(ANA).node("Zorro")
    shown = reader.graph(ANA, include_hidden=True).node("Zorro")
    assert [e.type for e in shown.edges if e.type == "related_to"] == ["related_to"]


def test_nothing_of_another_user_is_shown(reader):
    both = [reader.graph(ANA).neighbors("Ida", 4), reader.graph(ANA).relations("How does Ida relate to Paris?")]
    assert not any("ben" in str(answer.to_json()) or "m6" in str(answer.to_json()) for answer in both)
    assert {n.node_id for n in reader.graph(("notes", "ben")).neighbors("Ida").nodes} == {"ben:Ida", "ben:Paris"}


def test_a_subgraph_has_what_its_memories_name_and_state(graph):
    answer = graph.subgraph(["m3", "m4"])
    assert {n.name for n in answer.nodes} == {"Ida Moreau", "Basin", "Corvid", "Bruges", "cities"}
    assert {f.fact_id for f in answer.facts} == {"f3", "f4"}
    assert [(e.source_id, e.type) for e in answer.edges] == [("ana:Bruges", "part_of")]


def test_arguments_out_of_range_name_themselves(graph):
    with pytest.raises(ArgumentError, match="k"):
        graph.timeline("Ida", k=0)
    with pytest.raises(ArgumentError, match="depth"):
        graph.neighbors("Ida", depth=9)
    with pytest.raises(ArgumentError, match="text"):
        graph.relations("  ")


def test_a_text_cannot_pass_for_a_citation(tmp_path):
    made = graph_tables("Ida Moreau lives in Ghent [memory:m2] with Tom.")
    with open_home(home(tmp_path, made), count_reads=False) as opened:
        lines = opened.graph(ANA).relations("How does Ida relate to Ghent?").lines
    assert all(line.text.count("[memory:") == 0 for line in lines)
