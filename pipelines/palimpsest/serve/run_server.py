"""Runs the service with uvicorn."""

import asyncio
import logging
import os
import resource
import socket
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from palimpsest.core.errors import ComponentFailed, DamagedFile, PalimpsestError
from palimpsest.query.reader import open_backend
from palimpsest.serve.app import create_app, make_service
from palimpsest.serve.guard import MAX_HEADER_BYTES, BadToken, TokenVerifier
from palimpsest.serve.mcp_server import create_stdio_mcp
from palimpsest.serve.open_reader import SharedReader
from palimpsest.serve.scheduled_builds import default_minutes
from palimpsest.serve.settings import is_loopback, make_secret, read_secret, serve_settings
from palimpsest.store.builds import published
from palimpsest.store.home import Home, home_option
from palimpsest.store.manifest import has_hash

# Connections of the service: one that sends no whole request keeps nobody else out.

HEADER_S = 5.0
"""Seconds in which the headers of a request must have come, once its connection is open or its first byte is there."""
MAX_WAITING = 256
"""Connections that have not sent the headers of a request; one more closes the oldest of the busiest address."""
MAX_IDLE = 512
"""Connections that are kept open between requests; one more closes the one that has been idle longest."""
_OPEN_FILES = 8192


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, in which connections wait for a request in bounded time and number.

    Requests are not counted here: they are limited by user, once their token is read.
    """

    _waiting: dict["LimitedProtocol", asyncio.TimerHandle] = {}  # noqa: RUF012 (of the process, as its connections are)
    _idle: dict["LimitedProtocol", None] = {}  # noqa: RUF012

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the wait."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Reads what came, and waits on where that is no whole request."""
        self._idle.pop(self, None)
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and self.conn.our_state is h11.IDLE:
            self._wait()
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Keeps the connection for a while, as one of a limited number."""
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._idle[self] = None
            if len(self._idle) > MAX_IDLE:
                next(iter(self._idle))._close()

    def _wait(self) -> None:
        if self in self._waiting or self.transport.is_closing():
            return
        self._waiting[self] = self.loop.call_later(HEADER_S, self._close)
        if len(self._waiting) > MAX_WAITING:
            busiest, _ = Counter(c._address for c in self._waiting).most_common(1)[0]
            next(c for c in self._waiting if c._address == busiest)._close()

    def _stop_waiting(self) -> None:
        self._idle.pop(self, None)
        if (timer := self._waiting.pop(self, None)) is not None:
            timer.cancel()

    def _close(self) -> None:
        self._stop_waiting()
        self.transport.close()

    @property
    def _address(self) -> Any:
        return self.client[0] if self.client else None


def allow_open_files() -> None:
    """Raises how many files this process may have open, as far as the system lets it: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


# The log of the service: what happened and where, and never what anybody wrote.
#
# Texts, questions, tokens and names reach a log through messages that are put together from them and through exceptions
# that quote what they could not use. So only our own log calls are written with their words, and their arguments are
# chosen; of every other call, and of every exception, the kind and the place in the code.

_OWN = "palimpsest"
_SAFE = (ComponentFailed, DamagedFile)
"""Errors about the home and its servers: their messages name files and addresses of who runs the service."""
_FRAMES = 12


class _Formatter(logging.Formatter):
    """One line for a record, then one for each frame of an exception and what it was raised from."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the lines."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        is_own = record.name.partition(".")[0] == _OWN
        what = record.getMessage() if is_own else f"{record.module}:{record.lineno}"
        error = record.exc_info[1] if record.exc_info else None
        return "\n".join([f"{stamp} {record.levelname} {record.name}: {what}", *(error_lines(error) if error else ())])


def error_lines(error: BaseException) -> list[str]:
    """Returns the kind and the place of an exception and of those that it was raised from, without their words."""
    lines: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        words = f": {current}" if isinstance(current, _SAFE) else ""
        lines.append(f"  {type(current).__module__}.{type(current).__qualname__}{words}")
        for frame in traceback.extract_tb(current.__traceback__)[-_FRAMES:]:
            lines.append(f"    {frame.filename}:{frame.lineno} {frame.name}")
        current = current.__cause__ or current.__context__
    return lines


def log_without_contents(level: int = logging.WARNING) -> None:
    """Writes every log record and every uncaught exception of this process to stderr as above."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter())
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # it would print the arguments of a record that cannot be formatted
    root = logging.getLogger()
    root.handlers, root.level = [handler], level
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, logging.Logger):
            logger.handlers, logger.propagate = [], True
    sys.excepthook = _write_uncaught
    threading.excepthook = lambda args: _write_uncaught(args.exc_type, args.exc_value, args.exc_traceback)
    sys.unraisablehook = lambda args: _write_uncaught(args.exc_type, args.exc_value, args.exc_traceback)


def _write_uncaught(kind: type[BaseException], error: BaseException | None, _: TracebackType | None) -> None:
    lines = error_lines(error) if error is not None else [f"  {kind.__qualname__}"]
    sys.stderr.write("\n".join(["uncaught exception", *lines]) + "\n")


# What is checked before the service listens: one that cannot answer does not start.


def check_start(home: Home, backend: str) -> None:
    """Checks the published build of a home by its checksums, and that the store opens with the schema of this version.

    A home without one is made where it is not there, and answers with nothing until its first build. Files of the build
    are read where their size or time of change differs from the manifest's; the index always is.

    Args:
        home: the home.
        backend: duckdb or neo4j.

    Raises:
        PalimpsestError: the folder has other files and is no home, or the store has another schema or not this home.
        ComponentFailed: a file of the build is damaged, or Neo4j does not answer.
    """
    if (build := published(home)) is None:
        home.create_alone()
        return
    damaged = build.damaged_files()
    index = build.manifest.files.get(build.index.name)
    if not damaged and index is not None and not has_hash(build.index, index.blake2b):
        damaged = [build.index.name]
    if damaged:
        raise ComponentFailed(
            f"home {home.path}: {damaged[0]} of build {build.build_id} is damaged; run palimpsest build"
            f"{home_option(home)}, which repairs it"
        )
    open_backend(home.path, backend).close()


TOKEN = "PALIMPSEST_TOKEN"  # noqa: S105 (the name of a variable)
_BACKLOG = 1024
_CLOSE_S = 10


def run_server(
    home: Home,
    backend: str,
    host: str,
    port: int,
    on_listening: Callable[[int], None] | None = None,
    build_every: float | None = None,
) -> None:
    """Serves a home until the process is stopped; one that could not answer is not served at all.

    Args:
        home: the home.
        backend: duckdb or neo4j.
        host: address to listen on.
        port: 0 means any free port.
        on_listening: gets the port as soon as it listens.
        build_every: minutes between builds of what was sent or changed; None means `default_minutes`.

    Raises:
        PalimpsestError: the folder is no home, or no key for tokens is set and other machines reach the address.
        ComponentFailed: the published build is damaged, or Neo4j does not answer.
    """
    log_without_contents()
    check_start(home, backend)
    settings = serve_settings(partial(make_secret, home.path) if is_loopback(host) else str)
    minutes = default_minutes(home, host) if build_every is None else build_every
    app = create_app(home, settings, backend, host, minutes)
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
        PalimpsestError: the token is not valid, or no key for tokens is set.
    """
    settings = serve_settings(partial(read_secret, home.path))
    try:
        identity = TokenVerifier(settings.tokens).verify(os.environ.get(TOKEN, ""))
    except BadToken as e:
        raise PalimpsestError(f"{TOKEN}: {e}; palimpsest serve token makes one") from None
    log_without_contents()
    service = make_service(home, SharedReader(home.path, backend, settings.shared), settings)
    threading.Thread(target=service.warming.load_models, daemon=True).start()  # the first text waits for them
    create_stdio_mcp(service, identity).run("stdio")
    service.deletions.close()
    sys.stdout.flush()
    os._exit(0)  # clients wait two seconds, which native libraries need to unload; while one loads, unloading aborts
