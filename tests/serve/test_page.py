"""The page's files: only those, with a policy that lets nothing else run, and nothing that makes markup of texts."""

import re
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import palimpsest.serve.page_routes as page
from palimpsest.serve.app import create_app
from palimpsest.serve.settings import ServeSettings
from palimpsest.store.home import Home
from tests.serve.conftest import TOKENS, client_of

STATIC = Path(page.__file__).with_name("static")
SCRIPTS = sorted(STATIC.rglob("*.js"))


def test_the_page_needs_no_token_and_its_policy_lets_only_its_own_files_run(clients):
    client = clients()
    assert client.get("/", follow_redirects=False).headers["location"] == "/page/"
    answer = client.get("/page/")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy and "unsafe" not in policy and "http:" not in policy
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|style=", answer.text)


def test_every_file_that_the_page_names_is_sent_with_its_type(clients):
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


def test_a_file_that_a_browser_has_is_not_sent_again(clients):
    tag = clients().get("/page/page.js").headers["etag"]
    assert clients().get("/page/page.js", headers={"If-None-Match": tag}).status_code == 304


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


@pytest.mark.parametrize(
    "name", ["../routes.py", "%2e%2e/routes.py", "..%2froutes.py", "/etc/passwd", "views", "views/", "x.js", "%00"]
)
def test_no_other_file_is_sent(clients, name):
    assert clients().get(f"/page/{name}").status_code == 404


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.relative_to(STATIC).as_posix())
def test_no_script_makes_markup_or_code_of_a_text(script):
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", script.read_text()
    )
    assert "http://" not in script.read_text() and "https://" not in script.read_text()
