import os
import socket
from pathlib import Path

import pytest
from neo4j.exceptions import Neo4jError

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.files import write_json
from palimpsest.neo4j_graph import local_server
from palimpsest.neo4j_graph.connect import connect, plain_errors
from palimpsest.neo4j_graph.local_server import (
    _free_port,
    server_status,
    server_url,
    start_server,
    stop_server,
)


def test_a_started_server_answers_on_loopback_with_a_password_only_its_owner_reads(graph, server, server_folder):
    assert server.uri.startswith("bolt://127.0.0.1:")
    assert server.password_file.stat().st_mode & 0o777 == 0o600
    assert not (server_folder / "password.first").exists()
    assert graph.capabilities.edition == "community" and "25" in graph.capabilities.cypher
    listening = (server_folder / "conf" / "neo4j.conf").read_text()
    assert "server.http.enabled=false" in listening and "0.0.0.0" not in listening


def test_starting_twice_is_one_server(graph, server_folder):
    assert start_server(server_folder).pid == server_status(server_folder).pid


def test_a_server_that_cannot_is_refused_by_what_to_install(graph, server, monkeypatch):
    for probe in ("COMPONENTS", "PROBE_CYPHER_25", "PROBE_SEARCH"):
        with monkeypatch.context() as patch:
            patch.setattr(f"palimpsest.neo4j_graph.connect.{probe}", "CYPHER 25 CALL no.such()")
            with pytest.raises(PalimpsestError, match=r"install Neo4j 2026\.01 or later") as error:
                connect(graph.uri, server.user, server.password)
        assert error.value.exit_code == 2


def test_a_missing_password_file_is_reported_at_once(graph, server_folder):
    aside = (server_folder / "password").rename(server_folder / "aside")
    try:
        with pytest.raises(ComponentFailed, match="restore"):
            start_server(server_folder, wait_s=2)
    finally:
        aside.rename(server_folder / "password")


def test_a_server_whose_data_was_removed_starts_anew_with_the_same_password(tmp_path, monkeypatch):
    firsts = []
    monkeypatch.setattr(local_server, "_set_initial_password", lambda home, java, jars, first: firsts.append(first))
    local_server.prepare_home(tmp_path, Path("java"), [], 7687)
    password = (tmp_path / "password").read_text()
    databases = tmp_path / "data" / "databases"
    databases.mkdir(parents=True)
    local_server.prepare_home(tmp_path, Path("java"), [], 7687)
    assert len(firsts) == 1
    databases.rmdir()
    local_server.prepare_home(tmp_path, Path("java"), [], 7687)
    assert (tmp_path / "password.first").read_text().strip() == firsts[1] != firsts[0]
    assert (tmp_path / "password").read_text() == password


def test_a_wrong_password_is_one_line_that_names_the_variables(graph):
    with pytest.raises(PalimpsestError, match="NEO4J_USER and NEO4J_PASSWORD"):
        connect(graph.uri, "neo4j", "wrong")


def test_a_uri_that_nobody_answers_or_that_is_none_is_one_line(monkeypatch, tmp_path):
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


def test_a_taken_port_gives_another():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert _free_port(port) != port


def test_a_process_that_only_took_the_pid_is_no_server_and_is_not_stopped(tmp_path):
    for started in (None, "1"):  # the server ended before its start was noted, or long ago
        write_json(tmp_path / "server.json", {"pid": os.getpid(), "port": 7687, "started": started})
        assert not server_status(tmp_path).running
        assert not stop_server(tmp_path)


def test_a_uri_with_a_password_is_refused_and_not_shown(monkeypatch):
    for uri in ("bolt://neo4j:s3cret@127.0.0.1:9", "neo4j://s3cret@127.0.0.1:9", "bolt://a:s3cret@[::1"):
        monkeypatch.setenv("NEO4J_URI", uri)
        for open_server in (server_url, connect, lambda uri=uri: connect(uri, "neo4j", "x")):
            with pytest.raises(PalimpsestError, match="NEO4J_USER and NEO4J_PASSWORD") as error:
                open_server()
            assert "s3cret" not in str(error.value)


def test_an_error_in_a_build_is_not_reported_as_a_server_that_does_not_answer():
    with pytest.raises(ValueError, match="embed_inputs"), plain_errors("bolt://127.0.0.1:9"):
        raise ValueError("memory 1 has no row in embed_inputs")
    with pytest.raises(ComponentFailed, match="run again"), plain_errors("bolt://127.0.0.1:9"):
        raise Neo4jError()
