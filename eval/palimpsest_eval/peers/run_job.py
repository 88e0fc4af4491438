"""Runs the process of one peer inside its time limit, with the server and the language model that it needs."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from neo4j.exceptions import DriverError

from palimpsest.core.errors import PalimpsestError
from palimpsest.neo4j_graph.local_server import remove_server, start_server, stop_server
from palimpsest_eval.peers.job import CorpusFiles, Job, JobResult, read_result
from palimpsest_eval.peers.neo4j_peer import empty_database
from palimpsest_eval.peers.peer import Neo4jLogin, folder_bytes
from palimpsest_eval.peers.registry import PeerInfo

if TYPE_CHECKING:
    from palimpsest_eval.testing.fake_lm_server import FakeLMServer, RequestCounts


# The Neo4j server of the peers: empty before each process, and measured in memory and on disk.

_STORE = Path("data") / "databases" / "neo4j"
_EMPTY_BYTES: dict[Path, int] = {}


@dataclass(frozen=True)
class PeerServer:
    """A running server, and its process."""

    login: Neo4jLogin
    pid: int

    def peak_mb(self) -> float:
        """Returns the most resident memory of the server since it was handed out, in MiB; 0 where it is not known."""
        status = Path(f"/proc/{self.pid}/status")
        lines = status.read_text().splitlines() if status.exists() else []
        return next((int(line.split()[1]) / 2**10 for line in lines if line.startswith("VmHWM:")), 0.0)

    def reset_peak(self) -> None:
        """Lets the kernel count the most resident memory from now on, where it can."""
        if (counts := Path(f"/proc/{self.pid}/clear_refs")).exists():
            counts.write_text("5")


@contextmanager
def peer_server(folder: Path | None, *, fresh: bool) -> Iterator[PeerServer | None]:
    """Yields the server of a folder, started and empty; None without a folder.

    Args:
        folder: where its files are.
        fresh: whether it starts from an empty folder: the space of what is deleted stays in the files of a store.
    """
    if folder is None:
        yield None
        return
    if fresh:
        remove_server(folder)
    info = start_server(folder)
    assert info.pid is not None
    server = PeerServer(Neo4jLogin(info.uri, info.user, info.password), info.pid)
    _empty(server.login)
    server.reset_peak()
    yield server


def stored_bytes(folder: Path) -> int:
    """Stops the server, so that it writes its files, and returns the bytes of the store above those of an empty one."""
    stop_server(folder)
    used = folder_bytes(folder / _STORE)
    if folder not in _EMPTY_BYTES:
        remove_server(folder)
        start_server(folder)
        stop_server(folder)
        _EMPTY_BYTES[folder] = folder_bytes(folder / _STORE)
    return used - _EMPTY_BYTES[folder]


def _empty(login: Neo4jLogin) -> None:
    import neo4j

    auth = (login.user, login.password)
    with neo4j.GraphDatabase.driver(login.uri, auth=auth, notifications_min_severity="OFF") as driver:
        empty_database(driver)


_QUIET = {
    "ANONYMIZED_TELEMETRY": "False",
    "GRAPHITI_TELEMETRY_ENABLED": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MEM0_TELEMETRY": "False",
    "OPENAI_API_KEY": "none",
}


@dataclass(frozen=True)
class LMUse:
    """Requests to the language model, and the words of prompts and answers."""

    calls: int = 0
    words_in: int = 0
    words_out: int = 0

    @classmethod
    def between(cls, before: "RequestCounts", after: "RequestCounts") -> "LMUse":
        """Returns what was counted since an earlier count."""
        return cls(
            after.requests - before.requests, after.tokens_in - before.tokens_in, after.tokens_out - before.tokens_out
        )


@dataclass(frozen=True)
class JobRun:
    """What one process did.

    Attributes:
        result: what it wrote.
        lm: calls of the language model.
        server_peak_mb: peak memory of the server, in MiB.
        server_disk_mb: what the files of its store grew by, in MiB; None where that was not measured.
    """

    result: JobResult
    lm: LMUse = LMUse()
    server_peak_mb: float | None = None
    server_disk_mb: float | None = None


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


def run_job(
    peer: PeerInfo,
    corpora: tuple[CorpusFiles, ...],
    place: Workplace,
    name: str,
    limit_s: float,
    *,
    measures_store: bool = False,
) -> JobRun:
    """Runs a peer over corpora in a process of its own; a server that fails is the error of this peer only.

    Args:
        peer: the peer.
        corpora: what it builds and searches.
        place: where.
        name: of the folder of this job.
        limit_s: seconds after which the process is ended; what it did until then is kept.
        measures_store: whether the server starts with an empty store, whose size is measured at the end.
    """
    folder = place.folder / name
    folder.mkdir(parents=True)
    python = peer.python(place.venvs) if peer.venv else Path(sys.executable)
    if not python.exists():
        return JobRun(JobResult(error=f"not installed: {peer.venv}"))
    server_folder = place.server if peer.needs_neo4j else None
    try:
        with peer_server(server_folder, fresh=measures_store) as server:
            login = server.login if server else None
            url = place.lm.url if peer.needs_lm else None
            Job(peer.module, folder / "data", corpora, neo4j=login, lm_url=url).write(folder / "job.json")
            before = replace(place.lm.counts)
            error = _run_process(python, folder, limit_s)
            calls = LMUse.between(before, place.lm.counts)
            peak = server.peak_mb() if server else None
        stored = stored_bytes(server_folder) / 2**20 if server_folder and measures_store else None
    except (PalimpsestError, DriverError) as e:
        return JobRun(JobResult(error=f"its server: {e}"))
    result = read_result(folder / "result.json")
    return JobRun(replace(result, error=error or result.error), calls, peak, stored)


def _run_process(python: Path, folder: Path, limit_s: float) -> str | None:
    """Returns why the process ended before its job was done, else None."""
    command = [str(python), "-m", "palimpsest_eval.peers.job", "job.json", "result.json"]
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
