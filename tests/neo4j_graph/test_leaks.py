"""The random searches of `tests/leaks`, over Neo4j: nothing of another scope or past a filter comes back."""

import pytest

from palimpsest.neo4j_graph.loader import load_tables
from palimpsest.neo4j_graph.neo4j_backend import Neo4jBackend
from tests.leaks.canary_home import canary_home, hash_vectors, write_home
from tests.leaks.leak_search import search_for_leaks
from tests.neo4j_graph.made import fresh_home


@pytest.mark.slow
def test_no_canary_of_another_scope_or_past_a_filter_comes_back_from_neo4j(tmp_path, graph):
    home, made = fresh_home(), canary_home(users=8)
    load_tables(home, made.tables, hash_vectors, write_home(made, tmp_path), "made", graph)
    report = search_for_leaks(Neo4jBackend(home, graph), made, 1000)
    assert (report.searches, report.leaks) == (1000, []) and report.texts > 100_000
