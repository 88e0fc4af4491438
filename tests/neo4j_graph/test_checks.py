from palimpsest.neo4j_graph.model import OPEN, VECTOR_INDEX
from palimpsest.neo4j_graph.published_graph import check_graph, check_latency
from tests.neo4j_graph.made import fresh_home, make, memory_id


def test_each_violation_is_named(graph, tmp_path):
    home = fresh_home()
    make(tmp_path, "000001", edited=(3,)).load(home, graph)
    graph.write(
        "MATCH (a:PalimpsestMemoryRow {home_id: $home, user_id: 'ann'}), "
        "(b:PalimpsestMemoryRow {home_id: $home, user_id: 'bob'}) "
        "WITH a, b ORDER BY a.memory_id, b.memory_id LIMIT 1 CREATE (a)-[:EXTENDS {since: 1}]->(b)",
        home=home,
    )
    graph.write(
        "MATCH (m:PalimpsestMemoryRow {home_id: $home, memory_id: $id}) SET m.is_latest = true",
        home=home,
        id=memory_id(3),
    )
    graph.write(
        "MATCH (m:PalimpsestMemoryRow {home_id: $home, memory_id: $id}) SET m.is_latest = false",
        home=home,
        id=memory_id(4),
    )
    graph.ddl(f"DROP INDEX {VECTOR_INDEX}")
    violations = "\n".join(check_graph(graph, home))
    assert "counts: 1 of Memory-EXTENDS-Memory, the build has 0" in violations
    assert "scope: 1 of Memory-EXTENDS-Memory lead into another scope" in violations
    assert f"latest: memory {memory_id(3)} is superseded, and latest as well" in violations
    assert f"latest: memory {memory_id(4)} is neither latest nor superseded" in violations
    assert "is missing" in violations


def test_a_home_that_was_never_loaded_is_a_violation(graph):
    assert check_graph(graph, fresh_home()) == ["build: nothing of this home is published"]
    assert OPEN == 2**31 - 1


def rounds_of(*p95_ms: float) -> tuple[list[str], int]:
    """Returns the warnings where every query of a round takes equally long, and the number of rounds."""
    now, queries = [0.0], [0]

    def run_query(_: int) -> None:
        now[0] += p95_ms[min(queries[0] // 10, len(p95_ms) - 1)] / 1000
        queries[0] += 1

    return check_latency(run_query, 10, lambda: now[0]), queries[0] // 10


def test_a_cold_server_is_warmed_up_and_its_best_round_counts():
    assert rounds_of(90) == ([], 1)
    assert rounds_of(450, 263) == ([], 2)
    warnings, rounds = rounds_of(900, 500, 450, 450, 450, 450, 450)
    assert rounds == 6 and warnings == ["latency: p95 of 10 queries is 450 ms, over 400, best of 6 rounds"]


def test_the_check_of_latency_begins_no_round_after_its_time_is_over():
    warnings, rounds = rounds_of(4000)
    assert rounds == 1 and len(warnings) == 1
