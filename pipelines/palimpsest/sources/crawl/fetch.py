"""One request at a time, politely: within limits of size and time, with a pause between requests and few retries."""

import ssl
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Any

import httpcore2
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt

from palimpsest.sources.crawl.address_guard import AddressPolicy, AddressRefused, Resolver, resolve_host
from palimpsest.sources.crawl.urls import try_normalize

# Connections to checked addresses, with a time by which the whole of a response must be there.


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


# Unpacks what a server packed, up to a limit: a small response may unpack to more than fits in memory.

_GZIP, _DEFLATE = ("gzip", "x-gzip"), ("deflate",)
_ANY_HEADER = 32 + zlib.MAX_WBITS
GZIP_MARK = b"\x1f\x8b"


class TooLarge(Exception):
    """What was received or unpacked is larger than the limit."""


class BadCoding(Exception):
    """What was received is not packed as the server says, or by a method that is not known."""


class Unpacker:
    """Collects the parts of a body, unpacked, up to a number of bytes."""

    def __init__(self, coding: str, max_bytes: int) -> None:
        """Makes it.

        Args:
            coding: the header `Content-Encoding`.
            max_bytes: of the unpacked body.

        Raises:
            BadCoding: the method is not known.
        """
        name = coding.strip().lower()
        if name not in ("", "identity", *_GZIP, *_DEFLATE):
            raise BadCoding(f"packed by {name[:40]!r}, which was not requested")
        self._unpack = zlib.decompressobj(_ANY_HEADER) if name in (*_GZIP, *_DEFLATE) else None
        self._body = bytearray()
        self._max_bytes = max_bytes

    def add(self, part: bytes) -> None:
        """Adds a part as it was received.

        Raises:
            TooLarge: the body is larger than the limit.
            BadCoding: it is not packed as the server says.
        """
        if self._unpack is None:
            self._body += part
        else:
            try:
                self._body += self._unpack.decompress(part, self._max_bytes + 1 - len(self._body))
            except zlib.error:
                raise BadCoding("not packed as the server says") from None
            if self._unpack.unused_data:
                raise BadCoding("followed by other data than the server says")
        if len(self._body) > self._max_bytes or (self._unpack is not None and self._unpack.unconsumed_tail):
            raise TooLarge(f"larger than {self._max_bytes:,} bytes")

    def body(self) -> bytes:
        """Returns the whole body.

        Raises:
            BadCoding: its end is missing.
        """
        if self._unpack is not None and self._body and not self._unpack.eof:
            raise BadCoding("its end is missing")
        return bytes(self._body)


def unpack_gzip(data: bytes, max_bytes: int) -> bytes:
    """Returns the content of a gzip file.

    Raises:
        TooLarge: it is larger than the limit.
        BadCoding: it is none.
    """
    unpacker = Unpacker("gzip", max_bytes)
    unpacker.add(data)
    return unpacker.body()


# One request at a time, politely: within limits of size and time, with a pause between requests and few retries.

ROBOT_NAME = "palimpsest"
MAX_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_BUSY = (429, 503)
_MAX_SKIPPED_BYTES = 65_536
_ACCEPT = "text/html,application/xhtml+xml,application/pdf;q=0.9,text/*;q=0.8,*/*;q=0.5"


def user_agent() -> str:
    """Returns the name that servers see."""
    try:
        number = version("palimpsest-memory")
    except PackageNotFoundError:
        number = "0"
    return f"{ROBOT_NAME}/{number} (reads pages into a memory store; obeys robots.txt)"


class FetchFailed(Exception):
    """A response was not received as a whole; the message says why, in one line."""

    def __init__(self, reason: str, is_refused: bool = False) -> None:
        """Makes the error; `is_refused`: the guard of addresses refused it."""
        super().__init__(reason)
        self.is_refused = is_refused


class _Busy(Exception):
    """The server asks to come back later, or closed the connection."""

    def __init__(self, response: "Response | None", reason: str, wait_s: float | None) -> None:
        super().__init__(reason)
        self.response, self.wait_s = response, wait_s


@dataclass(frozen=True)
class FetchLimits:
    """Limits of one request.

    Attributes:
        max_bytes: of the unpacked body.
        request_s: from the first byte sent to the last received.
        connect_s: until there is a connection.
        read_s: between two parts of a response.
        attempts: where the server is busy (429, 503) or closes the connection.
        max_wait_s: between two attempts, whatever the server asks for.
    """

    max_bytes: int = 20_000_000
    request_s: float = 60.0
    connect_s: float = 10.0
    read_s: float = 20.0
    attempts: int = 3
    max_wait_s: float = 20.0


@dataclass(frozen=True)
class Response:
    """What a server answered; `headers` have names in lower case, and `body` is empty where it was not wanted."""

    url: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def redirect(self) -> str | None:
        """The normal URL that the response leads to; None where it is no redirect, or leads to no web page."""
        location = self.headers.get("location")
        return try_normalize(location, self.url) if location and self.status in _REDIRECTS else None

    @property
    def is_redirect(self) -> bool:
        """Whether the response has another URL in place of a page."""
        return self.status in _REDIRECTS


class Fetcher:
    """Fetches URLs over one connection for each server; a context manager.

    Attributes:
        delay_s: pause between the ends and starts of requests.
        ends_at: time of `time.monotonic` after which no request goes on.
        requests: how many were sent.
    """

    def __init__(
        self,
        policy: AddressPolicy,
        limits: FetchLimits | None = None,
        *,
        resolver: Resolver = resolve_host,
        delay_s: float = 0.0,
        ends_at: float = float("inf"),
    ) -> None:
        self.policy, self._limits = policy, limits or FetchLimits()
        self.delay_s, self.ends_at, self.requests = delay_s, ends_at, 0
        self._backend = GuardedBackend(policy, resolver)
        self._pool = httpcore2.ConnectionPool(
            max_connections=4, max_keepalive_connections=1, keepalive_expiry=30.0, network_backend=self._backend
        )
        self._last_at = 0.0
        self._agent = user_agent()

    def __enter__(self) -> "Fetcher":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.close()

    @property
    def left_s(self) -> float:
        """The seconds that are left for all requests."""
        return self.ends_at - time.monotonic()

    def get(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        is_wanted: Callable[[Mapping[str, str]], bool] | None = None,
        max_bytes: int | None = None,
    ) -> Response:
        """Returns the answer to one request; redirects are answers.

        Args:
            url: a normal URL.
            headers: besides those that every request has.
            is_wanted: whether the body of a successful response with these headers is read; default: always.
            max_bytes: of the body; default: that of the limits.

        Raises:
            FetchFailed: the address is refused, or the response is not received within the limits.
        """
        retrying = Retrying(
            stop=stop_after_attempt(self._limits.attempts),
            wait=self._wait_s,
            retry=retry_if_exception_type(_Busy),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            return retrying(self._get_once, url, dict(headers or {}), is_wanted, max_bytes or self._limits.max_bytes)
        except _Busy as e:
            if e.response is not None:
                return e.response
            raise FetchFailed(str(e)) from None

    def get_following(self, url: str, max_bytes: int) -> Response:
        """Returns the answer at the end of a chain of redirects.

        Raises:
            FetchFailed: the chain is too long or leads to no page, or as `get` does.
        """
        for _ in range(MAX_REDIRECTS + 1):
            response = self.get(url, max_bytes=max_bytes)
            if not response.is_redirect:
                return response
            if response.redirect is None:
                raise FetchFailed("redirected to no web page")
            url = response.redirect
        raise FetchFailed(f"redirected more than {MAX_REDIRECTS} times")

    def _get_once(
        self,
        url: str,
        headers: dict[str, str],
        is_wanted: Callable[[Mapping[str, str]], bool] | None,
        max_bytes: int,
    ) -> Response:
        """Sends one request.

        Raises:
            FetchFailed: no later attempt would end otherwise.
            _Busy: one may.
        """
        self._sleep(self._last_at + self.delay_s - time.monotonic())
        limits = self._limits
        self._backend.deadline = min(time.monotonic() + limits.request_s, self.ends_at)
        sent = {"User-Agent": self._agent, "Accept": _ACCEPT, "Accept-Encoding": "gzip", **headers}
        timeout = {"connect": limits.connect_s, "read": limits.read_s, "write": limits.read_s, "pool": limits.read_s}
        self.requests += 1
        try:
            with self._pool.stream("GET", url, headers=list(sent.items()), extensions={"timeout": timeout}) as answer:
                found = _headers(answer.headers)
                response = Response(url, answer.status, found)
                wait_s = _retry_after_s(found)
                if answer.status in _BUSY and (wait_s is None or wait_s <= limits.max_wait_s):
                    raise _Busy(response, f"status {answer.status}", wait_s)
                if not 200 <= answer.status < 300:
                    _skip(answer)
                    return response
                if is_wanted is not None and not is_wanted(found):
                    return response
                unpacker = Unpacker(found.get("content-encoding", ""), max_bytes)
                for part in answer.iter_stream():
                    unpacker.add(part)
                return Response(url, answer.status, found, unpacker.body())
        except AddressRefused as e:
            raise FetchFailed(str(e), is_refused=True) from None
        except (TooLarge, BadCoding) as e:
            raise FetchFailed(f"the response is {e}") from None
        except httpcore2.TimeoutException:
            raise FetchFailed(f"no whole response within {limits.request_s:.0f} s") from None
        except httpcore2.ConnectError as e:
            raise FetchFailed(f"no connection: {_one_line(e)}") from None
        except (httpcore2.NetworkError, httpcore2.RemoteProtocolError) as e:
            raise _Busy(None, f"the connection broke: {_one_line(e)}", None) from None
        except (httpcore2.ProtocolError, ssl.SSLError, ValueError, OSError) as e:
            raise FetchFailed(f"no answer of HTTP: {_one_line(e)}") from None
        finally:
            self._last_at = time.monotonic()

    def _wait_s(self, state: RetryCallState) -> float:
        """Returns how long to wait for the next attempt: what the server asks for, else twice as long each time."""
        error = state.outcome.exception() if state.outcome else None
        wanted = error.wait_s if isinstance(error, _Busy) else None
        return min(2.0 ** (state.attempt_number - 1) if wanted is None else wanted, self._limits.max_wait_s)

    def _sleep(self, seconds: float) -> None:
        """Waits.

        Raises:
            FetchFailed: the time of all requests would be over by then.
        """
        if seconds >= self.left_s:
            raise FetchFailed("the time limit of the crawl is over")
        if seconds > 0:
            time.sleep(seconds)


def _skip(answer: httpcore2.Response) -> None:
    """Reads a short body to its end, so that the connection can be used again; a long one closes it."""
    length = 0
    for part in answer.iter_stream():
        length += len(part)
        if length > _MAX_SKIPPED_BYTES:
            return


def _headers(rows: list[tuple[bytes, bytes]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in rows:
        key, text = name.decode("latin-1").lower(), _header_text(value)
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _header_text(value: bytes) -> str:
    """Returns a header as text: many servers send UTF-8 where Latin-1 is meant, in `Location` above all."""
    try:
        return value.decode("utf-8").strip()
    except UnicodeDecodeError:
        return value.decode("latin-1").strip()


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds after which a busy server wants the next request; None where it states none."""
    from email.utils import parsedate_to_datetime

    text = headers.get("retry-after", "")
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
