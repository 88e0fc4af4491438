"""The local server: its jars, start, password and errors, and how often it is written to."""

import hashlib
import http.server
import os
import socket
import threading
import urllib.request
from pathlib import Path

import pytest
from neo4j.exceptions import Neo4jError

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.files import write_json
from palimpsest.neo4j_graph import local_server
from palimpsest.neo4j_graph.connect import Capabilities, Connection, connect, plain_errors
from palimpsest.neo4j_graph.local_server import (
    Jar,
    _free_port,
    fetch_jars,
    locked_jars,
    server_status,
    server_url,
    start_server,
    stop_server,
)
from palimpsest.neo4j_graph.writer import Writer


def test_a_started_server_answers_on_loopback_and_starting_twice_is_one_server(graph, server, server_folder):
    assert server.uri.startswith("bolt://127.0.0.1:")
    assert server.password_file.stat().st_mode & 0o777 == 0o600
    assert not (server_folder / "password.first").exists()
    assert graph.capabilities.edition == "community" and "25" in graph.capabilities.cypher
    listening = (server_folder / "conf" / "neo4j.conf").read_text()
    assert "0.0.0.0" not in listening
    with urllib.request.urlopen(server_status(server_folder).browser, timeout=30) as page:
        assert b"<title>Neo4j Browser</title>" in page.read()
    assert start_server(server_folder).pid == server_status(server_folder).pid
    aside = (server_folder / "password").rename(server_folder / "aside")
    try:
        with pytest.raises(ComponentFailed, match="restore"):
            start_server(server_folder, wait_s=2)
    finally:
        aside.rename(server_folder / "password")


def test_a_server_that_cannot_is_refused_by_what_to_install(graph, server, monkeypatch):
    for probe in ("COMPONENTS", "PROBE_CYPHER_25", "PROBE_SEARCH"):
        with monkeypatch.context() as patch:
            patch.setattr(f"palimpsest.neo4j_graph.connect.{probe}", "CYPHER 25 CALL no.such()")
            with pytest.raises(PalimpsestError, match=r"install Neo4j 2026\.01 or later") as error:
                connect(graph.uri, server.user, server.password)
        assert error.value.exit_code == 2


def test_a_server_whose_data_was_removed_starts_anew_with_the_same_password(tmp_path, monkeypatch):
    firsts = []
    monkeypatch.setattr(local_server, "_set_initial_password", lambda home, java, jars, first: firsts.append(first))
    local_server.prepare_home(tmp_path, Path("java"), [], 7687, 7474)
    password = (tmp_path / "password").read_text()
    databases = tmp_path / "data" / "databases"
    databases.mkdir(parents=True)
    local_server.prepare_home(tmp_path, Path("java"), [], 7687, 7474)
    assert len(firsts) == 1
    databases.rmdir()
    local_server.prepare_home(tmp_path, Path("java"), [], 7687, 7474)
    assert (tmp_path / "password.first").read_text().strip() == firsts[1] != firsts[0]
    assert (tmp_path / "password").read_text() == password


def test_a_wrong_password_or_uri_is_one_line_that_shows_no_secret(graph, monkeypatch, tmp_path):
    with pytest.raises(PalimpsestError, match="NEO4J_USER and NEO4J_PASSWORD"):
        connect(graph.uri, "neo4j", "wrong")
    monkeypatch.setenv("NEO4J_PASSWORD", "x")
    monkeypatch.setenv("NEO4J_URI", "bolt://127.0.0.1:9")
    assert server_url() == "bolt://127.0.0.1:9"
    with pytest.raises(ComponentFailed, match="no answer"):
        connect()
    monkeypatch.setenv("NEO4J_URI", "nonsense")
    with pytest.raises(PalimpsestError, match="NEO4J_URI"):
        connect()
    monkeypatch.delenv("NEO4J_URI")
    monkeypatch.setenv("PALIMPSEST_NEO4J_HOME", str(tmp_path))
    with pytest.raises(PalimpsestError, match="neo4j start"):
        server_url()
    for uri in ("bolt://neo4j:s3cret@127.0.0.1:9", "neo4j://s3cret@127.0.0.1:9", "bolt://a:s3cret@[::1"):
        monkeypatch.setenv("NEO4J_URI", uri)
        for open_server in (server_url, connect, lambda uri=uri: connect(uri, "neo4j", "x")):
            with pytest.raises(PalimpsestError, match="NEO4J_USER and NEO4J_PASSWORD") as error:
                open_server()
            assert "s3cret" not in str(error.value)


def test_a_taken_port_or_pid_is_no_server_and_an_error_in_a_build_none_of_it(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert _free_port(port) != port
    for started in (None, "1"):  # the server ended before its start was noted, or long ago
        write_json(tmp_path / "server.json", {"pid": os.getpid(), "port": 7687, "started": started})
        assert not server_status(tmp_path).running
        assert not stop_server(tmp_path)
    with pytest.raises(ValueError, match="embed_inputs"), plain_errors("bolt://127.0.0.1:9"):
        raise ValueError("memory 1 has no row in embed_inputs")
    with pytest.raises(ComponentFailed, match="run again"), plain_errors("bolt://127.0.0.1:9"):
        raise Neo4jError()


def repository(folder: Path, *contents: bytes) -> list[Jar]:
    """A Maven repository on disk with a jar for each content."""
    jars = []
    for number, content in enumerate(contents):
        jar = Jar(f"org.made:jar{number}:1.0", hashlib.sha256(content).hexdigest(), len(content))
        (path := folder / jar.path).parent.mkdir(parents=True)
        path.write_bytes(content)
        jars.append(jar)
    return jars


@pytest.fixture
def served(tmp_path):
    """The folder of a repository that is served over HTTP, and its URL."""
    folder = tmp_path / "repository"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(folder))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def _no_maven_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("M2_REPO", str(tmp_path / "m2"))
    monkeypatch.delenv("PALIMPSEST_MAVEN", raising=False)


def test_the_lock_names_each_jar_with_version_and_hash():
    jars = locked_jars()
    assert "org.neo4j.app:neo4j-server:2026.08.1" in {j.coordinates for j in jars}
    assert len({j.file for j in jars}) == len(jars) > 200
    assert all(len(j.sha256) == 64 and j.size > 0 for j in jars)
    netty = next(j for j in jars if j.coordinates.endswith(":linux-x86_64"))
    assert netty.path.endswith("-linux-x86_64.jar")


def test_only_what_is_missing_or_was_damaged_is_fetched(tmp_path, served):
    folder, url = served
    jars = repository(folder, b"one", b"two")
    first = fetch_jars(jars[:1], tmp_path / "jars", url)
    aside = (folder / jars[0].path).rename(tmp_path / "aside")
    (left := tmp_path / "jars" / ".part_left").mkdir()
    (left / "half.jar").write_bytes(b"half")
    (tmp_path / "jars" / ".part-half.jar").write_bytes(b"half")
    assert [p.read_bytes() for p in fetch_jars(jars, tmp_path / "jars", url)] == [b"one", b"two"]
    assert first[0].name == "jar0-1.0.jar"
    assert not list((tmp_path / "jars").glob(".part*"))
    aside.rename(folder / jars[0].path)
    first[0].write_bytes(b"0ne")  # of the same size
    assert [p.read_bytes() for p in fetch_jars(jars, tmp_path / "jars", url)] == [b"one", b"two"]


def test_what_lies_in_a_folder_is_copied(tmp_path, monkeypatch):
    """From the folder of PALIMPSEST_MAVEN, or from what Maven fetched for this user."""
    jars = repository(tmp_path / "m2", b"one")
    monkeypatch.setenv("PALIMPSEST_MAVEN", "http://127.0.0.1:9")
    assert fetch_jars(jars, tmp_path / "a")[0].read_bytes() == b"one"
    monkeypatch.setenv("PALIMPSEST_MAVEN", str(tmp_path / "m2"))
    assert fetch_jars(jars, tmp_path / "b")[0].read_bytes() == b"one"
    (tmp_path / "m2" / jars[0].path).write_bytes(b"0ne")
    with pytest.raises(ComponentFailed, match="matches the lock file"):
        fetch_jars(jars, tmp_path / "c")


def test_what_cannot_be_fetched_is_an_error_that_says_what_to_do(tmp_path, served):
    folder, url = served
    jars = repository(folder, b"one")
    (folder / jars[0].path).write_bytes(b"0ne")
    with pytest.raises(PalimpsestError, match="is not the locked file"):
        fetch_jars(jars, tmp_path / "jars", url)
    assert not list((tmp_path / "jars").rglob("*.jar"))
    jars = repository(tmp_path / "r", b"one")
    with pytest.raises(ComponentFailed, match="PALIMPSEST_MAVEN"):
        fetch_jars(jars, tmp_path / "jars", "http://127.0.0.1:9")
    with pytest.raises(PalimpsestError, match="PALIMPSEST_MAVEN"):
        fetch_jars([], tmp_path, str(tmp_path / "none"))


class Answer:
    records = ()


class AtOnce:
    """Stands for a driver: these tests are of when requests are sent, and of nothing that a server does."""

    def __init__(self):
        self.sent = []

    def execute_query(self, statement, *_, **__):
        self.sent.append(statement)
        return Answer()

    def session(self, **_):
        return self

    def run(self, statement, _):
        self.sent.append(statement)
        return []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def connection(monkeypatch, rpm):
    monkeypatch.setenv("PALIMPSEST_NEO4J_RPM", rpm)
    waited = []
    monkeypatch.setattr("palimpsest.lm.client.time.monotonic", lambda: 100.0)
    monkeypatch.setattr("palimpsest.lm.client.time.sleep", waited.append)
    return Connection(AtOnce(), None, Capabilities("", "", ()), "bolt://127.0.0.1"), waited


def test_writes_and_batches_are_spread_over_the_minute_and_queries_are_not(monkeypatch):
    made, waited = connection(monkeypatch, "120")
    for _ in range(3):
        made.write("CREATE ()")
    assert waited == [0.5, 1.0]
    made.query("RETURN 1", {})
    made.read("RETURN 1")
    assert waited == [0.5, 1.0] and len(made.driver.sent) == 5
    made, waited = connection(monkeypatch, "60")
    writer = Writer(made, "home")
    for _ in range(2):
        writer._run("UNWIND $rows AS row", {})
    assert waited == [1.0]


def test_no_limit_is_the_default_and_a_bad_one_is_an_error(monkeypatch):
    made, waited = connection(monkeypatch, "")
    made.write("CREATE ()")
    assert waited == []
    with pytest.raises(PalimpsestError, match="PALIMPSEST_NEO4J_RPM: 'many' must be a whole number"):
        connection(monkeypatch, "many")
