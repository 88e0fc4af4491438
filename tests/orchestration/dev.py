"""A real `palimpsest dev` on a home: web server, daemon and code server, driven over GraphQL as the UI does."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from palimpsest.store.home import Home

WAIT_S = 300
REPOSITORY = {"repositoryName": "__repository__", "repositoryLocationName": "palimpsest.definitions"}
_LOADED = """query($selector: RepositorySelector!) { repositoryOrError(repositorySelector: $selector) {
  ... on Repository { name } } }"""
_LAUNCH = """mutation($params: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $params) {
  ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""


class Ui:
    def __init__(self, port: int, server: subprocess.Popen[bytes]):
        self.server = server
        self.url = f"http://127.0.0.1:{port}/graphql"

    def query_graphql(self, query: str, **variables: Any) -> dict[str, Any]:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)["data"]

    def wait_until_loaded(self) -> None:
        found = "repositoryOrError"
        wait_for("the definitions", lambda: self.query_graphql(_LOADED, selector=REPOSITORY)[found].get("name"))

    def launch_backfill(self, **params: Any) -> str:
        """Launches a backfill as the UI does; returns its id."""
        answer = self.query_graphql(_LAUNCH, params=params)["launchPartitionBackfill"]
        return str(answer["backfillId"])


def wait_for(what: str, look: Callable[[], Any]) -> Any:
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        try:
            if found := look():
                return found
        except OSError:
            pass
        time.sleep(1)
    pytest.fail(f"{what} did not happen in {WAIT_S} s")


def processes_of(home: Home) -> dict[int, str]:
    """Ids and command lines of the running processes that were started for a home."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"PALIMPSEST_HOME={home.path}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
    return found


@contextmanager
def palimpsest_dev(home: Home, log: Path, **settings: str) -> Iterator[Ui]:
    """Runs `palimpsest dev` until the block ends; its log is printed where that fails."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    palimpsest = Path(sys.executable).with_name("palimpsest")
    with log.open("a") as out:
        server = subprocess.Popen(
            [palimpsest, "dev", "--home", home.path, "--port", str(port), "--verbose"],
            env=os.environ | settings,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
        )
        try:
            yield Ui(port, server)
        except BaseException:
            print(log.read_text()[-5000:])
            raise
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(60)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
                raise
