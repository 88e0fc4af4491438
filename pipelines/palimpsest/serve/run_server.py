"""Runs the service with uvicorn."""

import os
import socket
from collections.abc import Callable

import uvicorn

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.open_backend import published_or_fail
from palimpsest.serve.app import create_app, make_service
from palimpsest.serve.connections import LimitedProtocol, allow_open_files
from palimpsest.serve.guard import MAX_HEADER_BYTES
from palimpsest.serve.mcp.server import create_stdio_mcp
from palimpsest.serve.open_reader import SharedReader
from palimpsest.serve.service_log import log_without_contents
from palimpsest.serve.settings import serve_settings
from palimpsest.serve.start_checks import check_start
from palimpsest.serve.tokens import BadToken, TokenVerifier
from palimpsest.store.home import Home

TOKEN = "PALIMPSEST_TOKEN"  # noqa: S105 (the name of a variable)
_BACKLOG = 1024
_CLOSE_S = 10


def run_server(
    home: Home, backend: str, host: str, port: int, on_listening: Callable[[int], None] | None = None
) -> None:
    """Serves a home until the process is stopped; one that could not answer is not served at all.

    Args:
        home: the home.
        backend: duckdb or neo4j.
        host: address to listen on.
        port: 0 means any free port.
        on_listening: gets the port as soon as it listens.

    Raises:
        PalimpsestError: no key for tokens is set, or nothing is published.
        ComponentFailed: the published build is damaged, or Neo4j does not answer.
    """
    settings = serve_settings()
    log_without_contents()
    check_start(home, backend)
    app = create_app(home, settings, backend, host)
    allow_open_files()
    config = uvicorn.Config(
        app,
        access_log=False,  # it would have the query strings
        backlog=_BACKLOG,
        http=LimitedProtocol,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        timeout_keep_alive=_CLOSE_S,
        timeout_graceful_shutdown=_CLOSE_S,
        server_header=False,
        log_config=None,
    )
    with _listen(host, port) as listening:
        actual_port = listening.getsockname()[1]
        print(f"serving home {home.path} at http://{host}:{actual_port}", flush=True)  # noqa: T201
        if on_listening is not None:
            on_listening(actual_port)
        uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens.

    Raises:
        PalimpsestError: the address cannot be used.
    """
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as e:
        raise PalimpsestError(f"--port {port}: {host}: {e.strerror}; choose another") from None


def run_stdio(home: Home, backend: str) -> None:
    """Speaks MCP over the pipes of this process, for the user of the token in `PALIMPSEST_TOKEN`.

    Raises:
        PalimpsestError: the token is not valid, no key for tokens is set, or nothing is published.
    """
    settings = serve_settings()
    try:
        identity = TokenVerifier(settings.tokens).verify(os.environ.get(TOKEN, ""))
    except BadToken as e:
        raise PalimpsestError(f"{TOKEN}: {e}; palimpsest serve token makes one") from None
    published_or_fail(home.path)
    log_without_contents()
    service = make_service(home, SharedReader(home.path, backend, settings.shared), settings)
    create_stdio_mcp(service, identity).run("stdio")
