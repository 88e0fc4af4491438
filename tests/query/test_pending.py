"""Pending memories: as they are formed, and among the results of a search."""

import datetime as dt

from palimpsest.query.backends.empty_backend import EmptyBackend
from palimpsest.query.pending.layer import PendingLayer
from palimpsest.query.ranking.merge import VARIABLE
from palimpsest.query.scope.scope_query import Candidate
from palimpsest.query.search import _keep_pending, _Ranking
from palimpsest.sources.inbox import ingest_text
from palimpsest.store.home import Home
from palimpsest.store.inbox import InboxFile


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


def test_a_text_is_found_while_another_of_the_same_user_is_deleted(tmp_path):
    _, kite = (ingest_text(tmp_path, f"My {word} is blue.", user="gus") for word in ("drum", "kite"))
    file = InboxFile.of_uri(Home(tmp_path).inbox, kite.collection, kite.uri)

    class DeletedAfterTheFirstWait(PendingLayer):
        def wait(self, *args) -> bool:
            waited = super().wait(*args)
            file.path.unlink(missing_ok=True)
            return waited

    layer = DeletedAfterTheFirstWait(tmp_path, lambda: dt.datetime.now(dt.UTC))
    (scope,) = layer.scopes("", "gus")
    joined = layer.joined(EmptyBackend(), [scope])
    assert joined is not None
    assert [m.text for m in joined.memories(scope, sorted(joined.pending_ids())).values()] == ["My drum is blue."]
    layer.close()
