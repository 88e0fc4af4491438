"""The served graph through the command line and the asset: build, query, verify, delete, refuse."""

import shutil
import subprocess
import uuid
from collections.abc import Callable

import dagster as dg
import pytest

from palimpsest.core.errors import ComponentFailed
from palimpsest.neo4j_graph import cypher
from palimpsest.neo4j_graph.identity import home_id
from palimpsest.neo4j_graph.loader import drop_home, residue
from palimpsest.neo4j_graph.local_server import server_status
from palimpsest.neo4j_graph.model import CHECKS, WARNINGS
from palimpsest.neo4j_graph.published_graph import check_published, load_published
from palimpsest.orchestration.resources import HomeResource
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query import open_home
from palimpsest.sources.inbox import ingest_text
from palimpsest.store.home import Home
from tests import command
from tests.small_corpus import write_chats

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
def published_once(corpus, tmp_path_factory):
    home = Home(tmp_path_factory.mktemp("once") / "home")
    run_without_dagster(home, make_plan(home, [corpus]))
    return home.path


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
    assert command.process("verify", "--home", home.path, "--backend", "neo4j").returncode == 0
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
    assert [m.text for m in found.pending] == [key] and "[pending:" in found.context and found.memories
    assert other.pending == ()


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
    assert (
        graph.read("MATCH (m:PalimpsestMemoryRow {home_id: $home}) RETURN count(m) AS n", home=home_id(home))[0]["n"]
        == 0
    )


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
            run = dg.DagsterRun("publish_build", run_id=str(uuid.uuid4()))
            event = dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, "publish_build")
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
        done = command.process(*args, PALIMPSEST_NEO4J_HOME=str(tmp_path / "none"))
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
