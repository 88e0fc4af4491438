"""A real daemon and webserver: what runs by itself publishes a build, and one signal ends every process."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from palimpsest.build.plan import make_plan
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from tests.small_corpus import write_chats

_WAIT_S = 300
_RUNS = "{ runsOrError { ... on Runs { results { jobName status tags { key value } } } } }"
_STATES = """{ repositoryOrError(repositorySelector: {repositoryName: "__repository__",
  repositoryLocationName: "palimpsest.definitions"}) { ... on Repository {
  schedules { name executionTimezone cronSchedule scheduleState { status } }
  sensors { name sensorState { status } } } } }"""


def processes_of(home: Home) -> list[str]:
    """Command lines of the running processes that were started for a home."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"PALIMPSEST_HOME={home.path}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


class Ui:
    def __init__(self, port: int, server: subprocess.Popen[bytes]):
        self.server = server
        self.url = f"http://127.0.0.1:{port}/graphql"

    def query_graphql(self, query: str, **variables: Any) -> dict[str, Any]:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)["data"]


def wait_for(what: str, look: Any) -> Any:
    end = time.monotonic() + _WAIT_S
    while time.monotonic() < end:
        try:
            if found := look():
                return found
        except OSError:
            pass
        time.sleep(1)
    pytest.fail(f"{what} did not happen in {_WAIT_S} s")


@pytest.fixture
def ui(tmp_path: Path) -> Iterator[tuple[Ui, Home]]:
    home = Home(tmp_path / "home")
    home.create()
    home.remember_sources(make_plan(home, [write_chats(tmp_path / "corpus")]).collections)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    palimpsest = Path(sys.executable).with_name("palimpsest")
    environment = os.environ | {"PALIMPSEST_SCHEDULE": "* * * * *", "PALIMPSEST_TIMEZONE": "Europe/Berlin"}
    log = (tmp_path / "dev.log").open("w")
    server = subprocess.Popen(
        [palimpsest, "dev", "--home", home.path, "--port", str(port)],
        env=environment,
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=tmp_path,
    )
    try:
        yield Ui(port, server), home
    except BaseException:
        print((tmp_path / "dev.log").read_text()[-5000:])
        raise
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
            raise
        finally:
            log.close()


def test_what_runs_by_itself_is_on_publishes_a_build_and_ends_whole(ui):
    client, home = ui
    wait_for("the UI", lambda: client.query_graphql("{ version }"))
    states = wait_for(
        "the definitions",
        lambda: client.query_graphql(_STATES)["repositoryOrError"].get("schedules") and client.query_graphql(_STATES),
    )
    found = states["repositoryOrError"]
    (nightly,) = (s for s in found["schedules"] if s["name"] == "nightly_rebuild")
    assert nightly["scheduleState"]["status"] == "RUNNING"
    assert (nightly["cronSchedule"], nightly["executionTimezone"]) == ("* * * * *", "Europe/Berlin")
    sensors = {s["name"]: s["sensorState"]["status"] for s in found["sensors"]}
    assert sensors["changed_folders"] == "RUNNING"
    build = wait_for("a published build", lambda: published(home))
    assert build.manifest.memories == 5
    wait_for(
        "the end of both runs",
        lambda: {("build_collection", "SUCCESS"), ("publish_build", "SUCCESS")}
        <= {(r["jobName"], r["status"]) for r in client.query_graphql(_RUNS)["runsOrError"]["results"]},
    )
    assert make_plan(home, None).nothing_to_do
    assert len(processes_of(home)) >= 3
    client.server.send_signal(signal.SIGTERM)
    assert client.server.wait(60) == 0
    assert processes_of(home) == []
