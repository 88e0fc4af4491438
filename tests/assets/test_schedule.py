"""The nightly schedule on a real daemon and webserver: switched on by GraphQL, a tick publishes a build."""

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

from palimpsest.build import make_plan
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from tests.small_corpus import write_chats

_WAIT_S = 300
_START = """mutation($s: ScheduleSelector!) { startSchedule(scheduleSelector: $s) {
  __typename ... on ScheduleStateResult { scheduleState { status } } ... on PythonError { message } } }"""
_RUNS = "{ runsOrError { ... on Runs { results { jobName status tags { key value } } } } }"
_SELECTOR = {
    "repositoryName": "__repository__",
    "repositoryLocationName": "palimpsest.definitions",
    "scheduleName": "nightly_rebuild",
}


class Ui:
    def __init__(self, port: int):
        self.url = f"http://127.0.0.1:{port}/graphql"

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
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
    environment = os.environ | {"PALIMPSEST_CRON": "* * * * *"}
    log = (tmp_path / "dev.log").open("w")
    server = subprocess.Popen(
        [palimpsest, "dev", "--home", home.path, "--port", str(port)],
        env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        yield Ui(port), home
    except BaseException:
        print((tmp_path / "dev.log").read_text()[-5000:])
        raise
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
        log.close()


def test_a_tick_of_the_schedule_publishes_a_build(ui):
    client, home = ui
    wait_for("the UI", lambda: client.ask("{ version }"))
    started = wait_for("the schedule", lambda: client.ask(_START, s=_SELECTOR)["startSchedule"])
    assert started["__typename"] == "ScheduleStateResult", started
    assert started["scheduleState"]["status"] == "RUNNING"
    build = wait_for("a published build", lambda: published(home))
    assert build.manifest["memories"] == 5
    wait_for(
        "the end of both runs",
        lambda: {("build_collection", "SUCCESS"), ("publish_build", "SUCCESS")}
        <= {(r["jobName"], r["status"]) for r in client.ask(_RUNS)["runsOrError"]["results"]},
    )
    assert make_plan(home, None).nothing_to_do
