"""What somebody sees who writes labels and no numbers: the published build, after any number of loads."""

import pytest

from palimpsest.index.write_index import write_index
from palimpsest.neo4j_graph import migrations, writer
from palimpsest.neo4j_graph.connect import Connection
from palimpsest.neo4j_graph.loader import count_rows, load_tables
from palimpsest.neo4j_graph.model import CURRENT, KEYS, current_label, row_label
from palimpsest.neo4j_graph.neo4j_backend import Neo4jBackend
from palimpsest.neo4j_graph.published_graph import check_graph
from palimpsest.neo4j_graph.writer import Writer
from palimpsest.query.request.types import Filters, Scope
from tests.neo4j_graph.made import MODEL, Made, fresh_home, make, memory_id, vectors
from tests.query.made import history

LATEST = "MATCH (m:PalimpsestMemory {home_id: $home, is_latest: true}) RETURN m.memory_id AS id ORDER BY id"
MENTIONED = """
MATCH (m:PalimpsestMemory {home_id: $home})-[:MENTIONS]->(e)
RETURN m.memory_id AS id, e.name AS name ORDER BY id, name"""


def seen(connection: Connection, home: str) -> tuple[list[str], list[tuple[str, str]]]:
    """The latest memories, and what memories mention, as somebody writes it who has never heard of numbers."""
    latest = [r["id"] for r in connection.read(LATEST, home=home)]
    return latest, [(r["id"], r["name"]) for r in connection.read(MENTIONED, home=home)]


def expected(made: Made) -> tuple[list[str], list[tuple[str, str]]]:
    versions, entities, mentions = (made.tables[n] for n in ("versions", "entities", "mentions"))
    named = mentions.join(entities.select("entity_id", "name"), on="entity_id").select("memory_id", "name")
    return sorted(versions.filter("is_latest")["memory_id"].to_list()), sorted(named.rows())


@pytest.mark.parametrize("at_once", [20_000, 7])
@pytest.mark.slow
def test_labels_without_numbers_show_the_published_build_after_each_load(graph, tmp_path, monkeypatch, at_once):
    """In one transaction, and in batches where the difference is too large for one."""
    monkeypatch.setattr(writer, "MAX_ROWS_AT_ONCE", at_once)
    home = fresh_home()
    builds = [
        make(tmp_path, "000001", edited=(3,)),
        make(tmp_path, "000002", edited=(3, 4, 5)),
        make(tmp_path, "000003", mark="all of them"),
        make(tmp_path, "000004", edited=(3,)),
    ]
    for made in builds:
        made.load(home, graph)
        assert seen(graph, home) == expected(made)
        assert check_graph(graph, home) == []


def test_a_relationship_that_is_no_longer_stated_is_gone_for_people_and_there_for_readers_of_the_build_before(
    graph, tmp_path
):
    """Both of its memories stay: no label tells it from the others."""
    home, made = fresh_home(), make(tmp_path, "000001", edited=(3,))
    made.load(home, graph)
    before = Neo4jBackend(home, graph, cache_bytes=0)  # so that it reads again what it read
    user = made.tables["memories"]["user_id"][3]
    ids = [memory_id(3, " corrected"), memory_id(3)]
    args = (Scope("made", user), Filters(history=True), ids, 20)
    links = before.neighbors(*args)
    assert any(link.kind == "UPDATE" for link in links)
    tables = made.tables | {"relations": made.tables["relations"].clear()}
    write_index(tables, vectors, tmp_path / "without.duckdb", {"build_id": "000002"})
    without = Made(tables, tmp_path / "without.duckdb", "000002")
    without.load(home, graph)
    updates = "MATCH (:PalimpsestMemory {home_id: $home})-[r:UPDATES]-() RETURN count(r) AS n"
    assert graph.read(updates, home=home)[0]["n"] == 0 and check_graph(graph, home) == []
    assert before.neighbors(*args) == links
    assert not any(link.kind == "UPDATE" for link in before.renewed().neighbors(*args))


@pytest.mark.slow
def test_what_a_memory_replaced_is_that_of_the_build_that_a_reader_opened(graph, tmp_path):
    home, first, second = fresh_home(), make(tmp_path, "000001", edited=(3,)), make(tmp_path, "000002")
    first.load(home, graph)
    before = Neo4jBackend(home, graph, cache_bytes=0)
    scope, newer = Scope("made", first.tables["memories"]["user_id"][3]), memory_id(3, " corrected")
    chains = history(before, scope, [newer])
    assert [m.memory_id for m in chains[newer]] == [memory_id(3)]
    second.load(home, graph)
    assert history(before, scope, [newer]) == chains and history(before.renewed(), scope, [newer]) == {}


def test_people_see_the_build_before_until_the_number_moves(graph, tmp_path, monkeypatch):
    home, first, second = fresh_home(), make(tmp_path, "000001"), make(tmp_path, "000002", edited=(4, 5), mark="")
    first.load(home, graph)
    publish, shown = Writer.publish, []

    def looked(self: Writer, *args: object) -> bool:
        shown.append(seen(graph, home))
        return publish(self, *args)

    monkeypatch.setattr(Writer, "publish", looked)
    second.load(home, graph)
    assert shown == [expected(first)] and seen(graph, home) == expected(second)


@pytest.mark.slow
def test_labels_are_right_after_a_load_that_was_cut_short(graph, tmp_path, monkeypatch):
    home, first, second = fresh_home(), make(tmp_path, "000001"), make(tmp_path, "000002", edited=(4, 5))
    first.load(home, graph)

    def stopped(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "publish", stopped)
        with pytest.raises(KeyboardInterrupt):
            second.load(home, graph)
    assert seen(graph, home) == expected(first) and check_graph(graph, home) == []
    second.load(home, graph)
    assert seen(graph, home) == expected(second) and check_graph(graph, home) == []
    first.load(home, graph)
    assert seen(graph, home) == expected(first) and check_graph(graph, home) == []


def test_no_label_is_one_that_a_shared_database_may_use(graph, tmp_path):
    home = fresh_home()
    make(tmp_path, "000001").load(home, graph)
    labels = "MATCH (n {home_id: $home}) UNWIND labels(n) AS label RETURN collect(DISTINCT label) AS labels"
    assert all(label.startswith("Palimpsest") for label in graph.read(labels, home=home)[0]["labels"])


@pytest.mark.slow
def test_what_an_earlier_version_loaded_goes_once_the_home_is_loaded_again(graph, tmp_path):
    """Its labels were :Memory, :User and so on; what somebody else keeps under them is left alone."""
    home = fresh_home()
    graph.write(
        "CREATE (h:Home {home_id: $home, published: 1, oldest: 1}), (b:Build {home_id: $home, number: 1}), "
        "(u:User {home_id: $home, user_id: 'ann', since: 1, until: 2147483647})-[:OWNS]->"
        "(m:Memory {home_id: $home, memory_id: 'old', since: 1, until: 2147483647}), "
        "(:Memory {memory_id: 'not ours'})",
        home=home,
    )
    for ddl in (
        "CREATE CONSTRAINT memory_key IF NOT EXISTS FOR (n:Memory) REQUIRE (n.home_id, n.memory_id, n.since) IS UNIQUE",
        "CREATE INDEX entity_name IF NOT EXISTS FOR (n:Entity) ON (n.home_id, n.name)",
        "CREATE INDEX document_uri IF NOT EXISTS FOR (n:Document) ON (n.uri)",
    ):
        graph.ddl(ddl)
    try:
        made = make(tmp_path, "000001", count=6)
        made.load(home, graph)
        assert migrations.remaining_labels(graph, home) == [] and seen(graph, home) == expected(made)
        theirs = graph.read("MATCH (m:Memory {memory_id: 'not ours'}) RETURN count(m) AS n")
        assert theirs[0]["n"] == 1
        names = {r["name"] for r in graph.read("SHOW INDEXES YIELD name")}
        assert not names & {"memory_key", "entity_name"} and "document_uri" in names
    finally:
        graph.ddl("DROP INDEX document_uri IF EXISTS")
        graph.write("MATCH (m:Memory {memory_id: 'not ours'}) DELETE m")


def test_a_missing_or_extra_label_is_reported(graph, tmp_path):
    home, made = fresh_home(), make(tmp_path, "000001", count=6)
    made.load(home, graph)
    graph.write("MATCH (m:PalimpsestMemory {home_id: $home}) WITH m LIMIT 1 REMOVE m:PalimpsestMemory", home=home)
    assert check_graph(graph, home) == ["labels: 5 nodes are :PalimpsestMemory, the published build shows 6"]
    load_tables(home, made.tables, vectors, made.index, MODEL, graph)
    assert count_rows(graph, home, 1)["Memory"] == 6 and set(map(row_label, KEYS)).isdisjoint(
        map(current_label, CURRENT)
    )
