"""`palimpsest dev`: runs a server and its child processes until it ends or is signalled; then none of them is left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from palimpsest.core.environment import whole_number
from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.files import say
from palimpsest.core.parallel import configured_runner
from palimpsest.orchestration.resources import executor_from_environment
from palimpsest.orchestration.schedule import AUTOMATION, first_month, schedule_from_environment
from palimpsest.pipeline.summary import overdue_hours
from palimpsest.store.home import Home

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


_STOP_WAIT_S = 15.0
_POLL_S = 0.1


def serve_ui(home: Home, port: int, host: str = "127.0.0.1") -> int:
    """Runs `dagster dev` on the home until it is stopped, in any folder; returns its exit code.

    SIGTERM and SIGINT stop all of its processes: web server, daemon, code server and running builds.

    Args:
        home: the home.
        port: to listen on.
        host: address to listen on. The UI has no login, and can start and delete runs.

    Raises:
        PalimpsestError: a variable of the schedule, of an executor or of a pool, or dagster.yaml, cannot be read.
        ComponentFailed: the database of Dagster's runs does not answer.
    """
    schedule = schedule_from_environment()
    # Mistakes in these are reported before anything starts: Dagster would serve a UI without definitions.
    first_month(), overdue_hours(), executor_from_environment(), configured_runner()
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
    return run_group(command, environment)


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


def run_group(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs a command in a new process group and waits; returns its exit code, 0 where a signal stopped it.

    A first SIGINT, SIGTERM or SIGHUP is passed to the whole group; what still runs after 15 seconds, or at a second
    signal, is killed.
    """
    stopping: list[int] = []
    with _on_signals(stopping):
        server = subprocess.Popen(command, env=dict(environment), start_new_session=True)  # noqa: S603
        try:
            while not stopping and server.poll() is None:
                _wait(server, _POLL_S)
            _signal_group(server.pid, signal.SIGTERM)
            waited = 0.0
            while waited < _STOP_WAIT_S and len(stopping) < 2 and _has_members(server.pid):
                _wait(server, _POLL_S)
                waited += _POLL_S
        finally:
            _signal_group(server.pid, signal.SIGKILL)
            code = server.wait()
    return 0 if stopping else code


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
