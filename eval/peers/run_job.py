"""Runs the process of one peer inside its time limit, with the server and the language model that it needs."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from palimpsest.eval.peers.job import CorpusFiles, Job, JobResult, read_result
from palimpsest.eval.peers.neo4j_database import empty_database
from palimpsest.eval.peers.peer import Neo4jLogin
from palimpsest.eval.peers.registry import PeerInfo

if TYPE_CHECKING:
    from palimpsest.eval.testing.fake_lm_server import FakeLMServer

_QUIET = {
    "ANONYMIZED_TELEMETRY": "False",
    "GRAPHITI_TELEMETRY_ENABLED": "false",
    "MEM0_TELEMETRY": "False",
    "OPENAI_API_KEY": "none",
}


@dataclass(frozen=True)
class JobRun:
    """The result of a process, the calls of the language model, and the peak memory of the server in MiB."""

    result: JobResult
    lm_calls: int = 0
    server_peak_mb: float | None = None


@dataclass(frozen=True)
class Workplace:
    """Where processes run.

    Attributes:
        folder: for what they store; emptied by nobody.
        venvs: the peers' environments.
        server: folder of the Neo4j server; None where no peer needs one.
        lm: the scripted language model.
    """

    folder: Path
    venvs: Path
    server: Path | None
    lm: "FakeLMServer"


def run_job(peer: PeerInfo, corpora: tuple[CorpusFiles, ...], place: Workplace, name: str, limit_s: float) -> JobRun:
    """Runs a peer over corpora in a process of its own.

    Args:
        peer: the peer.
        corpora: what it builds and searches.
        place: where.
        name: of the folder of this job.
        limit_s: seconds after which the process is ended; what it did until then is kept.
    """
    folder = place.folder / name
    folder.mkdir(parents=True)
    python = peer.python(place.venvs) if peer.venv else Path(sys.executable)
    if not python.exists():
        return JobRun(JobResult(error=f"not installed: {peer.venv}"))
    with _neo4j(place.server if peer.needs_neo4j else None) as server:
        login = server.login if server else None
        job = Job(peer.module, folder / "data", corpora, neo4j=login, lm_url=place.lm.url if peer.needs_lm else None)
        job.write(folder / "job.json")
        calls = place.lm.counts.requests
        error = _run_process(python, folder, limit_s)
        result = read_result(folder / "result.json")
        peak = server.peak_mb() if server else None
    return JobRun(replace(result, error=error or result.error), place.lm.counts.requests - calls, peak)


def _run_process(python: Path, folder: Path, limit_s: float) -> str | None:
    """Returns why the process ended before its job was done, else None."""
    command = [str(python), "-m", "palimpsest.eval.peers.peer_process", "job.json", "result.json"]
    with (folder / "log.txt").open("w", encoding="utf-8") as log:
        try:
            done = subprocess.run(  # noqa: S603
                command, cwd=folder, env=os.environ | _QUIET, stdout=log, stderr=log, timeout=limit_s, check=False
            )
        except subprocess.TimeoutExpired:
            return f"ended at its limit of {limit_s:.0f} s"
    if done.returncode == 0:
        return None
    lines = (folder / "log.txt").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"exit code {done.returncode}: {lines[-1][:300] if lines else 'no message'}"


@dataclass(frozen=True)
class _Server:
    login: Neo4jLogin
    pid: int

    def peak_mb(self) -> float:
        """Returns the most resident memory of the server since `_reset_peak`, in MiB; 0 where it is not known."""
        status = Path(f"/proc/{self.pid}/status")
        lines = status.read_text().splitlines() if status.exists() else []
        return next((int(line.split()[1]) / 2**10 for line in lines if line.startswith("VmHWM:")), 0.0)

    def reset_peak(self) -> None:
        """Lets the kernel count the most resident memory from now on, where it can."""
        if (counts := Path(f"/proc/{self.pid}/clear_refs")).exists():
            counts.write_text("5")


@contextmanager
def _neo4j(folder: Path | None) -> Iterator[_Server | None]:
    """Yields the server of a folder, started and empty; None without a folder."""
    if folder is None:
        yield None
        return
    from palimpsest.neo4j_graph.connect import connect
    from palimpsest.neo4j_graph.server.local_server import start_server

    info = start_server(folder)
    assert info.pid is not None
    with connect(info.uri, info.user, info.password) as connection:
        empty_database(connection.driver)
    server = _Server(Neo4jLogin(info.uri, info.user, info.password), info.pid)
    server.reset_peak()
    yield server
