"""Random searches over scopes with canaries: nothing of another scope or past a filter comes back."""

import pytest

from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.query.request import search_request
from palimpsest.query.scope.served_graph import ServedGraph
from palimpsest.query.scope.served_scope import ServedScope
from tests.leaks.canary_home import canary_home, write_home
from tests.leaks.leak_search import search_for_leaks


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    made = canary_home(users=3)
    backend = DuckDBBackend(write_home(made, tmp_path_factory.mktemp("leaks")))
    yield made, backend
    backend.close()


def test_no_canary_of_another_scope_or_past_a_filter_comes_back(made):
    report = search_for_leaks(made[1], made[0], 100)
    assert (report.searches, report.leaks) == (100, []) and report.texts > 10_000


def test_the_search_finds_leaks_where_there_are_some(made, monkeypatch):
    monkeypatch.setattr(ServedScope, "_visible", lambda self, found: dict(found))
    leaks = search_for_leaks(made[1], made[0], 60, seed=2).leaks
    assert any("left out by" in leak for leak in leaks)
    monkeypatch.undo()
    monkeypatch.setattr(ServedGraph, "_may_conceal", False)
    leaks = search_for_leaks(made[1], made[0], 60, seed=3).leaks
    assert any("left out by" in leak for leak in leaks)
    monkeypatch.undo()
    monkeypatch.setattr(search_request, "parse_scopes", lambda scope: made[0].scopes)
    assert any("belongs to" in leak for leak in search_for_leaks(made[1], made[0], 3).leaks)
