"""The Neo4j server of the peers: empty before each process, and measured in memory and on disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from palimpsest.neo4j_graph.server.local_server import remove_server, start_server, stop_server
from palimpsest_eval.peers.neo4j_database import empty_database
from palimpsest_eval.peers.peer import Neo4jLogin, folder_bytes

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
