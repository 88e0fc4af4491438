"""The service of a home in the background and, beside it, its nightly builds."""

import os
import socket

from palimpsest.cli.processes import (
    BUILDS,
    HOST,
    SERVICE,
    START_S,
    BoundedLog,
    Component,
    ProcessRecord,
    ProcessStatus,
    log_path,
    start,
    write_record,
)
from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.parallel import process_started
from palimpsest.core.setting_layers import missing
from palimpsest.query.reader import published_or_fail
from palimpsest.serve.settings import JWKS, PUBLIC_KEY, SECRET, serve_settings
from palimpsest.store.home import Home, make_service_folder


def start_service(home: Home, port: int, backend: str, wait_s: float = START_S) -> ProcessStatus:
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
    return start(home, SERVICE, port, backend, wait_s)


def start_builds(home: Home, wait_s: float = START_S) -> ProcessStatus:
    """Starts the schedule and the Dagster UI of a home in the background, on any free port, unless they run.

    Raises:
        PalimpsestError: there is no home.
        ComponentFailed: they did not come up.
    """
    published_or_fail(home.path)
    return start(home, BUILDS, 0, "duckdb", wait_s)


def run_component(home: Home, component: Component, port: int, backend: str) -> None:
    """Runs a component in this process until it is stopped, and writes what it prints into the home's log.

    Raises:
        SystemExit: the builds ended.
    """
    make_service_folder(home.path)
    BoundedLog(log_path(home, component)).start()

    def record(listening_port: int) -> None:
        started = process_started(os.getpid()) or ""
        write_record(home.path, component.name, ProcessRecord(os.getpid(), started, HOST, listening_port, backend))

    if component == BUILDS:
        from palimpsest.orchestration.dev_server import serve_ui

        port = port or _free_port()
        record(port)
        raise SystemExit(serve_ui(home, port, HOST))
    from palimpsest.serve.run_server import run_server

    run_server(home, backend, HOST, port, on_listening=record)


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as listening:
        return int(listening.getsockname()[1])


def _check_settings() -> None:
    """Checks what can be checked before a process is started.

    Raises:
        PalimpsestError: a setting is missing or wrong.
    """
    if not any(os.environ.get(variable, "").strip() for variable in (SECRET, PUBLIC_KEY, JWKS)):
        problem: PalimpsestError = missing("service.jwt_secret", "service.jwt_public_key", "service.jwks_url")
        raise problem
    serve_settings()
