"""The served graph through commands, the asset and the service: build, query, delete, refuse."""

import shutil
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from fastapi.testclient import TestClient

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.neo4j_graph import cypher
from palimpsest.neo4j_graph.identity import home_id, is_served
from palimpsest.neo4j_graph.loader import drop_home, residue
from palimpsest.neo4j_graph.local_server import server_status
from palimpsest.neo4j_graph.model import CHECKS, WARNINGS
from palimpsest.neo4j_graph.neo4j_backend import open_neo4j
from palimpsest.neo4j_graph.published_graph import check_published, load_published
from palimpsest.orchestration.resources import HomeResource
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query import open_home
from palimpsest.serve.app import create_app
from palimpsest.serve.guard import Identity
from palimpsest.serve.open_reader import REFRESH_S, SharedReader
from palimpsest.serve.run_server import check_start
from palimpsest.serve.settings import ServeSettings, TokenSettings
from palimpsest.sources.inbox import ingest_text
from palimpsest.store.home import Home
from tests import command
from tests.export.made import with_own_vectors
from tests.small_corpus import TURNS, write_chats, write_notes

Run = Callable[..., subprocess.CompletedProcess[str]]


def last_json(done: subprocess.CompletedProcess[str]) -> dict:
    assert done.returncode == 0, done.stderr
    return command.last_json(done)


@pytest.fixture
def run(graph, server_folder, monkeypatch):
    """Runs a command in this process, with the address of the server in its environment."""
    server = server_status(server_folder)
    environment = {"NEO4J_URI": server.uri, "NEO4J_USER": server.user, "NEO4J_PASSWORD": server.password}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    return command.run


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_chats(tmp_path_factory.mktemp("served") / "corpus")


@pytest.fixture(scope="module")
def published_once(corpus, tmp_path_factory, shared_vectors):
    home = Home(tmp_path_factory.mktemp("once") / "home", shared_vectors)
    run_without_dagster(home, make_plan(home, [corpus]))
    return with_own_vectors(home).path


@pytest.fixture
def home(graph, published_once, tmp_path):
    """A home with a published build that was not loaded yet."""
    made = Home(shutil.copytree(published_once, tmp_path / "home"))
    yield made
    drop_home(graph, home_id(made))


def test_a_build_with_graph_serves_what_the_file_serves_and_a_second_writes_nothing(run, home, graph):
    first = last_json(command.process("build", "--graph", "--home", home.path, "--json"))
    assert first["published"] and first["work"]["graph_writes"] > 20 and first["seconds"]["neo4j_graph"] > 0
    again = last_json(run("build", "--graph", "--home", home.path, "--json"))
    assert again["work"] == {"embeddings": 0, "lm_calls": 0, "graph_writes": 0}
    question = ("query", "When is the deadline of Heron?", "--home", home.path, "--user", "ann", "--json", "--backend")
    duck, neo = (last_json(run(*question, backend)) for backend in ("duckdb", "neo4j"))
    assert [m["memory_id"] for m in duck["memories"]] == [m["memory_id"] for m in neo["memories"]]
    assert duck["context"] == neo["context"] and "20 April" in neo["context"]
    assert run("verify", "--home", home.path, "--backend", "neo4j").returncode == 0
    graph.write("MATCH (m:PalimpsestMemoryRow {home_id: $home}) DETACH DELETE m", home=home_id(home))
    done = run("verify", "--home", home.path, "--backend", "neo4j")
    assert done.returncode == 1 and "counts: 0 of Memory" in done.stderr


def test_texts_that_no_build_has_yet_are_found_beside_a_served_build(run, home):
    load_published(home)
    key = "The spare key is under the blue pot."
    ingest_text(home, key, user="ann")
    with open_home(home.path, "neo4j") as reader:
        scopes = reader.resolve_scopes("chats", "ann", include_pending=True)
        found = reader.search("Where is the spare key?", scopes, include_pending=True)
        other = reader.search("Where is the spare key?", ("chats", "bob"), include_pending=True)
    assert [m.text for m in found.pending] == [key] and key in found.context and len(found.memories) > 1
    assert other.pending == []


def test_a_deleted_user_is_gone_from_the_server_at_once(run, home, graph):
    load_published(home)
    with open_home(home.path, "neo4j") as reader:
        assert reader.search("locker code", ("chats", "bob")).memories
        done = delete(home, document=None, user="bob", collection=None)
        assert done.to_json()["graph_writes"] > 0 and "or in Neo4j" in done.text
        assert residue(graph, home_id(home), ["quixotic-77", "canteen"]) == []
        with pytest.raises(ComponentFailed, match="reopen the reader"):
            reader.search("canteen", ("chats", "bob"))
        reader.refresh()
        assert reader.search("canteen", ("chats", "bob")).memories == []
        assert len(reader.search("deadline", ("chats", "ann")).memories) == 2
    assert check_published(home) == []
    delete(home, document=None, user=None, collection="chats")
    left = "MATCH (m:PalimpsestMemoryRow {home_id: $home}) RETURN count(m) AS n"
    assert graph.read(left, home=home_id(home))[0]["n"] == 0


@pytest.mark.slow
def test_a_delete_that_was_stopped_before_the_server_is_seen_by_verify_and_finished_by_the_same_delete(
    run, home, graph, monkeypatch
):
    load_published(home)
    assert check_published(home) == []

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("palimpsest.neo4j_graph.loader.forget", stopped)
        with pytest.raises(KeyboardInterrupt):
            delete(home, document=None, user="bob", collection=None)
    assert "finish the delete" in "".join(check_published(home))
    assert delete(home, document=None, user="bob", collection=None).to_json()["graph_writes"] > 0
    assert check_published(home) == [] and residue(graph, home_id(home), ["quixotic-77"]) == []


@pytest.mark.slow
def test_the_asset_reports_counts_and_each_check_and_blocks_on_a_violation(run, home, graph):
    from palimpsest.orchestration.code_location import defs

    job = defs.resolve_job_def("serve_graph")
    common = {"resources": {"home": HomeResource(path=str(home.path))}, "raise_on_error": False}
    with dg.instance_for_test() as instance:
        result = job.execute_in_process(instance=instance, **common)
        assert result.success
        passed = {c.check_name: c.passed for c in result.get_asset_check_evaluations()}
        assert passed.keys() == CHECKS.keys() and all(passed[name] for name in CHECKS.keys() - WARNINGS)
        (loaded,) = result.asset_materializations_for_node("neo4j_graph")
        assert loaded.metadata["nodes/Memory"].value == 5 and loaded.metadata["writes"].value > 20
        try:
            graph.ddl("DROP INDEX palimpsest_memory_text")
            result = job.execute_in_process(instance=instance, **common)
        finally:
            graph.ddl(cypher.CREATE_FULL_TEXT[0])
        failed = {c.check_name for c in result.get_asset_check_evaluations() if not c.passed}
        assert failed - WARNINGS == {"index"}


@pytest.mark.slow
def test_rows_that_somebody_else_changed_are_written_again(run, home, graph):
    load_published(home)
    sound = graph.read(
        "MATCH (m:PalimpsestMemoryRow {home_id: $home}) WHERE m.is_latest RETURN count(*) AS n", home=home_id(home)
    )
    graph.write("MATCH (m:PalimpsestMemoryRow {home_id: $home}) SET m.is_latest = true", home=home_id(home))
    assert any("superseded, and latest" in line for line in check_published(home))
    stats, violations = load_published(home)
    assert violations.keys() <= WARNINGS and stats.writes > 20 and check_published(home) == []
    number = graph.read("MATCH (h:PalimpsestHome {home_id: $home}) RETURN h.published AS n", home=home_id(home))[0]["n"]
    shown = graph.read(
        "MATCH (m:PalimpsestMemoryRow {home_id: $home}) WHERE m.is_latest AND m.since <= $n AND m.until > $n "
        "RETURN count(*) AS n",
        home=home_id(home),
        n=number,
    )
    assert [dict(r) for r in shown] == [dict(r) for r in sound]


def test_a_home_that_is_served_is_loaded_after_each_publishing(home):
    from palimpsest.orchestration.publishing import serve_after_publishing

    def evaluate_sensor() -> object:
        with dg.instance_for_test() as instance:
            run = dg.DagsterRun("rebuild", run_id=str(uuid.uuid4()))
            event = dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, "rebuild")
            context = dg.build_run_status_sensor_context(
                sensor_name="serve_after_publishing",
                dagster_event=event,
                dagster_instance=instance,
                dagster_run=run,
                resources={"home": HomeResource(path=str(home.path))},
            )
            return serve_after_publishing(context)

    assert isinstance(evaluate_sensor(), dg.SkipReason)
    home_id(home)
    assert evaluate_sensor().job_name == "serve_graph"


def test_without_a_server_each_command_prints_one_line_that_says_what_to_do(tmp_path, corpus):
    for args, code in (
        (("build", "--graph", "--home", tmp_path / "h", "--corpus", corpus), 2),
        (("neo4j", "status"), 2),
        (("neo4j", "url"), 2),
        (("neo4j", "stop"), 0),
    ):
        done = command.run(*args, PALIMPSEST_NEO4J_HOME=str(tmp_path / "none"))
        assert done.returncode == code, done.stderr
        assert code == 0 or "palimpsest neo4j start" in done.stderr.strip().splitlines()[-1]
    assert not (tmp_path / "h" / "builds").exists()


def test_a_delete_is_refused_before_it_begins_where_the_server_is_unreachable(run, home, monkeypatch):
    load_published(home)
    done = run("delete", "--user", "bob", "--home", home.path, NEO4J_URI="bolt://127.0.0.1:9")
    assert done.returncode == 3 and "is in Neo4j too" in done.stderr
    with open_home(home.path) as reader:
        assert reader.search("locker code", ("chats", "bob")).memories
    monkeypatch.setenv("NEO4J_URI", "bolt://127.0.0.1:9")
    with pytest.raises(ComponentFailed):
        load_published(home)


def test_start_and_status_print_the_address_of_the_server(run, server_folder):
    server = server_status(server_folder)
    started = last_json(run("neo4j", "start", "--json", PALIMPSEST_NEO4J_HOME=str(server_folder)))
    assert (started["uri"], started["pid"]) == (server.uri, server.pid)
    assert last_json(run("neo4j", "status", "--json"))["edition"] == "community"
    assert run("neo4j", "url").stdout.strip() == server.uri
    found = last_json(run("doctor", "--json"))["findings"]
    assert "filtered vector search" in next(f for f in found if f["what"] == "neo4j")["found"]


ADDED = ("s4", "ann", "Ann", "The deadline of project Heron is now 2 May.", "2026-04-01T09:00:00Z")
CANTEEN = TURNS[4][3]


@pytest.fixture
def home_service(graph, server_folder, tmp_path, shared_vectors, monkeypatch):
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


def test_the_service_answers_from_each_load_after_it_ended(home_service, tmp_path):
    reader = SharedReader(home_service.path, "neo4j")
    try:
        assert CANTEEN in found(reader, "bob", "When does the canteen close?")
        run_without_dagster(home_service, make_plan(home_service, [write_chats(tmp_path / "corpus", [*TURNS, ADDED])]))
        time.sleep(REFRESH_S + 0.1)
        before = reader.published_state()
        assert ADDED[3] not in found(reader, "ann", "When is the deadline of Heron?")  # not loaded yet
        load_published(home_service)
        assert reader.published_state() != before
        time.sleep(REFRESH_S + 0.1)
        assert ADDED[3] in found(reader, "ann", "When is the deadline of Heron?")
        state = reader.published_state()
        delete(home_service, user="bob")
        assert reader.published_state() != state
        time.sleep(REFRESH_S + 0.1)
        assert found(reader, "bob", "When does the canteen close?") == []
        assert ADDED[3] in found(reader, "ann", "When is the deadline of Heron?")
        assert reader.published_state() == reader.published_state()
    finally:
        reader.close()


def test_memories_of_a_source_that_is_gone_are_sound(home_service, tmp_path):
    run_without_dagster(home_service, make_plan(home_service, [write_chats(tmp_path / "corpus", TURNS[:3])]))
    _, violations = load_published(home_service)
    assert "latest" not in violations and check_published(home_service) == []


class Relay:
    """Passes bytes between a port of this machine and a server, until it is cut."""

    def __init__(self, host: str, port: int) -> None:
        self._to, self._open = (host, port), set[socket.socket]()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._is_cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, is_cut: bool) -> None:
        self._is_cut = is_cut
        for end in list(self._open) if is_cut else ():
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            if self._is_cut:
                near.close()
                continue
            far = socket.create_connection(self._to)
            self._open |= {near, far}
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=(a, b), daemon=True).start()

    def _copy(self, a: socket.socket, b: socket.socket) -> None:
        try:
            while data := a.recv(65_536):
                b.sendall(data)
        except OSError:
            pass
        for end in (a, b):
            end.close()

    def close(self) -> None:
        self.cut(True)
        self._listening.close()


@pytest.fixture
def relay(graph, server_folder, monkeypatch):
    server = server_status(server_folder)
    host, _, port = server.uri.removeprefix("bolt://").partition(":")
    found = Relay(host, int(port))
    monkeypatch.setenv("NEO4J_URI", f"bolt://127.0.0.1:{found.port}")
    monkeypatch.setenv("NEO4J_PASSWORD", server.password)
    yield found
    found.close()


@pytest.fixture
def home_ready(graph, tmp_path, shared_vectors):
    made = Home(tmp_path / "home", shared_vectors)
    corpus = write_notes(tmp_path / "corpus", {"a.md": "The bridge is 40 metres long.\n"}, user_id="ann")
    run_without_dagster(made, make_plan(made, [corpus]))
    shutil.rmtree(corpus)
    yield made
    drop_home(graph, home_id(made))


def test_a_service_is_ready_while_its_server_answers_and_does_not_start_without_it(relay, home_ready):
    with pytest.raises(PalimpsestError, match="never loaded into Neo4j"):
        check_start(home_ready, "neo4j")
    load_published(home_ready)
    check_start(home_ready, "neo4j")
    app = create_app(home_ready, ServeSettings(TokenSettings(secret="k" * 48)), "neo4j")
    client = TestClient(app, raise_server_exceptions=False)
    assert client.get("/ready").json() == {"status": "ready", "build_id": "000001"}
    relay.cut(True)
    assert client.get("/ready").status_code == 503 and client.get("/health").status_code == 200
    with pytest.raises(ComponentFailed, match="no answer"):
        check_start(home_ready, "neo4j")
    relay.cut(False)
    assert client.get("/ready").status_code == 200
    app.state.service.operations.close()
    app.state.service.reader.close()


def home_in(folder: Path) -> Home:
    home = Home(folder)
    home.create()
    return home


def test_a_home_keeps_its_id_where_it_is_moved_to_and_a_copy_gets_its_own(tmp_path):
    home = home_in(tmp_path / "a")
    assert not is_served(home)
    name = home_id(home)
    assert home_id(home) == name and is_served(home)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert home_id(Home(tmp_path / "link")) == name
    copy = Home(shutil.copytree(home.path, tmp_path / "b"))
    assert not is_served(copy) and is_served(home)
    with pytest.raises(PalimpsestError, match="never loaded into Neo4j"):
        open_neo4j(copy.path)
    assert home_id(copy) != name and home_id(home) == name
    shutil.move(tmp_path / "a", tmp_path / "c")
    moved = Home(tmp_path / "c")
    assert is_served(moved) and home_id(moved) == name
    assert is_served(copy) and home_id(copy) == home_id(copy) != name
