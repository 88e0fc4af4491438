"""The service of a home as a process in the background: started and waited for, looked at, stopped."""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil
from filelock import FileLock, Timeout

from palimpsest.core.configuration.layers import FILES_VARIABLE, missing
from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.json_types import JsonObject
from palimpsest.core.processes import process_started
from palimpsest.instances.bounded_log import BoundedLog
from palimpsest.instances.service_record import ServiceRecord, read_record, remove_record, write_record
from palimpsest.query.open_backend import published_or_fail
from palimpsest.serve.settings import JWKS, PUBLIC_KEY, SECRET, serve_settings
from palimpsest.store.home import Home, home_option
from palimpsest.store.service_files import LOG, OLDER_LOG, make_service_folder, service_folder

HOST = "127.0.0.1"
"""The only address: others are reached through a reverse proxy, or by `palimpsest serve --host` in a container."""
State = Literal["running", "not ready", "ended", "stopped"]
_START_S = 120.0
_STOP_S = 30.0
_POLL_S = 0.1
_PROBE_S = 5.0
_MAX_TAIL_BYTES = 256 * 1024


@dataclass(frozen=True)
class ServiceStatus:
    """How the service of a home is.

    Attributes:
        state: `running` and it answers; `not ready`: it runs and does not; `ended`: it was started and not stopped, and
            does not run any more; `stopped`.
        record: of the service that was started last and not stopped.
        build_id: the build that answers.
    """

    state: State
    record: ServiceRecord | None = None
    build_id: str | None = None

    def to_json(self) -> JsonObject:
        """Returns the fields as JSON values."""
        r = self.record
        found: JsonObject = {"state": self.state, "build_id": self.build_id}
        names = ("pid", "url", "port", "backend")
        return found | {name: None if r is None else getattr(r, name) for name in names}


def start_service(home: Home, port: int, backend: str, wait_s: float = _START_S) -> ServiceStatus:
    """Starts the service of a home unless it runs, waits until it is ready, and returns where it answers.

    Args:
        home: the home.
        port: of the loopback address; 0 means any free one.
        backend: duckdb or neo4j.
        wait_s: seconds to wait.

    Raises:
        PalimpsestError: a setting is missing or wrong.
        ComponentFailed: it did not come up: the home is damaged or has no published build, the port is in use, or a
            server does not answer. The message has the reason, and nothing is left running.
    """
    _check_settings()
    try:
        published_or_fail(home.path)  # before anything is written into a folder that need not be a home
    except PalimpsestError as e:
        raise ComponentFailed(f"service: did not start: {e}") from None
    with _start_lock(home, wait_s):
        before = service_status(home)
        if before.state == "running":
            return before
        if before.state == "not ready":
            raise ComponentFailed(
                f"service: process {before.record.pid if before.record else '?'} runs and is not ready; look at "
                f"palimpsest service logs{home_option(home)}, or stop it"
            )
        remove_record(home.path)
        log = service_folder(home.path) / LOG
        begin = log.stat().st_size if log.exists() else 0
        process = _launch(home, port, backend)
        try:
            return _wait_until_ready(home, process, wait_s)
        except BaseException as e:
            _end(process.pid, process_started(process.pid), _STOP_S)
            remove_record(home.path)
            if isinstance(e, ComponentFailed):
                raise ComponentFailed(f"service: {e}: {_reason(log, begin)}") from None
            raise


def stop_service(home: Home, wait_s: float = _STOP_S) -> bool:
    """Stops the service of a home, requests under way first, and returns whether it ran."""
    if not service_folder(home.path).is_dir():
        return False
    with _start_lock(home, wait_s):
        record = read_record(home.path)
        ran = record is not None and record.is_running
        if record is not None and ran:
            _end(record.pid, record.started, wait_s)
        remove_record(home.path)
    return ran


def service_status(home: Home) -> ServiceStatus:
    """Returns how the service of a home is, by asking it.

    Raises:
        DamagedFile: its record is damaged.
    """
    record = read_record(home.path)
    if record is None:
        return ServiceStatus("stopped")
    if not record.is_running:
        return ServiceStatus("ended", record)
    build_id = _ready_build(record)
    return ServiceStatus("not ready" if build_id is None else "running", record, build_id)


def service_log(home: Home, lines: int) -> list[str]:
    """Returns the last lines of the service's log."""
    found: list[str] = []
    for name in (OLDER_LOG, LOG):
        path = service_folder(home.path) / name
        if path.is_file() and not path.is_symlink():
            found += _tail(path, 0).splitlines()
    return found[-lines:]


def run_service(home: Home, port: int, backend: str) -> None:
    """Serves a home in this process until it is stopped, and writes what it prints into the home's log."""
    from palimpsest.serve.run_server import run_server

    BoundedLog(make_service_folder(home.path) / LOG).start()

    def record(listening_port: int) -> None:
        started = process_started(os.getpid()) or ""
        write_record(home.path, ServiceRecord(os.getpid(), started, HOST, listening_port, backend))

    run_server(home, backend, HOST, port, on_listening=record)


def _check_settings() -> None:
    """Checks what can be checked before a process is started.

    Raises:
        PalimpsestError: a setting is missing or wrong.
    """
    if not any(os.environ.get(variable, "").strip() for variable in (SECRET, PUBLIC_KEY, JWKS)):
        problem: PalimpsestError = missing("service.jwt_secret", "service.jwt_public_key", "service.jwks_url")
        raise problem
    serve_settings()


@contextmanager
def _start_lock(home: Home, wait_s: float) -> Iterator[None]:
    """Keeps a second start or stop out.

    Raises:
        ComponentFailed: another one takes longer than `wait_s`.
    """
    lock = FileLock(make_service_folder(home.path) / ".start.lock", timeout=wait_s + _STOP_S, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        raise ComponentFailed(f"service of {home.path}: another command is starting or stopping it") from None
    try:
        yield
    finally:
        lock.release()


def _launch(home: Home, port: int, backend: str) -> subprocess.Popen[bytes]:
    path = str(home.path.resolve())
    options = ["--home", path, "--port", str(port), "--backend", backend]
    # What is written before the process has opened its log: an error of the interpreter, or of an import.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    log = os.open(service_folder(home.path) / LOG, flags, 0o600)
    try:
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "palimpsest.cli.main", "service", "run", *options],
            # The settings of this command, from whichever layer; not those of the folder that the service runs in.
            env=os.environ | {FILES_VARIABLE: "off"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)


def _wait_until_ready(home: Home, process: subprocess.Popen[bytes], wait_s: float) -> ServiceStatus:
    """Returns once the service of a process is ready.

    Raises:
        ComponentFailed: the process ended, or is not ready in time.
    """
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        if process.poll() is not None:
            raise ComponentFailed("did not start")
        record = read_record(home.path)
        if record is not None and record.pid == process.pid and (build := _ready_build(record)) is not None:
            return ServiceStatus("running", record, build)
        time.sleep(_POLL_S)
    raise ComponentFailed(f"was not ready in {wait_s:.0f} s")


def _ready_build(record: ServiceRecord) -> str | None:
    """Returns the build that a service answers from; None where it does not answer, or cannot."""
    connection = http.client.HTTPConnection(record.host, record.port, timeout=_PROBE_S)
    try:
        connection.request("GET", "/ready")
        response = connection.getresponse()
        found = json.loads(response.read(64 * 1024))
        return str(found["build_id"]) if response.status == http.HTTPStatus.OK else None
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
        return None
    finally:
        connection.close()


def _end(pid: int, started: str | None, wait_s: float) -> None:
    """Ends a process: it may finish its requests, and is killed after `wait_s`; never another one with its id."""
    with suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
        process = psutil.Process(pid)
        if started is None or process_started(pid) != started:
            return
        process.terminate()
        try:
            process.wait(wait_s)
        except psutil.TimeoutExpired:
            if process_started(pid) == started:
                process.kill()
                process.wait(_STOP_S)


def _reason(log: Path, begin: int) -> str:
    """Returns why a service ended: the last line that it wrote."""
    lines = [line for line in _tail(log, begin).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("palimpsest: ")] or lines
    return errors[-1].removeprefix("palimpsest: ").strip() if errors else f"see {log}"


def _tail(path: Path, begin: int) -> str:
    with path.open("rb") as f:
        f.seek(max(begin, path.stat().st_size - _MAX_TAIL_BYTES))
        return f.read(_MAX_TAIL_BYTES).decode("utf-8", "replace")
