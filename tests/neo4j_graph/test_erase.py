"""What a delete took from a home is looked for in every property of every node, however many ids there are."""

import re
from pathlib import Path

from palimpsest.core.ids import content_id
from palimpsest.neo4j_graph.checks import check_graph
from palimpsest.neo4j_graph.connect import Connection
from palimpsest.neo4j_graph.load.erase import residue
from tests.neo4j_graph.made import fresh_home, make

_ID = re.compile(rb"[0-9a-f]{16}")


def test_any_number_of_ids_is_found_where_it_is_left_and_not_after_the_build_without_them(
    graph: Connection, tmp_path: Path
) -> None:
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


def test_what_a_deletion_of_a_home_that_was_cut_short_left_is_gone_after_the_next_load(
    graph: Connection, tmp_path: Path
) -> None:
    home = fresh_home()
    make(tmp_path, "000001", count=60, mark="deleted").load(home, graph)
    for label in ("PalimpsestHome", "PalimpsestBuild"):
        graph.write(f"MATCH (n:{label} {{home_id: $home}}) DETACH DELETE n", home=home)
    make(tmp_path, "000002", count=60, mark="kept").load(home, graph, keep_previous=False)
    assert residue(graph, home, ["deleted"]) == [] and check_graph(graph, home) == []
