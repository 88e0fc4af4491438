"""The service over Neo4j moves to each load, which ends after the build is published or rewritten on disk."""

import time

import pytest

from palimpsest.neo4j_graph.identity import home_id
from palimpsest.neo4j_graph.loader import drop_home
from palimpsest.neo4j_graph.local_server import server_status
from palimpsest.neo4j_graph.published_graph import check_published, load_published
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.serve.guard import Identity
from palimpsest.serve.open_reader import REFRESH_S, SharedReader
from palimpsest.store.home import Home
from tests.small_corpus import TURNS, write_chats

ADDED = ("s4", "ann", "Ann", "The deadline of project Heron is now 2 May.", "2026-04-01T09:00:00Z")
CANTEEN = TURNS[4][3]


@pytest.fixture
def home(graph, server_folder, tmp_path, shared_vectors, monkeypatch):
    """A home with a build that is loaded, and its corpus beside it."""
    server = server_status(server_folder)
    monkeypatch.setenv("NEO4J_URI", server.uri)
    monkeypatch.setenv("NEO4J_PASSWORD", server.password)
    made = Home(tmp_path / "home", shared_vectors)
    run_without_dagster(made, make_plan(made, [write_chats(tmp_path / "corpus")]))
    load_published(made)
    yield made
    drop_home(graph, home_id(made))


def found(reader: SharedReader, user: str, question: str) -> list[str]:
    with reader.view(Identity(user, frozenset(), frozenset({"read"}))) as view:
        return [m.text for m in view.reader.search(question, view.own_scopes()).memories] if view.own_scopes() else []


def test_the_service_answers_from_each_load_after_it_ended(home, tmp_path):
    reader = SharedReader(home.path, "neo4j")
    try:
        assert CANTEEN in found(reader, "bob", "When does the canteen close?")
        run_without_dagster(home, make_plan(home, [write_chats(tmp_path / "corpus", [*TURNS, ADDED])]))
        time.sleep(REFRESH_S + 0.1)
        before = reader.published_state()
        assert ADDED[3] not in found(reader, "ann", "When is the deadline of Heron?")  # not loaded yet
        load_published(home)
        assert reader.published_state() != before
        time.sleep(REFRESH_S + 0.1)
        assert ADDED[3] in found(reader, "ann", "When is the deadline of Heron?")
        state = reader.published_state()
        delete(home, user="bob")
        assert reader.published_state() != state
        time.sleep(REFRESH_S + 0.1)
        assert found(reader, "bob", "When does the canteen close?") == []
        assert ADDED[3] in found(reader, "ann", "When is the deadline of Heron?")
        assert reader.published_state() == reader.published_state()
    finally:
        reader.close()


def test_memories_of_a_source_that_is_gone_are_sound(home, tmp_path):
    run_without_dagster(home, make_plan(home, [write_chats(tmp_path / "corpus", TURNS[:3])]))
    _, violations = load_published(home)
    assert "latest" not in violations and check_published(home) == []
