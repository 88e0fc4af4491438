"""The graph of a scope, as a DuckDB index has it."""

import duckdb
import numpy as np
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.query.embed_query import query_embedder
from palimpsest.query.request.types import Scope
from tests.query.graphed import graph_tables
from tests.query.made import at, write

ANA = Scope("notes", "ana")


@pytest.fixture(scope="module")
def backend(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "i.duckdb"
    write(graph_tables(), path)
    return DuckDBBackend(path)


@pytest.fixture
def graph(backend):
    found = backend.graph(ANA)
    assert found is not None
    return found


def test_nodes_are_read_by_id_and_found_by_their_names_and_words(graph):
    ids = graph.nodes_named(["ida", "ida moreau", "ghent", "paris", "moreau"])
    assert ids == {"ida": ["ana:Ida Moreau"], "ida moreau": ["ana:Ida Moreau"], "ghent": ["ana:Ghent"]}
    assert graph.nodes_with_word(["moreau", "cities"]) == {"moreau": ["ana:Ida Moreau"]}
    (found,) = graph.nodes(["ana:Ida Moreau", "ben:Ida", "unknown"]).values()
    assert (found.name, found.type, found.aliases) == ("Ida Moreau", "person", ("Ida",))


def test_facts_have_their_nodes_memories_and_times(graph):
    assert [f.fact_id for f in graph.facts_of(["ana:Corvid", "ben:Ida"])] == ["f3", "f4"]
    (left,) = graph.facts_of(["ana:Basin"])
    assert left.ends == ("ana:Ida Moreau", "ana:Basin") and left.memory_ids == ("m2",) and not left.is_latest
    assert (left.valid_from, left.valid_until) == (at("2026-01-06"), at("2026-03-06"))
    (ill,) = graph.facts_of_memories(["m5", "m6"])
    assert (ill.value, ill.object_id, ill.ends) == ("ill", None, ("ana:Ida Moreau",))
    assert graph.facts_of([]) == graph.facts_of_memories(["m6"]) == []


def test_edges_are_read_in_both_directions_and_by_type(graph):
    (edge,) = graph.edges_of(["ana:Ghent"])
    assert (edge.source_id, edge.target_id, edge.type, edge.memory_ids) == ("ana:Ghent", "ana:city", "part_of", ())
    assert [e.source_id for e in graph.edges_of(["ana:city"])] == ["ana:Bruges", "ana:Ghent"]
    assert graph.edges_of(["ana:city"], types=["precedes"]) == []


def test_what_is_within_some_nodes_has_both_ends_among_them(graph):
    assert [e.source_id for e in graph.edges_of(["ana:city", "ana:Ghent"], within=True)] == ["ana:Ghent"]
    assert graph.edges_of(["ana:Ghent"], within=True) == []
    ends = [f.ends for f in graph.facts_of(["ana:Ida Moreau", "ana:Basin"], within=True)]
    assert ("ana:Ida Moreau", "ana:Basin") in ends and ("ana:Ida Moreau",) in ends
    assert all(set(e) <= {"ana:Ida Moreau", "ana:Basin"} for e in ends)
    assert graph.facts_of(["ana:Basin"], within=True) == []


def test_members_lead_from_nodes_to_memories_and_back(graph):
    members = graph.members_of(["ana:city", "ana:Ghent", "ben:Ida"])
    assert members == {"ana:city": {"m1": 0.5, "m4": 0.5}, "ana:Ghent": {"m1": 1.0}}
    assert graph.nodes_of_memories(["m4", "m6"]) == {"m4": ["ana:Bruges", "ana:Corvid", "ana:city"]}


def test_a_node_has_the_mean_of_its_memories_vectors(graph):
    one = query_embedder().embed("Ida Moreau lives in Ghent with Tom.")
    cosines = graph.node_cosines(one, ["ana:Ghent", "ana:city", "ben:Ida"])
    assert cosines["ana:Ghent"] == pytest.approx(1, abs=0.002) and set(cosines) == {"ana:Ghent", "ana:city"}
    mean = one + query_embedder().embed("Corvid has its office in Bruges.")
    assert cosines["ana:city"] == pytest.approx(float(mean @ one / np.linalg.norm(mean)), abs=0.002)
    nearest = graph.nearest_nodes(one, 2)
    assert [i for i, _ in nearest] == ["ana:Ghent", "ana:Tom"]
    assert [i for i, _ in graph.nearest_nodes(one, 9, types=["category"])] == ["ana:city"]
    assert graph.nodes_of_type(["person"], 5) == ["ana:Ida Moreau", "ana:Tom"]


def test_an_index_without_nodes_says_what_to_do(tmp_path):
    path = tmp_path / "i.duckdb"
    write(graph_tables(), path)
    with duckdb.connect(str(path)) as db:
        db.execute("DROP TABLE nodes").fetchall()
    with pytest.raises(PalimpsestError, match="run palimpsest build again"):
        DuckDBBackend(path).graph(ANA)


def test_a_scope_without_memories_has_no_graph(backend):
    assert backend.graph(Scope("notes", "nobody")) is None
