"""`palimpsest dev` prints where it listens and little else, and ends with all of its processes at a signal."""

import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.orchestration import dev_server
from palimpsest.orchestration.dev_server import run_group, serve_ui
from palimpsest.store.home import Home
from tests.orchestration.dev import processes_of, wait_for
from tests.orchestration.jobs import new_home
from tests.small_corpus import write_chats

# A child and a grandchild that ignore SIGTERM, as a run in the middle of a computation does.
_STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) < 2:
    subprocess.Popen([sys.executable, __file__, "grandchild"])
print("runs", flush=True)
time.sleep(300)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_group_that_ignores_it(tmp_path, number):
    script, log = tmp_path / "stubborn.py", tmp_path / "log"
    script.write_text(_STUBBORN)
    started: list[float] = []

    def stop_when_both_run() -> None:
        if not started and log.read_text().count("runs") == 2:
            started.append(time.monotonic())
            signal.raise_signal(number)

    assert run_group([sys.executable, str(script)], {"PALIMPSEST_HOME": str(tmp_path)}, log, stop_when_both_run) == 0
    assert processes_of(Home(tmp_path)) == {}


def test_a_port_in_use_and_an_end_of_dagster_itself_are_one_line_each(tmp_path, monkeypatch):
    home = Home(tmp_path / "home")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PalimpsestError, match=f"127.0.0.1:{port}: Address already in use") as raised:
            serve_ui(home, port)
    assert raised.value.exit_code == 2 and not home.path.exists()
    monkeypatch.setattr(dev_server, "run_group", lambda *_: 7)
    with pytest.raises(ComponentFailed, match=r"exit code 7; .*/\.service/dev\.log says why"):
        serve_ui(home, port)


@pytest.mark.slow
def test_dev_prints_its_address_and_each_signal_ends_it_with_all_of_its_processes(tmp_path):
    home = new_home(tmp_path / "home", write_chats(tmp_path / "corpus"))
    for number in (signal.SIGINT, signal.SIGTERM):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [Path(sys.executable).with_name("palimpsest"), "dev", "--home", home.path, "--port", str(port)]
        with (tmp_path / "out").open("w") as out:
            dev = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=tmp_path)
        wait_for("the address", lambda: "Ctrl-C stops it" in (tmp_path / "out").read_text())
        dev.send_signal(number)
        assert dev.wait(30) == 0 and processes_of(home) == {}
        lines = (tmp_path / "out").read_text().splitlines()
        assert len(lines) == 4 and lines[1] == f"Dagster UI: http://127.0.0.1:{port}"
        assert re.fullmatch(r"Dagster's log: .*/\.service/dev\.log", lines[2])
