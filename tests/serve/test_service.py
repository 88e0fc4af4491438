"""Limits, headers, errors, readiness, the page's files, the documented bodies, and what keeps it from starting."""

import datetime as dt
import json
import os
import re
import socket
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

import palimpsest.serve.page_routes as page
from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.files import write_json
from palimpsest.serve.app import create_app, describe
from palimpsest.serve.run_server import check_start
from palimpsest.serve.search_routes import IsoTimeOrDay
from palimpsest.serve.settings import ServeSettings
from palimpsest.store.builds import Build, published
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home
from palimpsest.store.proposals import Proposal, write_proposals
from palimpsest_eval.runs.home_metrics import record_health
from tests.command import run
from tests.serve.conftest import TOKENS, client_of, serving, start_server


def test_every_answer_has_the_headers_and_errors_are_problem_details(clients):
    for path in ("/health", "/search?q=bike", "/nowhere", "/memory/x", "/search"):
        answer = clients("ann").get(path, headers={"Origin": "https://evil.example"})
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert clients("ann").options("/search").status_code == 405
    for path, status in (("/nowhere", 404), ("/search", 422), ("/search?q=bike&k=0", 422), ("/search?q=..", 422)):
        answer = clients("ann").get(path)
        assert answer.status_code == status and answer.headers["content-type"] == "application/problem+json"
        assert set(answer.json()) == {"type", "title", "status", "detail"}
    assert clients("ann").put("/search").status_code == 405
    found, nothing = (clients(name).get("/search?q=bike&collection=chats").json() for name in ("ann", "nobody"))
    assert nothing.keys() == found.keys() and nothing["memories"] == [] and nothing["message"]["content"]


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/search?q=..", "q: has no words; enter a question or keywords"),
        ("/search?q=bike&project=", "project: is empty; give one, or leave it out"),
        ("/search?q=bike&session=%20", "session: is empty; give one, or leave it out"),
        ("/graph?collection=", "collection: is empty; give one, or leave it out"),
    ],
)
def test_a_parameter_that_cannot_be_used_is_named_as_the_request_names_it(clients, path, detail):
    assert clients("ann").get(path).json()["detail"] == detail


def test_a_query_parameter_that_an_endpoint_does_not_have_is_named(clients):
    for path in ("/search?q=bike&limit=3", "/users/me?x=1", "/memory/abc?deep=1", "/graph?colection=a"):
        answer, name = clients("ann").get(path), path.rpartition("?")[2].split("&")[-1].partition("=")[0]
        assert answer.status_code == 422 and answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"].startswith(f"{name}: no such query parameter; it takes ")
        assert clients().get(path).status_code == 401


def test_a_search_takes_times_and_days(clients):
    day, time = "2026-03-01", "2026-03-01T23:30:00-08:00"
    read = TypeAdapter(IsoTimeOrDay).validate_python
    assert read(day) == dt.date(2026, 3, 1) and read(time) == dt.datetime.fromisoformat(time)
    for name in ("since", "until", "as_of"):
        values = ({"q": "bike", name: v} for v in (day, time, "1 March"))
        found = [clients("ann").get("/search", params=v).status_code for v in values]
        assert found == [200, 200, 422]
    assert clients("ann").post("/memories/search", json={"q": "bike", "since": day}).status_code == 200


def test_a_user_has_so_many_requests_a_minute_and_others_are_not_slowed(served):
    app = create_app(Home(served / "home"), ServeSettings(TOKENS, 3, 2))
    ann, bob, nobody = client_of(app, "ann"), client_of(app, "bob"), client_of(app, None)
    assert [ann.get("/graph").status_code for _ in range(5)] == [200, 200, 200, 429, 429]
    assert bob.get("/graph").status_code == 200
    assert [nobody.get("/graph").status_code for _ in range(4)] == [401, 401, 429, 429]
    assert ann.get("/graph").headers["Retry-After"] == "60"


def test_a_request_that_is_too_large_takes_too_long_or_fails_shows_nothing_of_the_inside(served, monkeypatch):
    def answered(answer, **settings):
        monkeypatch.setattr("palimpsest.serve.search_routes.answer", answer)
        with serving(served / "home", **settings) as app:
            return client_of(app, "ann").get("/search?q=bike")

    def fails(*_):
        raise RuntimeError("zqinside")

    with serving(served / "home", max_body_bytes=1000) as app:
        for content in ((b"x" * 100 for _ in range(50)), b"x" * 5000):
            sent = client_of(app, "ann").post("/memory", content=content, headers={"Content-Type": "application/json"})
            assert sent.status_code == 413 and "1,000 bytes" in sent.json()["detail"]
    assert answered(lambda *_: time.sleep(2), timeout_s=1).status_code == 503
    assert answered(fails).status_code == 500 and "zqinside" not in answered(fails).text


def test_it_is_alive_without_a_build_and_ready_with_one(tmp_path, clients):
    empty = client_of(create_app(Home(tmp_path / "empty"), ServeSettings(TOKENS)), None)
    builds = {"every_minutes": 0, "state": "off", "last": None}
    assert empty.get("/health").json() == {"status": "ok", "builds": builds}
    assert empty.get("/ready").json() == {"status": "ready", "build_id": ""}
    assert clients().get("/ready").json()["build_id"] == "000001"
    assert "palimpsest_build_number 1.0" in clients().get("/metrics").text


def test_figures_that_need_no_token_have_no_name_no_id_and_no_text(writers, home):
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


def test_a_node_and_an_edge_are_added_to_the_callers_own_graph(writers, home):
    ann = writers("ann")
    node = {"name": "Quern", "type": "place", "collection": "chats"}
    assert ann.post("/api/v1/knowledge/nodes", json=node).status_code == 202
    edge = {"source": "Basin", "target": "Heron", "collection": "chats"}
    assert ann.post("/api/v1/knowledge/edges", json=edge).status_code == 202
    assert ann.post("/api/v1/knowledge/nodes", json=node).status_code == 409
    assert writers("eve").post("/api/v1/knowledge/nodes", json=node).status_code == 404
    assert [d.scope for d in read_decisions(home.decisions).graph] == [("chats", "ann", "")] * 2


def test_the_command_serves_and_makes_tokens(served, tmp_path):
    refused = run("serve", "--home", served / "home", "--host", "0.0.0.0", PALIMPSEST_JWT_SECRET="")
    assert refused.returncode == 2 and "set one of PALIMPSEST_JWT_SECRET" in refused.stderr
    made = run("serve", "token", "--user", "ann", PALIMPSEST_JWT_SECRET=TOKENS.secret).stdout.strip()
    with start_server(served / "home") as (_, url):
        request = urllib.request.Request(f"{url}/search?q=bike", headers={"Authorization": f"Bearer {made}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert "zqann" in answer.read().decode()


STATIC = Path(page.__file__).with_name("static")
SCRIPTS = sorted(STATIC.rglob("*.js"))


def test_the_page_needs_no_token_and_sends_every_file_that_it_names_and_no_other(clients):
    client = clients()
    assert client.get("/", follow_redirects=False).headers["location"] == "/page/"
    answer = client.get("/page/")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy and "unsafe" not in policy and "http:" not in policy
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|style=", answer.text)
    client = clients()
    named = set(re.findall(r'(?:href|src)="([^"#]+\.\w+)"', (STATIC / "index.html").read_text()))
    for script in SCRIPTS:
        for name in re.findall(r'(?:from |import\()"([^"]+)"', script.read_text()):
            named.add((script.parent / name).resolve().relative_to(STATIC.resolve()).as_posix())
    assert len(named) > 12
    for name in sorted(named):
        answer = client.get(f"/page/{name}")
        assert answer.status_code == 200, name
        assert not name.endswith(".js") or answer.headers["content-type"].startswith("text/javascript")
    assert b"Cytoscape" in client.get("/page/cytoscape.license.txt").content
    tag = clients().get("/page/page.js").headers["etag"]
    assert clients().get("/page/page.js", headers={"If-None-Match": tag}).status_code == 304
    for name in ("../routes.py", "%2e%2e/routes.py", "..%2froutes.py", "/etc/passwd", "views", "views/", "x.js", "%00"):
        assert clients().get(f"/page/{name}").status_code == 404


def test_a_repository_that_never_answers_delays_one_request_and_no_other(served, tmp_path, monkeypatch):
    monkeypatch.setattr("palimpsest.core.maven.RETRIES", 0)
    monkeypatch.setattr("palimpsest.core.maven._TIMEOUT_S", 5)  # so that the test ends where requests do wait
    for name, value in {"PALIMPSEST_PAGE_JARS": "jars", "M2_REPO": "m2"}.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    client = client_of(create_app(Home(served / "home"), ServeSettings(TOKENS)), None)
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        monkeypatch.setenv("PALIMPSEST_MAVEN", f"http://127.0.0.1:{server.getsockname()[1]}")
        first = pool.submit(client.get, "/page/cytoscape.js")
        connection, _ = server.accept()
        with connection:
            second = client.get("/page/cytoscape.js")
            assert second.status_code == 503 and second.headers["content-type"] == "application/problem+json"
            assert [client.get(path).status_code for path in ("/page/", "/page/page.js", "/health")] == [200] * 3
            assert not first.done()
        assert first.result(30).status_code == 503
        server.setblocking(False)
        assert client.get("/page/cytoscape.license.txt").status_code == 503
        with pytest.raises(BlockingIOError):  # the next attempt is made later
            server.accept()


def test_no_script_makes_markup_or_code_of_a_text():
    markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|http://|https://"
    assert [script for script in SCRIPTS if re.search(markup, script.read_text())] == []


KEPT, OTHER = "cdb6bb060420f927", "7cfb228e1975cbb0"


def test_each_endpoint_with_a_body_has_examples_in_its_description_that_are_accepted(writers, home):
    ann = writers("ann")
    document = ann.get("/openapi.json").json()
    found = ann.get("/search?q=bike+work&collection=chats&history=true&include_pending=false").json()["memories"]
    first, second = (m["memory_id"] for m in found[:2])
    proposal = Proposal("contradiction", "values", ("chats", "ann", ""), (first, second), "one of them", 0.8)
    relation = build_of(home).table("chats", "relations").filter(user_id="ann")["relation_id"][0]
    ids = {"proposals": proposal.proposal_id, "relations": relation}
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            if "requestBody" not in described:
                continue
            schema = described["requestBody"]["content"]["application/json"]["schema"]
            (name,) = {s["$ref"].rpartition("/")[2] for s in schema.get("anyOf", [schema]) if "$ref" in s}
            for body in document["components"]["schemas"][name]["examples"]:
                write_proposals(home.path, [proposal])
                place = re.sub(r"\{\w+\}", ids.get(path.split("/")[1], first), path)
                body = json.loads(json.dumps(body).replace(KEPT, first).replace(OTHER, second))
                answer = ann.request(method.upper(), place, json=body)
                assert answer.status_code in (200, 202), (path, body, answer.text)


def build_of(home: Home) -> Build:
    build = published(home)
    assert build is not None
    return build


def flip(path: Path, keep_time: bool) -> None:
    """Changes one byte in the middle of a file."""
    before, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.unlink()  # tables of two builds, or of two homes of a test, are one file
    path.write_bytes(data)
    if keep_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_sound_or_copied_home_starts_and_what_changed_without_a_trace_is_named(home):
    check_start(home, "duckdb")
    for path in build_of(home).path.rglob("*"):
        os.utime(path)
    check_start(home, "duckdb")
    table, index = build_of(home).table_path("chats", "memories"), build_of(home).index
    sound = index.read_bytes()
    flip(index, keep_time=True)
    with pytest.raises(ComponentFailed, match=r"index\.duckdb of build 000001 is damaged; run palimpsest build"):
        check_start(home, "duckdb")
    index.write_bytes(sound)
    flip(table, keep_time=False)
    with pytest.raises(ComponentFailed, match=r"chats/memories.parquet of build 000001 is damaged"):
        check_start(home, "duckdb")
    table.unlink()
    with pytest.raises(ComponentFailed, match=r"chats/memories.parquet"):
        check_start(home, "duckdb")


def test_a_new_home_is_made_and_a_folder_with_other_files_is_refused(tmp_path):
    check_start(Home(tmp_path / "new"), "duckdb")
    assert (tmp_path / "new" / "builds").is_dir()
    with pytest.raises(PalimpsestError, match="has files and is no home"):
        check_start(Home(tmp_path), "duckdb")


def test_a_neo4j_that_does_not_answer_is_a_component_that_failed(home, monkeypatch):
    write_json(home.path / "neo4j.json", {"home_id": "0" * 16, "folder": os.fsencode(home.path.resolve()).hex()})
    monkeypatch.setenv("NEO4J_URI", "bolt://127.0.0.1:1")
    monkeypatch.setenv("NEO4J_PASSWORD", "x")
    with pytest.raises(ComponentFailed, match=r"no answer from bolt://127\.0\.0\.1:1"):
        check_start(home, "neo4j")


def test_requests_that_need_the_description_at_once_wait_for_one_that_makes_it(served, monkeypatch):
    makes = []

    def make_slowly(**parts):
        makes.append(parts)
        time.sleep(0.1)
        return get_openapi(**parts)

    monkeypatch.setattr("palimpsest.serve.app.get_openapi", make_slowly)
    with serving(served / "home") as app, ThreadPoolExecutor(8) as pool:
        found = [*pool.map(lambda _: describe(app)["components"]["schemas"].keys(), range(8))]
    assert len(makes) == 1 and all(names == found[0] and "SentMemory" in names for names in found)
