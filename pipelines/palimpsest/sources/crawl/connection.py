"""Connections to checked addresses, with a time by which the whole of a response must be there."""

import ssl
import time
from collections.abc import Iterable
from typing import Any

import httpcore2

from palimpsest.sources.crawl.address_guard import AddressPolicy, Resolver


class GuardedBackend(httpcore2.NetworkBackend):
    """Connects to the address that was checked, never to a name; every read and write ends by `deadline`."""

    def __init__(self, policy: AddressPolicy, resolver: Resolver) -> None:
        self._policy, self._resolver = policy, resolver
        self._backend = httpcore2.SyncBackend()
        self.deadline = float("inf")
        """On the clock of `time.monotonic`."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        """Returns a connection to a host.

        Raises:
            AddressRefused: one of the host's addresses may not be contacted.
            httpcore2.ConnectError: the host has no address, or none answers.
        """
        wait_s = self.left_s(timeout)
        try:
            addresses = self._resolver(host, port, wait_s)
        except OSError as e:
            raise httpcore2.ConnectError(f"no address of {host}: {e.strerror or e}") from None
        error: Exception = httpcore2.ConnectError(f"no address of {host}")
        for address in self._policy.check(host, port, addresses):
            try:
                stream = self._backend.connect_tcp(address, port, self.left_s(timeout), local_address, socket_options)
                return _TimedStream(stream, self)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as e:
                error = e
        raise error

    def left_s(self, timeout: float | None) -> float:
        """Returns the seconds that one step may take.

        Raises:
            httpcore2.ReadTimeout: none are left.
        """
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise httpcore2.ReadTimeout("the time of the request is over")
        return left if timeout is None else min(timeout, left)


class _TimedStream(httpcore2.NetworkStream):
    """A connection whose steps end by the deadline of the request that uses it."""

    def __init__(self, stream: httpcore2.NetworkStream, backend: GuardedBackend) -> None:
        self._stream, self._backend = stream, backend

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._backend.left_s(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._backend.left_s(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        left_s = self._backend.left_s(timeout)
        return _TimedStream(self._stream.start_tls(ssl_context, server_hostname, left_s), self._backend)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
