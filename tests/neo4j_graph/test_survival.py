"""Twenty loads, each with a fault of its own at a moment of its own; what is served afterwards is what should be."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from palimpsest.neo4j_graph.connect import connect
from palimpsest.neo4j_graph.local_server import ServerInfo, start_server, stop_server
from palimpsest.neo4j_graph.published_graph import check_graph
from tests.neo4j_graph.made import empty_homes, fresh_home, make, shown

ROOT = Path(__file__).resolve().parents[2]
FAULTS = ("loader killed", "server killed", "server stopped", "two at once")
BUILDS = (
    {"count": 1200, "edited": [2, 3]},
    {"count": 1230, "edited": [3, 4, 50], "windows": 20},
    {"count": 1200, "mark": "other"},
)


def loading(folder: Path, which: int, home: str, info: ServerInfo) -> subprocess.Popen[bytes]:
    arguments = [folder, f"00000{which}", home, info.uri, info.password, json.dumps(BUILDS[which])]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.neo4j_graph.loader", *map(str, arguments)],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


@pytest.mark.slow
def test_twenty_loads_with_a_fault_each_all_end_as_loads_without_one(server, server_folder, tmp_path):
    pick, home = random.Random(11), fresh_home()
    made = [make(tmp_path / "b", f"00000{i}", **options) for i, options in enumerate(BUILDS)]
    expected = []
    for build in made:
        info = start_server(server_folder, heap="600m")
        with connect(info.uri, info.user, info.password) as connection:
            build.load(whole := fresh_home(), connection)
            expected.append(shown(connection, whole))
    interrupted = 0
    for number in range(20):
        info = start_server(server_folder, heap="600m")
        fault, which = FAULTS[number % len(FAULTS)], pick.randrange(len(BUILDS))
        loader = loading(tmp_path / f"f{number}", which, home, info)
        time.sleep(pick.uniform(1.5, 4.5))
        if fault == "loader killed":
            loader.send_signal(signal.SIGKILL)
        elif fault == "server killed" and info.pid is not None:
            os.kill(info.pid, signal.SIGKILL)
        elif fault == "server stopped":
            stop_server(server_folder)
        else:
            other = loading(tmp_path / f"g{number}", which, home, info)
            assert {other.wait(200), loader.poll()} & {0, 1, None}
        interrupted += loader.wait(200) != 0
        info = start_server(server_folder, heap="600m")
        with connect(info.uri, info.user, info.password) as connection:
            made[which].load(home, connection)
            assert shown(connection, home) == expected[which], (number, fault)
            assert check_graph(connection, home) == [], (number, fault)
    sys.stderr.write(f"20 loads survived, {interrupted} of them cut short\n")
    assert interrupted >= 8
    with connect(info.uri, info.user, info.password) as connection:
        empty_homes(connection)
