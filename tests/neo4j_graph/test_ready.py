"""Readiness of the service over a Neo4j server whose connection is cut and comes back."""

import shutil
import socket
import threading

import pytest
from fastapi.testclient import TestClient

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.neo4j_graph.identity import home_id
from palimpsest.neo4j_graph.loader import drop_home
from palimpsest.neo4j_graph.local_server import server_status
from palimpsest.neo4j_graph.published_graph import load_published
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.serve.app import create_app
from palimpsest.serve.run_server import check_start
from palimpsest.serve.settings import ServeSettings, TokenSettings
from palimpsest.store.home import Home
from tests.small_corpus import write_notes


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
def home(graph, tmp_path, shared_vectors):
    made = Home(tmp_path / "home", shared_vectors)
    corpus = write_notes(tmp_path / "corpus", {"a.md": "The bridge is 40 metres long.\n"}, user_id="ann")
    run_without_dagster(made, make_plan(made, [corpus]))
    shutil.rmtree(corpus)
    yield made
    drop_home(graph, home_id(made))


def test_a_service_is_ready_while_its_server_answers_and_does_not_start_without_it(relay, home):
    with pytest.raises(PalimpsestError, match="never loaded into Neo4j"):
        check_start(home, "neo4j")
    load_published(home)
    check_start(home, "neo4j")
    app = create_app(home, ServeSettings(TokenSettings(secret="k" * 48)), "neo4j")
    client = TestClient(app, raise_server_exceptions=False)
    assert client.get("/ready").json() == {"status": "ready", "build_id": "000001"}
    relay.cut(True)
    assert client.get("/ready").status_code == 503 and client.get("/health").status_code == 200
    with pytest.raises(ComponentFailed, match="no answer"):
        check_start(home, "neo4j")
    relay.cut(False)
    assert client.get("/ready").status_code == 200
    app.state.service.deletions.close()
    app.state.service.reader.close()
