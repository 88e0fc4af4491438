"""Connections of the service: one that sends no whole request keeps nobody else out."""

import asyncio
import resource
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

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
