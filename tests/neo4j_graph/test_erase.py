"""What a delete took from a home is looked for in every property of every node, however many ids there are."""

import re

import polars as pl
import pytest

from palimpsest.core.ids import content_id
from palimpsest.index.write_index import write_index
from palimpsest.neo4j_graph.loader import residue
from palimpsest.neo4j_graph.neo4j_backend import Neo4jBackend
from palimpsest.neo4j_graph.packed import unpack_arrays
from palimpsest.neo4j_graph.published_graph import check_graph
from palimpsest.query.request.types import Filters, Scope
from tests.neo4j_graph.made import Made, fresh_home, make, memory_id, vectors
from tests.query.made import history

_ID = re.compile(rb"[0-9a-f]{16}")


@pytest.mark.slow
def test_any_number_of_ids_is_found_where_it_is_left_and_not_after_the_build_without_them(graph, tmp_path):
    home = fresh_home()
    before, after = make(tmp_path, "000001", count=60, mark="deleted"), make(tmp_path, "000002", count=60, mark="kept")
    never = {content_id("never", i).encode() for i in range(20_000)}
    gone = {i.encode() for i in before.tables["memories"]["memory_id"]}

    def kinds_with(ids: set[bytes]) -> list[str]:
        return residue(graph, home, lambda data: not ids.isdisjoint(_ID.findall(data)))

    before.load(home, graph)
    assert kinds_with(never) == []
    assert {"Memory", "Revision", "ScopeStats"} <= set(kinds_with(never | gone))
    after.load(home, graph, keep_previous=False)
    assert kinds_with(never | gone) == [] and residue(graph, home, ["deleted"]) == []


@pytest.mark.slow
def test_what_a_deletion_of_a_home_that_was_cut_short_left_is_gone_after_the_next_load(graph, tmp_path):
    home = fresh_home()
    make(tmp_path, "000001", count=60, mark="deleted").load(home, graph)
    for label in ("PalimpsestHome", "PalimpsestBuild"):
        graph.write(f"MATCH (n:{label} {{home_id: $home}}) DETACH DELETE n", home=home)
    make(tmp_path, "000002", count=60, mark="kept").load(home, graph, keep_previous=False)
    assert residue(graph, home, ["deleted"]) == [] and check_graph(graph, home) == []


def test_the_links_of_deleted_memories_are_gone_in_every_number(graph, tmp_path):
    home, before = fresh_home(), make(tmp_path, "000001", edited=(2, 4))
    before.load(home, graph)
    ann = Scope("made", "ann")
    gone, stays = (memory_id(i, " corrected") for i in (2, 4))
    keep = ~pl.col("memory_id").is_in([memory_id(2), gone])
    tables = {n: f.filter(keep) if "memory_id" in f.columns else f for n, f in before.tables.items()}
    tables["relations"] = tables["relations"].filter(pl.col("newer_id") != gone)
    write_index(tables, vectors, tmp_path / "after.duckdb", {"build_id": "000002", "collections": {"made": {}}})

    def packed_links() -> list[tuple[int, int]]:
        """Returns the relations and replacements in each packed part of links, whichever load it is of."""
        parts = "MATCH (a:PalimpsestScopeArraysRow {home_id: $home}) WHERE a.arrays_id ENDS WITH ':links' RETURN a.data"
        found = [unpack_arrays(bytes(row["a.data"])) for row in graph.read(parts, home=home)]
        return [(len(arrays["newer"]), len(arrays["replaced"])) for arrays in found]

    assert packed_links() == [(2, 2)]
    Made(tables, tmp_path / "after.duckdb", "000002").load(home, graph, keep_previous=False)
    assert packed_links() == [(1, 1)]
    neo = Neo4jBackend(home, graph)
    assert history(neo, ann, [gone]) == {} and list(history(neo, ann, [gone, stays])) == [stays]
    links = neo.neighbors(ann, Filters(history=True), [gone, memory_id(2), memory_id(4)], 0)
    assert [(link.source, link.target) for link in links] == [(memory_id(4), stays)]
    none = make(tmp_path, "000003")
    none.load(home, graph, keep_previous=False)
    assert packed_links() == []
