import pytest

from palimpsest.core.errors import ComponentFailed
from palimpsest.neo4j_graph import cypher
from palimpsest.neo4j_graph.connect import Connection
from palimpsest.neo4j_graph.loader import drop_home, load_tables, residue
from palimpsest.neo4j_graph.migrations import MIGRATIONS, migrate
from palimpsest.neo4j_graph.model import VECTOR_INDEX, VectorSpace
from palimpsest.neo4j_graph.published_graph import check_graph
from tests.neo4j_graph.made import MODEL, fresh_home, make, memory_id, shown, vectors

COUNT = "MATCH (n {home_id: $home}) RETURN count(n) AS n"


def test_a_first_load_shows_every_row_of_the_build_and_passes_every_check(graph, tmp_path):
    home, made = fresh_home(), make(tmp_path, "000001", count=40, edited=(3,), windows=2)
    stats = made.load(home, graph)
    assert stats.nodes["Memory"] == 41 and stats.nodes["Window"] == 2 and stats.nodes["Node"] == 10
    assert stats.relationships["User-OWNS-Memory"] == 41
    assert stats.relationships["Memory-UPDATES-Memory"] == stats.relationships["Memory-SUPERSEDES-Memory"] == 1
    assert stats.writes == sum(stats.nodes.values()) + sum(stats.relationships.values())
    assert check_graph(graph, home) == []


def test_loading_the_same_build_again_writes_nothing(graph, tmp_path):
    home, made = fresh_home(), make(tmp_path, "000001")
    made.load(home, graph)
    before = graph.read(cypher.SERVED, home=home)[0]["number"]
    stats = made.load(home, graph)
    assert (stats.writes, stats.created, stats.number) == (0, 0, before)


def test_a_difference_load_writes_the_difference_and_equals_a_load_from_nothing(graph, tmp_path):
    home, other = fresh_home(), fresh_home()
    first, second = make(tmp_path, "000001", count=300), make(tmp_path, "000002", count=300, edited=(7, 8))
    full = first.load(home, graph).writes
    stats = second.load(home, graph)
    second.load(other, graph)
    assert 0 < stats.writes < 0.1 * full
    assert shown(graph, home) == shown(graph, other)
    assert check_graph(graph, home) == []


@pytest.mark.slow
def test_a_build_that_comes_back_is_shown_as_it_was(graph, tmp_path):
    home = fresh_home()
    a, b = make(tmp_path, "000001", edited=(1,)), make(tmp_path, "000002", edited=(1, 2), mark="b")
    a.load(home, graph)
    before = shown(graph, home)
    b.load(home, graph)
    assert shown(graph, home) != before
    a.load(home, graph)
    assert shown(graph, home) == before
    assert check_graph(graph, home) == []


@pytest.mark.slow
def test_what_no_kept_number_shows_is_swept(graph, tmp_path):
    home = fresh_home()
    builds = [make(tmp_path, f"00000{i}", mark=f"mark{i}") for i in (1, 2, 3)]
    for made in builds:
        made.load(home, graph)
    assert residue(graph, home, ["mark1"]) == []
    assert residue(graph, home, ["mark2"]) != []  # readers of the one before may still be there
    make(tmp_path, "000003", mark="mark3").load(home, graph, keep_previous=False)
    assert residue(graph, home, ["mark2"]) == []


def test_rows_that_someone_removed_are_found_missing_and_loaded_again(graph, tmp_path):
    home, made = fresh_home(), make(tmp_path, "000001")
    made.load(home, graph)
    before = shown(graph, home)
    graph.write(
        "MATCH (m:PalimpsestMemoryRow {home_id: $home, memory_id: $id}) DETACH DELETE m", home=home, id=memory_id(5)
    )
    assert any(line.startswith("counts: 39 of Memory") for line in check_graph(graph, home))
    assert made.load(home, graph).writes > 0
    assert shown(graph, home) == before


def test_someone_elses_data_in_the_database_is_neither_read_nor_touched(graph, tmp_path):
    graph.write("CREATE (:Memory {memory_id: 'theirs', text: 'x'})-[:MENTIONS]->(:Entity {name: 'y'}), (:Load {a: 1})")
    home, other = fresh_home(), fresh_home()
    made = make(tmp_path, "000001")
    made.load(home, graph)
    make(tmp_path, "000009", mark="other").load(other, graph)
    theirs = shown(graph, other)
    assert check_graph(graph, home) == []
    drop_home(graph, home)
    assert graph.read(COUNT, home=home)[0]["n"] == 0
    assert graph.read("MATCH (m:Memory {memory_id: 'theirs'})-[:MENTIONS]->(e) RETURN e.name AS n")[0]["n"] == "y"
    assert shown(graph, other) == theirs


def vector_indexes(connection: Connection) -> list[str]:
    return sorted(r["name"] for r in connection.read(cypher.INDEX_STATES) if r["type"] == "VECTOR")


def test_the_vector_index_has_one_name_whatever_the_home_and_the_embedder(graph, tmp_path):
    home, made = fresh_home(), make(tmp_path, "000001", count=4)
    made.load(home, graph)
    made.load(fresh_home(), graph)
    load_tables(home, made.tables, vectors, made.index, "another", graph, keep_previous=False)
    assert vector_indexes(graph) == ["palimpsest_probe", VECTOR_INDEX]
    found = graph.read("MATCH (n:PalimpsestVector {home_id: $home}) RETURN count(n) AS n", home=home)
    assert found[0]["n"] == 4 and check_graph(graph, home) == []


@pytest.mark.slow
def test_a_home_that_is_measured_has_a_vector_index_of_its_own_that_goes_with_it(graph, tmp_path):
    home, before = fresh_home(), vector_indexes(graph)
    graph.write(cypher.MARK_MEASURED, home=home, host="h", pid=1, began="1")
    make(tmp_path, "000001", count=4).load(home, graph)
    assert set(vector_indexes(graph)) == {*before, f"{VECTOR_INDEX}_{home}"} and check_graph(graph, home) == []
    drop_home(graph, home)
    assert vector_indexes(graph) == before


def test_each_migration_is_applied_once_and_recorded(graph):
    migrate(graph)
    assert migrate(graph) == []
    assert [r["number"] for r in graph.read(cypher.MIGRATIONS_APPLIED)] == [m.number for m in MIGRATIONS]


def test_a_server_of_an_earlier_version_loses_the_indexes_that_nothing_uses(graph):
    """On a database where an earlier version made these indexes."""
    migrate(graph)
    number = next(m.number for m in MIGRATIONS if set(cypher.DROP_UNUSED) < set(m.statements))
    graph.write("MATCH (m:PalimpsestMigration {number: $number}) DELETE m", number=number)
    graph.ddl("CREATE INDEX palimpsest_window_memory FOR (n:PalimpsestWindowRow) ON (n.home_id, n.memory_id)")
    graph.ddl("CREATE FULLTEXT INDEX palimpsest_names FOR (n:PalimpsestEntity|PalimpsestTopic) ON EACH [n.name]")
    keys = "(n.home_id, n.entity_id, n.since)"
    graph.ddl(f"CREATE CONSTRAINT palimpsest_entity_key FOR (n:PalimpsestEntityRow) REQUIRE {keys} IS UNIQUE")
    graph.ddl("DROP INDEX palimpsest_precedes_closed")
    assert migrate(graph) == [number]
    names = {r["name"] for r in graph.read(cypher.INDEX_STATES)}
    assert not names & {*cypher.UNUSED_INDEXES, *cypher.UNUSED_KEYS}
    assert {*cypher.RANGE_INDEXES, *cypher.FULL_TEXT_INDEXES, *cypher.KEY_CONSTRAINTS} <= names


def test_a_build_without_its_index_is_refused(graph, tmp_path):
    made = make(tmp_path, "000001")
    with pytest.raises(ComponentFailed, match="run palimpsest build"):
        load_tables(fresh_home(), made.tables, vectors, tmp_path / "none.duckdb", MODEL, graph)


def test_a_label_takes_nothing_but_ids():
    with pytest.raises(ValueError, match="hex"):
        VectorSpace.of_measured("x` ON n.e; DROP")
