"""Walks in the graph of a scope: what links nodes, read alike with and without concealed memories."""

import polars as pl
import pytest

from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.query.graph.graph_lines import MENTIONED_WITH, find_neighbors
from palimpsest.query.request.types import Filters, Scope
from palimpsest.query.scope.served_graph import ServedGraph
from palimpsest.query.scope.served_scope import ServedScope
from tests.query.graphed import graph_tables
from tests.query.made import write

ANA = Scope("notes", "ana")
NODES = [f"ana:{n}" for n in ("Basin", "Bruges", "Corvid", "Ghent", "Ida Moreau", "Tom", "Zorro", "city")]


@pytest.fixture(scope="module")
def backend(tmp_path_factory):
    path = tmp_path_factory.mktemp("walks") / "i.duckdb"
    write(graph_tables(), path)
    return DuckDBBackend(path)


def served(backend: DuckDBBackend, scope: Scope = ANA, *, all_shown: bool = True) -> ServedGraph:
    graph = ServedGraph.of(ServedScope(backend, scope, Filters(history=True, include_hidden=all_shown)))
    assert graph is not None
    return graph


def test_links_are_the_ends_of_edges_and_of_facts_between_nodes(backend):
    edges, facts = served(backend).graph.links_of(["ana:Corvid", "ana:city", "ben:Ida"])
    assert edges == [("ana:Bruges", "ana:city"), ("ana:Corvid", "ana:Zorro"), ("ana:Ghent", "ana:city")]
    assert facts == [("ana:Ida Moreau", "ana:Corvid"), ("ana:Corvid", "ana:Bruges")]
    assert served(backend).graph.links_of(["ana:city"], ["related_to"]) == ([], [])
    assert served(backend).graph.links_of(["ana:Corvid"], ["has"]) == ([], [("ana:Corvid", "ana:Bruges")])
    assert served(backend).graph.links_of([]) == ([], [])


def test_nodes_named_together_come_with_the_share_of_memories_and_the_first_of_them(backend):
    first, second, *rest = served(backend).graph.named_together(["ana:Ida Moreau"], 8, 1)
    assert (first.ends, first.share, first.memory_ids) == (("ana:Ida Moreau", "ana:Basin"), 0.5, ("m2",))
    assert (second.ends, second.share) == (("ana:Ida Moreau", "ana:Corvid"), 0.25)
    assert [t.ends[1] for t in rest] == ["ana:Ghent", "ana:Tom", "ana:Zorro", "ana:city"]
    assert served(backend).graph.named_together(["ana:Ida Moreau", "ben:Ida"], 1, 1) == [first]


def test_a_scope_with_concealed_memories_is_walked_as_if_they_were_not_there(backend, tmp_path):
    bare = graph_tables()
    columns = {
        "facts": ~pl.col("memory_ids").list.contains("m5"),
        "edges": ~pl.col("memory_ids").list.contains("m5"),
        "nodes": pl.col("name") != "Zorro",
    }
    bare |= {name: bare[name].filter(kept) for name, kept in columns.items()}
    bare |= {name: frame.filter(pl.col("memory_id") != "m5") for name, frame in bare.items() if "memory_id" in frame}
    write(bare, tmp_path / "i.duckdb")
    without = served(DuckDBBackend(tmp_path / "i.duckdb"))
    concealed = served(backend, all_shown=False)
    assert concealed.links_of(NODES) == without.links_of(NODES)
    assert concealed.links_of(NODES, ["part_of", "has"]) == without.links_of(NODES, ["part_of", "has"])
    assert concealed.named_together(NODES, 2, 1) == without.named_together(NODES, 2, 1)
    assert "ana:Zorro" not in find_neighbors(concealed, ["ana:Ida Moreau"], 4).nodes


def test_a_link_that_both_ends_find_comes_once_with_the_greater_weight(backend):
    found = find_neighbors(served(backend), ["ana:Ghent"], 3, [MENTIONED_WITH])
    pairs = [(e.source_id, e.target_id) for e in found.edges]
    assert pairs == sorted(set(pairs))
    assert {e.weight for e in found.edges if e.source_id == "ana:Ghent" and e.target_id == "ana:Tom"} == {1.0}
