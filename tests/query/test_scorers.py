"""A strategy of one's own: a scorer and weights are registered, and no backend knows of either."""

import numpy as np
import pytest

import palimpsest.query.ranking.rank as module
from palimpsest.query import Filters, Scope, open_index
from palimpsest.query.ranking.rank import rank, register_scorer
from palimpsest.query.ranking.scoring import Scored, base_scores
from palimpsest.query.request import strategies
from palimpsest.query.request.strategies import Weights, register_strategy
from palimpsest.query.scope.scope_arrays import Postings
from palimpsest.query.scope.scope_graph import ScopeLinks
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.served_scope import ServedScope
from tests.query.made import memory, tables, write

ANA = Scope("notes", "ana")


def shortest_id_last(view, query):
    """Prefers memories late in the order of ids, by as much as the weight of links."""
    b = base_scores(view, query)
    total = b.base + np.arange(len(view.ids), dtype=float)
    return Scored(view.ids, b.layout, b.cosines, b.words, b.base, total, lambda row: ())


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(module, "_SCORERS", dict(module._SCORERS))
    monkeypatch.setattr(strategies, "STRATEGIES", dict(strategies.STRATEGIES))
    register_scorer("late", shortest_id_last)
    register_strategy("late", Weights(scorer="late", words=0.0, vector=1e-6))


def test_a_registered_strategy_searches_a_duckdb_index_by_its_name(registered, tmp_path):
    write(tables([memory(f"m{i}", f"The launch is on day {i}.") for i in range(4)]), tmp_path / "i.duckdb")
    with open_index(tmp_path / "i.duckdb") as reader:
        found = reader.search("launch", ANA, strategy="late", hops=0)
        users = reader.search("launch", ANA, strategy="late", hops=1, session="none")
    assert found.strategy == "late" and [m.memory_id for m in found.memories] == ["m3", "m2", "m1", "m0"]
    assert users.memories == []


class StubView:
    """A view of three memories over nothing but arrays."""

    ids = np.array(["a", "b", "c"], object)

    def allowed(self, filters):
        return np.array([True, True, False])

    def cosines(self, vector):
        return np.array([0.9, 0.1, 0.5])

    def windows(self):
        return None

    def cached(self, name, load):
        return load()

    def links(self):
        return ScopeLinks.from_arrays({}, 3)

    def postings(self, terms):
        return [Postings(np.zeros(0, np.int32), np.zeros(0, np.float32)) for _ in terms]


class StubBackend:
    def view(self, scope):
        return StubView()


def test_a_registered_scorer_ranks_any_view(registered):
    served = ServedScope(StubBackend(), ANA, Filters())
    found = rank(ScopeQuery(served, "x", np.zeros(384), ["x"], Weights(scorer="late", vector=1e-6)), hops=0)
    assert [c.memory_id for c in found] == ["b", "a"]


def test_names_in_use_are_refused(registered):
    with pytest.raises(ValueError, match="already in use"):
        register_scorer("late", shortest_id_last)
    for name in ("late", "hybrid", "auto"):
        with pytest.raises(ValueError, match="already in use"):
            register_strategy(name, Weights())
    with pytest.raises(ValueError, match="register it first"):
        module.scorer_named("nobody's")
