"""Processes in the background for a home: started and waited for, looked at, stopped."""

import atexit
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import psutil
from filelock import FileLock, Timeout

from palimpsest.core.errors import ComponentFailed, DamagedFile
from palimpsest.core.files import read_sealed_json, write_sealed_json
from palimpsest.core.ids import JsonObject
from palimpsest.core.parallel import process_started
from palimpsest.core.setting_layers import FILES_VARIABLE
from palimpsest.query.reader import published_or_fail
from palimpsest.serve.settings import USUAL_BUILDS, BuildTerms, make_secret, serve_settings
from palimpsest.store.home import OLDER, Home, home_option, make_service_folder, service_folder

# Sends what this process and its children print to a file that does not grow without end.

MAX_BYTES = 4 * 2**20
_LOOK_S = 5.0
_STDOUT, _STDERR = 1, 2


class BoundedLog(threading.Thread):
    """Points stdout and stderr of this process at a file; a full one is moved to `NAME.1`, of which one is kept.

    The descriptors themselves are pointed there, so that it also gets what C code and child processes write. A full
    file is copied and emptied, not renamed: children go on writing to it. A log that was removed is made again.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES):
        super().__init__(name="log", daemon=True)
        self._path, self._max_bytes, self._ended = path, max_bytes, threading.Event()
        self._open()
        # A thread that is still there when the interpreter ends keeps modules: DuckDB lists them as leaks.
        atexit.register(self.end)

    def run(self) -> None:
        """Looks at the size of the file until the process ends."""
        while not self._ended.wait(_LOOK_S):
            self.look()

    def end(self) -> None:
        """Ends the thread; the file stays where stdout and stderr go."""
        self._ended.set()
        if self.is_alive():
            self.join()

    def look(self) -> None:
        """Empties the file where it is full, and makes it where it is gone."""
        written = os.fstat(_STDERR)
        try:
            is_there = os.path.samestat(self._path.lstat(), written)
        except OSError:
            is_there = False
        if not is_there:
            self._open()
        elif written.st_size > self._max_bytes:
            older = self._path.with_name(f"{self._path.name}{OLDER}")
            aside = older.with_name(f".{older.name}.tmp")
            aside.unlink(missing_ok=True)
            with self._path.open("rb") as source, os.fdopen(_create(aside), "wb") as target:
                shutil.copyfileobj(source, target)
            aside.replace(older)
            os.truncate(_STDERR, 0)

    def _open(self) -> None:
        descriptor = open_log(self._path)
        for target in (_STDOUT, _STDERR):
            os.dup2(descriptor, target)
        os.close(descriptor)


def open_log(path: Path) -> int:
    """Returns a descriptor that appends to a log, which is its owner's alone; a link is not followed."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


# Which process runs in the background for a home: its id with the time of its start, and where it listens.

_FIX = "stop the process by its id, if it runs, and remove the file"


@dataclass(frozen=True)
class ProcessRecord:
    """A process as it was started.

    Attributes:
        pid: its process id.
        started: when that process began; another process may get its id later.
        host: where it listens.
        port: where it listens.
        backend: duckdb or neo4j.
        build_every: minutes from build to build; None where it was not named.
        max_cost: of each of these builds; None where it was not named.
    """

    pid: int
    started: str
    host: str
    port: int
    backend: str
    build_every: float | None = None
    max_cost: float | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{self.host}:{self.port}"

    @property
    def is_running(self) -> bool:
        """Whether that very process still runs."""
        return process_started(self.pid) == self.started


def write_record(home: Path, name: str, record: ProcessRecord) -> None:
    """Writes the record of a component of a home."""
    path = record_path(home, name)
    write_sealed_json(path, asdict(record))
    path.chmod(0o600)


def read_record(home: Path, name: str) -> ProcessRecord | None:
    """Returns the record of a component of a home; None where it was stopped, or never started.

    Raises:
        DamagedFile: the record is damaged, or a link.
    """
    path = record_path(home, name)
    if path.is_symlink() or path.parent.is_symlink():
        raise DamagedFile(path, _FIX)
    if (found := read_sealed_json(path, _FIX)) is None:
        return None
    try:
        return ProcessRecord(
            int(str(found["pid"])),
            str(found["started"]),
            str(found["host"]),
            int(str(found["port"])),
            str(found["backend"]),
            *(None if (v := found.get(name)) is None else float(str(v)) for name in ("build_every", "max_cost")),
        )
    except (LookupError, TypeError, ValueError):
        raise DamagedFile(path, _FIX) from None


def remove_record(home: Path, name: str) -> None:
    """Removes the record of a component of a home."""
    record_path(home, name).unlink(missing_ok=True)


def record_path(home: Path, name: str) -> Path:
    """Returns the file of the record of a component of a home."""
    return service_folder(home) / f"{name}.json"


HOST = "127.0.0.1"
"""The only address: others are reached through a reverse proxy, or by `palimpsest serve --host` in a container."""
State = Literal["running", "not ready", "ended", "stopped"]
START_S = 180.0
_STOP_S = 30.0
_POLL_S = 0.1
_PROBE_S = 5.0
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_MAX_TAIL_BYTES = 256 * 1024


@dataclass(frozen=True)
class Component:
    """A kind of process that runs for a home.

    Attributes:
        name: of it, and of its record and log.
        ready_path: what answers with status 200 where it can do its work.
        answer_key: of the answer that says what answers.
    """

    name: str
    ready_path: str
    answer_key: str


SERVICE = Component("service", "/ready", "build_id")
BUILDS = Component("builds", "/server_info", "dagster_version")


@dataclass(frozen=True)
class ProcessStatus:
    """How a component of a home is.

    Attributes:
        state: `running` and it answers; `not ready`: it runs and does not; `ended`: it was started and not stopped, and
            does not run any more; `stopped`.
        record: of the process that was started last and not stopped.
        answer: what answers: of the service the build.
    """

    state: State
    record: ProcessRecord | None = None
    answer: str | None = None

    def to_json(self) -> JsonObject:
        """Returns the fields as JSON values."""
        r = self.record
        found: JsonObject = {"state": self.state}
        names = ("pid", "url", "port", "backend")
        return found | {name: None if r is None else getattr(r, name) for name in names}


def start(
    home: Home,
    component: Component,
    port: int,
    backend: str,
    wait_s: float = START_S,
    builds: BuildTerms = USUAL_BUILDS,
) -> ProcessStatus:
    """Starts a component of a home unless it runs, waits until it is ready, and returns where it answers.

    Raises:
        ComponentFailed: it did not come up. The message has the reason, and nothing is left running.
    """
    with _start_lock(home, component, wait_s):
        before = status(home, component)
        if before.state == "running":
            return before
        if before.state == "not ready" and before.record:
            raise ComponentFailed(
                f"{component.name}: process {before.record.pid} runs and is not ready; look at its log "
                f"({log_path(home, component)}), or palimpsest service stop{home_option(home)}"
            )
        remove_record(home.path, component.name)
        log = log_path(home, component)
        begin = log.stat().st_size if log.exists() else 0
        process = _launch(home, component, port, backend, builds)
        try:
            return _wait_until_ready(home, component, process, wait_s)
        except BaseException as e:
            _end(process.pid, process_started(process.pid), _STOP_S)
            remove_record(home.path, component.name)
            if isinstance(e, ComponentFailed):
                raise ComponentFailed(f"{component.name}: {e}: {_reason(log, begin)}") from None
            raise


def stop(home: Home, component: Component, wait_s: float = _STOP_S) -> bool:
    """Stops a component of a home, what it is doing first, and returns whether it ran."""
    if not service_folder(home.path).is_dir():
        return False
    with _start_lock(home, component, wait_s):
        record = read_record(home.path, component.name)
        ran = record is not None and record.is_running
        if record is not None and ran:
            _end(record.pid, record.started, wait_s)
        remove_record(home.path, component.name)
    return ran


def status(home: Home, component: Component) -> ProcessStatus:
    """Returns how a component of a home is, by asking it.

    Raises:
        DamagedFile: its record is damaged.
    """
    record = read_record(home.path, component.name)
    if record is None:
        return ProcessStatus("stopped")
    if not record.is_running:
        return ProcessStatus("ended", record)
    answer = _answer(record, component)
    return ProcessStatus("not ready" if answer is None else "running", record, answer)


def log_lines(home: Home, component: Component, lines: int) -> list[str]:
    """Returns the last lines of a component's log, without the codes that colour them at a terminal."""
    log = log_path(home, component)
    found: list[str] = []
    for path in (log.with_name(f"{log.name}{OLDER}"), log):
        if path.is_file() and not path.is_symlink():
            found += _tail(path, 0).splitlines()
    return [_COLOUR.sub("", line) for line in found[-lines:]]


def log_path(home: Home, component: Component) -> Path:
    """Returns the log of a component of a home."""
    return service_folder(home.path) / f"{component.name}.log"


@contextmanager
def _start_lock(home: Home, component: Component, wait_s: float) -> Iterator[None]:
    """Keeps a second start or stop out.

    Raises:
        ComponentFailed: another one takes longer than `wait_s`.
    """
    folder = make_service_folder(home.path)
    lock = FileLock(folder / f".{component.name}.lock", timeout=wait_s + _STOP_S, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        raise ComponentFailed(f"{component.name} of {home.path}: another command is starting or stopping it") from None
    try:
        yield
    finally:
        lock.release()


def _launch(home: Home, component: Component, port: int, backend: str, builds: BuildTerms) -> subprocess.Popen[bytes]:
    path = str(home.path.resolve())
    options = ["--home", path, "--port", str(port), "--backend", backend, "--component", component.name]
    named = {"--build-every": builds.every_minutes, "--max-cost": builds.max_cost}
    options += [text for name, value in named.items() if value is not None for text in (name, str(value))]
    # What is written before the process has opened its log: an error of the interpreter, or of an import.
    log = open_log(log_path(home, component))
    try:
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "palimpsest.cli.main", "service", "run", *options],
            # The settings of this command, from whichever layer; not those of the folder that the process runs in.
            env=os.environ | {FILES_VARIABLE: "off"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)


def _wait_until_ready(
    home: Home, component: Component, process: subprocess.Popen[bytes], wait_s: float
) -> ProcessStatus:
    """Returns once the component of a process is ready.

    Raises:
        ComponentFailed: the process ended, or is not ready in time.
    """
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        if process.poll() is not None:
            raise ComponentFailed("did not start")
        record = read_record(home.path, component.name)
        if record is not None and record.pid == process.pid and (answer := _answer(record, component)) is not None:
            return ProcessStatus("running", record, answer)
        time.sleep(_POLL_S)
    raise ComponentFailed(f"was not ready in {wait_s:.0f} s")


def _answer(record: ProcessRecord, component: Component) -> str | None:
    """Returns what answers; None where nothing does, or it cannot do its work."""
    connection = http.client.HTTPConnection(record.host, record.port, timeout=_PROBE_S)
    try:
        connection.request("GET", component.ready_path)
        response = connection.getresponse()
        found = json.loads(response.read(64 * 1024))
        return str(found[component.answer_key]) if response.status == http.HTTPStatus.OK else None
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
    """Returns why a process ended: the last line that it wrote."""
    lines = [line for line in _tail(log, begin).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("palimpsest: ")] or lines
    return errors[-1].removeprefix("palimpsest: ").strip() if errors else f"see {log}"


def _tail(path: Path, begin: int) -> str:
    with path.open("rb") as f:
        f.seek(max(begin, path.stat().st_size - _MAX_TAIL_BYTES))
        return f.read(_MAX_TAIL_BYTES).decode("utf-8", "replace")


# The service of a home in the background and, beside it, its nightly builds.


def start_service(
    home: Home, port: int, backend: str, wait_s: float = START_S, builds: BuildTerms = USUAL_BUILDS
) -> ProcessStatus:
    """Starts the service of a home unless it runs, waits until it is ready, and returns where it answers.

    Args:
        home: the home.
        port: of the loopback address; 0 means any free one.
        backend: duckdb or neo4j.
        wait_s: seconds to wait.
        builds: that it runs.

    Raises:
        PalimpsestError: a setting is wrong, or the folder has other files and is no home.
        ComponentFailed: it did not come up: the home is damaged, the port is in use, or a
            server does not answer. The message has the reason, and nothing is left running.
    """
    home.create_alone()  # before anything else is written into a folder that need not be one
    serve_settings(partial(make_secret, home.path))
    return start(home, SERVICE, port, backend, wait_s, builds)


def start_builds(home: Home, wait_s: float = START_S) -> ProcessStatus:
    """Starts the schedule and the Dagster UI of a home in the background, on any free port, unless they run.

    Raises:
        PalimpsestError: there is no home.
        ComponentFailed: they did not come up.
    """
    published_or_fail(home.path)
    return start(home, BUILDS, 0, "duckdb", wait_s)


def run_component(home: Home, component: Component, port: int, backend: str, builds: BuildTerms = USUAL_BUILDS) -> None:
    """Runs a component in this process until it is stopped, and writes what it prints into the home's log."""
    make_service_folder(home.path)
    BoundedLog(log_path(home, component)).start()

    def record(listening_port: int) -> None:
        started = process_started(os.getpid()) or ""
        found = ProcessRecord(os.getpid(), started, HOST, listening_port, backend, *builds)
        write_record(home.path, component.name, found)

    if component == BUILDS:
        from palimpsest.orchestration.dev_server import serve_ui

        port = port or _free_port()
        record(port)
        serve_ui(home, port, HOST, verbose=True)
        return
    from palimpsest.serve.run_server import run_server

    run_server(home, backend, HOST, port, on_listening=record, builds=builds)


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as listening:
        return int(listening.getsockname()[1])
