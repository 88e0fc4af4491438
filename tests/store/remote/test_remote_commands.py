"""The command line and the service on a home in a bucket, from two machines that share nothing else."""

import time

from fastapi.testclient import TestClient

from palimpsest.serve.app import create_app
from palimpsest.serve.settings import ServeSettings
from palimpsest.store.home import Home
from palimpsest.store.remote_home import local_home
from tests.command import last_json, process, run
from tests.serve.conftest import TOKENS, client_of
from tests.small_corpus import write_chats


def test_commands_of_two_machines_work_on_one_home(url, tmp_path):
    corpus, here, there = write_chats(tmp_path / "corpus"), {"PALIMPSEST_HOME": url}, tmp_path / "there"
    there = {"XDG_CACHE_HOME": str(there), "PALIMPSEST_HOME": url}
    first = run("build", "--corpus", corpus, "--json", **here)
    assert first.returncode == 0 and f"wrote {url}" in first.stderr
    again = last_json(run("build", "--corpus", corpus, "--json", **here))
    assert again["work"] == {"embeddings": 0, "lm_calls": 0, "graph_writes": 0}
    found = process("query", "What is my locker code?", "--user", "bob", **there)
    assert "quixotic-77" in found.stdout
    sent = last_json(run("remember", "The spare key hangs behind the clock.", "--user", "ann", "--json", **there))
    assert run("build", "--corpus", corpus, **here).returncode == 0
    assert last_json(run("operation", sent["operation_id"], "--json", **there))["state"] == "published"
    deleted = last_json(run("delete", "--user", "bob", "--json", **here))
    assert deleted["residue"] == [] and deleted["store"]["objects"] > 0
    gone = run("query", "What is my locker code?", "--user", "bob", **there)
    assert gone.returncode == 2 and "quixotic" not in gone.stdout
    assert last_json(run("verify", "--json", **there))["violations"] == []


def test_a_store_that_does_not_answer_is_one_line_and_exit_code_3(url):
    done = process("query", "x", "--home", url, AWS_ENDPOINT_URL="http://127.0.0.1:9", AWS_MAX_ATTEMPTS="1")
    assert done.returncode == 3 and len(done.stderr.strip().splitlines()) == 1 and url in done.stderr


def test_a_service_sends_what_it_receives_and_serves_what_another_machine_builds(url, tmp_path, monkeypatch):
    corpus = write_chats(tmp_path / "corpus")
    run("build", "--corpus", corpus, "--home", url)
    app = create_app(Home(local_home(url)), ServeSettings(TOKENS, 100_000, 100_000))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "builder"))
    with TestClient(app):
        ann = client_of(app, "ann")
        posted = ann.post("/memory", json={"text": "The spare key hangs behind the clock."}).json()
        deadline = time.monotonic() + 60
        while ann.get(f"/operations/{posted['operation_id']}").json()["state"] != "published":
            assert time.monotonic() < deadline
            run("build", "--corpus", corpus, "--home", url)
        assert "behind the clock" in ann.get("/search", params={"q": "Where is the spare key?"}).json()["context"]
