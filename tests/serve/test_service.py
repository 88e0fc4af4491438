"""Limits, headers, errors, readiness, and the graph."""

import datetime as dt
import os
import re
import subprocess
import time
import urllib.request
from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from palimpsest.serve.app import create_app
from palimpsest.serve.search_routes import IsoTimeOrDay
from palimpsest.serve.settings import ServeSettings
from palimpsest.store.builds import published
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home
from palimpsest_eval.runs.home_metrics import record_health
from tests.command import CLI, run
from tests.serve.conftest import TOKENS, client_of


def test_every_answer_has_the_headers_and_no_answer_opens_cors(clients):
    for path in ("/health", "/search?q=bike", "/nowhere", "/memory/x", "/search"):
        answer = clients("ann").get(path, headers={"Origin": "https://evil.example"})
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert clients("ann").options("/search").status_code == 405


def test_errors_are_problem_details(clients):
    for path, status in (("/nowhere", 404), ("/search", 422), ("/search?q=bike&k=0", 422), ("/search?q=..", 422)):
        answer = clients("ann").get(path)
        assert answer.status_code == status and answer.headers["content-type"] == "application/problem+json"
        assert set(answer.json()) == {"type", "title", "status", "detail"}
    assert clients("ann").put("/search").status_code == 405


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/search?q=..", "q: has no words; enter a question or keywords"),
        ("/search?q=bike&project=", "project: Value error, is empty; give one, or leave it out"),
        ("/search?q=bike&session=%20", "session: Value error, is empty; give one, or leave it out"),
        ("/graph?collection=", "collection: Value error, is empty; give one, or leave it out"),
    ],
)
def test_a_parameter_that_cannot_be_used_is_named_as_the_request_names_it(clients, path, detail):
    assert clients("ann").get(path).json()["detail"] == detail


@pytest.mark.parametrize(
    "path", ["/search?q=bike&limit=3", "/users/me?x=1", "/memory/abc?deep=1", "/graph?colection=a"]
)
def test_a_query_parameter_that_an_endpoint_does_not_have_is_named(clients, path):
    answer, name = clients("ann").get(path), path.rpartition("?")[2].split("&")[-1].partition("=")[0]
    assert answer.status_code == 422 and answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"].startswith(f"{name}: no such query parameter; it takes ")
    assert clients().get(path).status_code == 401


def test_a_search_takes_times_and_days(clients):
    day, time = "2026-03-01", "2026-03-01T23:30:00-08:00"
    read = TypeAdapter(IsoTimeOrDay).validate_python
    assert read(day) == dt.date(2026, 3, 1) and read(time) == dt.datetime.fromisoformat(time)
    for name in ("since", "until", "as_of"):
        found = [
            clients("ann").get("/search", params={"q": "bike", name: v}).status_code for v in (day, time, "1 March")
        ]
        assert found == [200, 200, 422]
    assert clients("ann").post("/memories/search", json={"q": "bike", "since": day}).status_code == 200


def test_a_user_has_so_many_requests_a_minute_and_others_are_not_slowed(served):
    app = create_app(Home(served / "home"), ServeSettings(TOKENS, 3, 2))
    ann, bob, nobody = client_of(app, "ann"), client_of(app, "bob"), client_of(app, None)
    assert [ann.get("/graph").status_code for _ in range(5)] == [200, 200, 200, 429, 429]
    assert bob.get("/graph").status_code == 200
    assert [nobody.get("/graph").status_code for _ in range(4)] == [401, 401, 429, 429]
    assert ann.get("/graph").headers["Retry-After"] == "60"


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_request_that_is_too_large_is_refused(served, is_chunked):
    app = create_app(Home(served / "home"), ServeSettings(TOKENS, max_body_bytes=1000))
    content = (b"x" * 100 for _ in range(50)) if is_chunked else b"x" * 5000
    answer = client_of(app, "ann").post("/memory", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413 and "1,000 bytes" in answer.json()["detail"]


def test_a_request_that_takes_too_long_is_ended(served, monkeypatch):
    monkeypatch.setattr("palimpsest.serve.search_routes.answer", lambda *_: time.sleep(3))
    app = create_app(Home(served / "home"), ServeSettings(TOKENS, timeout_s=1))
    assert client_of(app, "ann").get("/search?q=bike").status_code == 503


def test_a_fault_of_the_service_shows_nothing_of_the_inside(served, monkeypatch):
    def fails(*_: object) -> None:
        raise RuntimeError("zqinside")

    monkeypatch.setattr("palimpsest.serve.search_routes.answer", fails)
    app = create_app(Home(served / "home"), ServeSettings(TOKENS))
    answer = client_of(app, "ann").get("/search?q=bike")
    assert answer.status_code == 500 and "zqinside" not in answer.text


def test_it_is_alive_without_a_build_and_ready_with_one(tmp_path, clients):
    empty = client_of(create_app(Home(tmp_path / "empty"), ServeSettings(TOKENS)), None)
    assert empty.get("/health").json() == {"status": "ok"} and empty.get("/ready").status_code == 503
    assert clients().get("/ready").json()["build_id"] == "000001"
    assert "palimpsest_build_number 1.0" in clients().get("/metrics").text


def test_figures_that_need_no_token_have_no_name_no_id_and_no_text(writers, home: Home):
    build = published(home)
    latencies = {"chats/p95_ms": 25.0, "town/p95_ms": 40.0}
    build.write_manifest(replace(build.manifest, gate={"status": "passed", "metrics": latencies}))
    record_health(home)
    text = writers().get("/metrics").text
    (latency,) = [line for line in text.splitlines() if line.startswith("palimpsest_query_seconds")]
    assert latency == 'palimpsest_query_seconds{quantile="0.95"} 0.04'
    tables = [build.table(c, name) for c in build.collections for name in ("memories", "documents")]
    columns = ("memory_id", "document_id", "user_id", "session_id", "project_id", "text", "uri", "title", "speaker")
    names = {str(v) for t in tables for c in columns if c in t.columns for v in t[c].drop_nulls().unique()}
    words = set(re.findall(r"[^\W_]{3,}", " ".join(names | set(build.collections))))
    assert {"ann", "bob", "apollo", "chats", "zqann"} <= words
    samples = [line for line in text.splitlines() if line and not line.startswith("#")]
    found = {part for line in samples for label in re.findall(r'"([^"]*)"', line) for part in re.split(r"\W|_", label)}
    assert "memories" in found and not found & words, found & words


def test_the_whole_graph_comes_in_pages_that_repeat_nothing(clients):
    ann = clients("ann")
    whole = ann.get("/graph?limit=5000").json()
    pages, offset = [], 0
    while offset is not None:
        page = ann.get(f"/graph?limit=2&offset={offset}").json()
        pages += page["nodes"]
        offset = page["next_offset"]
    assert pages == whole["nodes"] and whole["total"] == len(pages) > 2 and whole["edges"]
    assert {n["name"] for n in whole["nodes"]} >= {"Basin", "Heron"}
    near = ann.get("/api/v1/knowledge/graph?name=Basin&depth=1").json()
    assert "Basin" in {n["name"] for n in near["nodes"]}
    assert ann.get("/api/v1/knowledge/nodes?name=Basin").json()["nodes"][0]["name"] == "Basin"


def test_a_node_and_an_edge_are_added_to_the_callers_own_graph(writers, home: Home):
    ann = writers("ann")
    node = {"name": "Quern", "type": "place", "collection": "chats"}
    assert ann.post("/api/v1/knowledge/nodes", json=node).status_code == 202
    edge = {"source": "Basin", "target": "Heron", "collection": "chats"}
    assert ann.post("/api/v1/knowledge/edges", json=edge).status_code == 202
    assert ann.post("/api/v1/knowledge/nodes", json=node).status_code == 409
    assert writers("eve").post("/api/v1/knowledge/nodes", json=node).status_code == 404
    assert [d.scope for d in read_decisions(home.decisions).graph] == [("chats", "ann", "")] * 2


def test_the_command_serves_and_makes_tokens(served, tmp_path):
    refused = run("serve", "--home", served / "home", PALIMPSEST_JWT_SECRET="")
    assert refused.returncode == 2 and "set one of PALIMPSEST_JWT_SECRET" in refused.stderr
    environment = os.environ | {"PALIMPSEST_JWT_SECRET": TOKENS.secret}
    made = run("serve", "token", "--user", "ann", PALIMPSEST_JWT_SECRET=TOKENS.secret).stdout.strip()
    command = [CLI, "serve", "--home", served / "home", "--port", "0"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = server.stdout.readline().split()[-1]
            request = urllib.request.Request(f"{url}/search?q=bike", headers={"Authorization": f"Bearer {made}"})
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert "zqann" in answer.read().decode()
        finally:
            server.terminate()
            server.wait(20)


def test_a_search_in_no_scope_of_the_caller_has_the_shape_of_any_other(clients):
    found, nothing = (clients(name).get("/search?q=bike&collection=chats").json() for name in ("ann", "nobody"))
    assert nothing.keys() == found.keys() and nothing["memories"] == [] and nothing["message"]["content"]
