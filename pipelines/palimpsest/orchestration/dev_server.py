"""`palimpsest dev`: runs a server and its child processes until it ends or is signalled; then none of them is left."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from palimpsest.core.environment import whole_number
from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.files import say
from palimpsest.core.parallel import configured_runner
from palimpsest.orchestration.resources import executor_from_environment
from palimpsest.orchestration.schedule import AUTOMATION, schedule_from_environment
from palimpsest.pipeline.summary import overdue_hours
from palimpsest.store.home import OLDER, Home, make_service_folder

if TYPE_CHECKING:
    import dagster as dg


# Dagster's own folder in a home: its settings, the limits of its pools, and the module that Dagster loads.

DEFINITIONS = "palimpsest.definitions"
"""The module that `dagster dev` loads: its location is named after it."""
_EARLIER_YAML = """\
# Everything Dagster keeps is next to this file. Runs of one home do not overlap: it has one writer.
telemetry:
  enabled: false
nux:
  enabled: false
concurrency:
  runs:
    max_concurrent_runs: 1
"""
_DAGSTER_YAML = f"""\
{_EARLIER_YAML}\
  pools:
    default_limit: 1
    granularity: run
# A run whose process dies is started again; what is wrong with an input stays wrong.
run_retries:
  enabled: true
  max_retries: 2
  retry_on_asset_or_op_failure: false
run_monitoring:
  enabled: true
  start_timeout_seconds: 600
  cancel_timeout_seconds: 180
freshness:
  enabled: true
"""
POOL_LIMITS = {"embedder": "PALIMPSEST_POOL_EMBEDDER", "lm": "PALIMPSEST_POOL_LM", "neo4j": "PALIMPSEST_POOL_NEO4J"}
"""The variable with the limit of each pool. The pool `home` has none: a home has one writer."""
_WRITERS = "home"


def write_dagster_yaml(home: Home) -> None:
    """Makes the home's DAGSTER_HOME with its settings; one that a person wrote or changed is left as it is."""
    path = home.dagster / "dagster.yaml"
    if not path.exists() or path.read_text() == _EARLIER_YAML:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_DAGSTER_YAML)


def set_pool_limits(instance: "dg.DagsterInstance") -> None:
    """Writes the limit of each pool: the environment's, else the default of dagster.yaml where a pool has none yet.

    Dagster itself writes a default only when a run of the pool is queued, too late for those queued with it.

    Raises:
        PalimpsestError: a variable is no whole number.
    """
    named = {p: whole_number(v) for p, v in POOL_LIMITS.items() if os.environ.get(v, "").strip()}
    for pool, limit in named.items():
        instance.event_log_storage.set_concurrency_slots(pool, limit)
    known = instance.event_log_storage.get_concurrency_keys()
    if instance.global_op_concurrency_default_limit is not None:
        for pool in {_WRITERS, *POOL_LIMITS} - known:
            instance.event_log_storage.initialize_concurrency_limit_to_default(pool)


LOG = "dev.log"
_STOP_WAIT_S = 3.0
_POLL_S = 0.1


def serve_ui(home: Home, port: int, host: str = "127.0.0.1", verbose: bool = False) -> None:
    """Runs `dagster dev` on the home until it is stopped, in any folder.

    SIGTERM and SIGINT stop all of its processes in a few seconds: web server, daemon, code server and running builds.

    Args:
        home: the home.
        port: to listen on.
        host: address to listen on. The UI has no login, and can start and delete runs.
        verbose: let Dagster write to stdout and stderr, instead of into `<home>/.service/dev.log`.

    Raises:
        PalimpsestError: a variable of the schedule, of an executor or of a pool, or dagster.yaml, cannot be read, or
            the port is in use.
        ComponentFailed: the database of Dagster's runs does not answer, or Dagster ended by itself.
    """
    schedule = schedule_from_environment()
    # Mistakes in these are reported before anything starts: Dagster would serve a UI without definitions.
    overdue_hours(), executor_from_environment(), configured_runner()
    _check_port(host, port)
    home.create()
    write_dagster_yaml(home)
    _set_pool_limits(home)
    state = "on" if schedule.on else f"off ({AUTOMATION})"
    say(f"nightly builds at {schedule.nightly} {schedule.timezone} and on changed folders: {state}")
    environment = os.environ | {
        "DAGSTER_HOME": str(home.dagster.resolve()),
        "PALIMPSEST_HOME": str(home.path.resolve()),
    }
    command = [sys.executable, "-m", "dagster", "dev", "-m", DEFINITIONS, "-h", host, "-p", str(port)]
    command += ["--log-level", "warning"]
    log = None if verbose else _new_log(home)
    code = run_group(command, environment, log, _announcement(host, port, log))
    if code:
        where = f"{log} says why" if log else "its output says why"
        raise ComponentFailed(f"Dagster ended with exit code {code}; {where}")


def _check_port(host: str, port: int) -> None:
    """Checks that nothing listens on a port.

    Raises:
        PalimpsestError: something does, or the address is not of this machine.
    """
    try:
        socket.create_server((host, port)).close()
    except OSError as e:
        raise PalimpsestError(f"{host}:{port}: {e.strerror or e}; choose another --port or --host") from None


def _new_log(home: Home) -> Path:
    """Returns the file of Dagster's log; the one of the run before is moved to `dev.log.1`."""
    path = make_service_folder(home.path) / LOG
    if path.exists():
        path.replace(path.with_name(f"{LOG}{OLDER}"))
    return path


def _announcement(host: str, port: int, log: Path | None) -> Callable[[], None]:
    """Returns a function that prints the address of the UI once, as soon as it answers."""
    address = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104
    lines = [f"Dagster UI: http://{address}:{port}", *([f"Dagster's log: {log}"] if log else []), "Ctrl-C stops it"]

    def announce() -> None:
        if not lines:
            return
        try:
            socket.create_connection((address, port), _POLL_S).close()
        except OSError:
            return
        for line in lines:
            say(line)
        lines.clear()

    return announce


def _set_pool_limits(home: Home) -> None:
    """Writes the limits of pools.

    Raises:
        PalimpsestError: dagster.yaml or a variable of a pool cannot be read.
        ComponentFailed: the database of Dagster's runs does not answer.
    """
    import dagster as dg  # takes two seconds
    from sqlalchemy.exc import DBAPIError

    where = home.dagster / "dagster.yaml"
    try:
        with dg.DagsterInstance.from_config(str(home.dagster.resolve())) as instance:
            set_pool_limits(instance)
    except dg.DagsterInvalidConfigError as e:
        raise PalimpsestError(f"{where}: {' '.join(str(e).split())[:200]}") from None
    except Exception as e:
        if isinstance(e, DBAPIError) or type(e).__name__ == "DagsterPostgresException":
            raise ComponentFailed(
                f"{where}: the database of Dagster's runs does not answer ({type(e).__name__})"
            ) from None
        raise


def run_group(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path | None = None,
    look: Callable[[], None] = lambda: None,
) -> int:
    """Runs a command in a new process group and waits; returns its exit code, 0 where a signal stopped it.

    A first SIGINT, SIGTERM or SIGHUP stops the whole group by SIGTERM; what still runs after 3 seconds, or at a second
    signal, is killed.

    Args:
        command: the program and its arguments.
        environment: its environment variables.
        log: file that gets its output; None where it writes to this process's.
        look: is called ten times a second while it runs.
    """
    stopping: list[int] = []
    with _on_signals(stopping), _output(log) as output:
        server = subprocess.Popen(  # noqa: S603
            command,
            env=dict(environment),
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            while not stopping and server.poll() is None:
                look()
                _wait(server, _POLL_S)
            _signal_group(server.pid, signal.SIGTERM)
            end = time.monotonic() + _STOP_WAIT_S
            while time.monotonic() < end and len(stopping) < 2 and _has_members(server.pid):
                _wait(server, _POLL_S)
        finally:
            _signal_group(server.pid, signal.SIGKILL)
            code, end = server.wait(), time.monotonic() + _STOP_WAIT_S
            while time.monotonic() < end and _has_members(server.pid):  # they end when the kernel comes to it
                time.sleep(_POLL_S)
    return 0 if stopping else code


@contextmanager
def _output(log: Path | None) -> Iterator[int | None]:
    """Yields the descriptor of a log that is its owner's alone; None where there is none."""
    if log is None:
        yield None
        return
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _wait(server: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        server.wait(seconds)
    except subprocess.TimeoutExpired:
        return
    time.sleep(seconds)  # it ended; its children may still run


@contextmanager
def _on_signals(stopping: list[int]) -> Iterator[None]:
    def record(number: int, _: FrameType | None) -> None:
        stopping.append(number)

    before = {s: signal.signal(s, record) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
