"""Pending memories among the results of a search."""

from palimpsest.query.ranking.merge import VARIABLE
from palimpsest.query.scope.scope_query import Candidate
from palimpsest.query.search import _keep_pending, _Ranking


def ranking(*candidates: Candidate) -> _Ranking:
    judged: list = [(None, c) for c in candidates]
    return _Ranking(judged[:4], judged, 0, None)


def candidate(memory_id: str, relevance: float, vector: float) -> Candidate:
    return Candidate(memory_id, 1.0, vector, 0.0, 1.0, relevance=relevance)


def test_the_nearest_pending_take_places_that_no_likely_result_has(monkeypatch):
    monkeypatch.setenv(VARIABLE, "1")
    likely = [candidate("a", 0.9, 0.5), candidate("b", 0.4, 0.3)]
    rest = [candidate("c", 0.001, 0.1), candidate("d", 0.001, 0.1)]
    sent = [candidate("p", 0.001, 0.2), candidate("q", 0.001, 0.4), candidate("r", 0.001, 0.6)]
    found = _keep_pending(ranking(*likely, *rest, *sent), {"p", "q", "r"}, 4)
    assert [c.memory_id for _, c in found.best] == ["a", "b", "r", "q"] and found.kept == {"q", "r"}
    full = _keep_pending(ranking(*likely, *sent), {"p", "q", "r"}, 2)
    assert [c.memory_id for _, c in full.best] == ["a", "b"] and not full.kept
