"""One request at a time, politely: libcurl within limits of size and time, a pause between requests and few retries."""

import socket
import ssl
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import NoReturn, cast
from urllib.parse import urlsplit

import certifi
import pycurl
from tenacity import Future, RetryCallState, Retrying, retry_if_exception_type, retry_if_result, stop_after_attempt

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.sources.crawl.address_guard import AddressPolicy, AddressRefused
from palimpsest.sources.crawl.urls import ROBOT_NAME, try_normalize

MAX_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_BUSY = (429, 503)
_MAX_SKIPPED_BYTES = 65_536
_ACCEPT = "text/html,application/xhtml+xml,application/pdf;q=0.9,text/*;q=0.8,*/*;q=0.5"
_PACKED = ("gzip", "x-gzip", "deflate")
_ANY_ZLIB_HEADER = 32 + zlib.MAX_WBITS
_NO_CONNECTION = (
    pycurl.E_COULDNT_RESOLVE_HOST,
    pycurl.E_COULDNT_CONNECT,
    pycurl.E_SSL_CONNECT_ERROR,
    pycurl.E_PEER_FAILED_VERIFICATION,
)
_BROKEN = (pycurl.E_PARTIAL_FILE, pycurl.E_GOT_NOTHING, pycurl.E_SEND_ERROR, pycurl.E_RECV_ERROR)

IsWanted = Callable[[Mapping[str, str]], bool]


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

    def of(self, url: str) -> PalimpsestError:
        """Returns the error that ends a command about a URL; another attempt may succeed where nothing was refused."""
        return (PalimpsestError if self.is_refused else ComponentFailed)(f"{url}: {self}")


class _Broken(FetchFailed):
    """The server closed the connection."""


@dataclass(frozen=True)
class FetchLimits:
    """Limits of one request.

    Attributes:
        max_bytes: of the unpacked body.
        request_s: from the look-up of the host to the last byte received.
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
        return try_normalize(location, self.url) if location and self.is_redirect else None

    @property
    def is_redirect(self) -> bool:
        """Whether the response has another URL in place of a page."""
        return self.status in _REDIRECTS

    @property
    def is_page(self) -> bool:
        """Whether the response has what the URL stands for."""
        return 200 <= self.status < 300


class Fetcher:
    """Fetches URLs over connections that are kept open; a context manager.

    Attributes:
        delay_s: pause between the ends and starts of requests.
        ends_at: time of `time.monotonic` after which no request goes on.
    """

    def __init__(
        self,
        policy: AddressPolicy,
        limits: FetchLimits | None = None,
        *,
        delay_s: float = 0.0,
        ends_at: float = float("inf"),
        addresses: Sequence[str] = (),
    ) -> None:
        """Makes it; `addresses` (`host:port:address`) stand for what the system would look up."""
        self.policy, self._limits = policy, limits or FetchLimits()
        self.delay_s, self.ends_at = delay_s, ends_at
        self._last_at, self._host, self._refused = 0.0, "", ""
        self._curl = pycurl.Curl()
        for option, value in self._options(addresses).items():
            self._curl.setopt(option, value)

    def _options(self, addresses: Sequence[str]) -> dict[int, object]:
        trusted = ssl.get_default_verify_paths()  # of this system, an authority of the intranet too, or SSL_CERT_FILE
        return {
            pycurl.OPENSOCKETFUNCTION: self._open_socket,
            pycurl.RESOLVE: list(addresses),
            pycurl.PROTOCOLS: pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS,
            pycurl.HTTP_VERSION: pycurl.CURL_HTTP_VERSION_1_1,
            pycurl.PROXY: "",  # not those of the environment: the guard must see each address
            pycurl.CAINFO: trusted.cafile or certifi.where(),
            pycurl.CAPATH: trusted.capath or "",
            pycurl.CONNECTTIMEOUT_MS: int(1_000 * self._limits.connect_s),
            pycurl.LOW_SPEED_LIMIT: 1,
            pycurl.LOW_SPEED_TIME: int(self._limits.read_s),
            pycurl.NOSIGNAL: 1,
            pycurl.NOPROGRESS: False,  # about once a second Python is called, so that Ctrl-C ends a request
            pycurl.XFERINFOFUNCTION: lambda *_: 0,
            pycurl.USERAGENT: user_agent(),
        }

    def __enter__(self) -> "Fetcher":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._curl.close()

    @property
    def left_s(self) -> float:
        """The seconds that are left for all requests."""
        return self.ends_at - time.monotonic()

    def get(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        is_wanted: IsWanted = lambda _: True,
        max_bytes: int | None = None,
    ) -> Response:
        """Returns the answer to one request; redirects are answers.

        Args:
            url: a normal URL.
            headers: besides those that every request has.
            is_wanted: whether the body of a successful response with these headers is read.
            max_bytes: of the body; default: that of the limits.

        Raises:
            FetchFailed: the address is refused, or the response is not received within the limits.
        """
        retrying = Retrying(
            stop=stop_after_attempt(self._limits.attempts),
            wait=self._wait_s,
            retry=retry_if_exception_type(_Broken) | retry_if_result(self._is_busy),
            sleep=self._sleep,
            retry_error_callback=_last_outcome,
        )
        return retrying(self._get_once, url, headers or {}, is_wanted, max_bytes or self._limits.max_bytes)

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

    def _get_once(self, url: str, headers: Mapping[str, str], is_wanted: IsWanted, max_bytes: int) -> Response:
        """Sends one request.

        Raises:
            FetchFailed: as `get` does; as `_Broken` where another attempt may end otherwise.
        """
        self._sleep(max(self._last_at + self.delay_s - time.monotonic(), 0.0))
        limits, received = self._limits, _Received(is_wanted, max_bytes)
        self._host, self._refused = urlsplit(url).hostname or "", ""
        sent = {"Accept": _ACCEPT, "Accept-Encoding": "gzip", **headers}
        self._curl.setopt(pycurl.URL, url)
        self._curl.setopt(pycurl.HTTPHEADER, [f"{name}: {value}" for name, value in sent.items()])
        self._curl.setopt(pycurl.HEADERFUNCTION, received.add_header)
        self._curl.setopt(pycurl.WRITEFUNCTION, received.add_part)
        self._curl.setopt(pycurl.TIMEOUT_MS, max(int(1_000 * min(limits.request_s, self.left_s)), 1))
        try:
            self._curl.perform()
        except pycurl.error as e:
            if not received.is_cut:
                self._explain(*e.args)
        finally:
            self._last_at = time.monotonic()
        return Response(url, received.status, received.headers, received.content())

    def _open_socket(self, purpose: int, address: pycurl.CurlSockAddr) -> socket.socket | int:
        """Returns a socket for libcurl to connect to an address: the one that is checked is the one that is used."""
        host, port = address.addr[:2]
        try:
            self.policy.check(self._host, port, [host])
        except AddressRefused as e:
            self._refused = str(e)
            return int(pycurl.SOCKET_BAD)
        return socket.socket(int(address.family), int(address.socktype), int(address.protocol))

    def _explain(self, code: int, message: str) -> NoReturn:
        """Raises what an error of libcurl means.

        Raises:
            FetchFailed: no later attempt would end otherwise.
            _Broken: one may.
        """
        why = " ".join(message.split())[:200]
        if self._refused:
            raise FetchFailed(self._refused, is_refused=True) from None
        if code == pycurl.E_OPERATION_TIMEDOUT:
            raise FetchFailed(f"no whole response within {self._limits.request_s:.0f} s") from None
        if code in _NO_CONNECTION:
            raise FetchFailed(f"no connection: {why}") from None
        if code in _BROKEN:
            raise _Broken(f"the connection broke: {why}") from None
        raise FetchFailed(f"no answer of HTTP: {why}") from None

    def _is_busy(self, response: Response) -> bool:
        """Returns whether the server asks to come back within the time that we wait."""
        return response.status in _BUSY and (self._stated_wait_s(response) or 0.0) <= self._limits.max_wait_s

    def _stated_wait_s(self, response: Response) -> float | None:
        """Returns the seconds after which a server wants the next request; None where the last response states none."""
        return float(self._curl.getinfo(pycurl.RETRY_AFTER)) if "retry-after" in response.headers else None

    def _wait_s(self, state: RetryCallState) -> float:
        """Returns how long to wait for the next attempt: what the server asks for, else twice as long each time."""
        failed = state.outcome is None or state.outcome.failed
        wanted = None if failed else self._stated_wait_s(_last_outcome(state))
        return min(2.0 ** (state.attempt_number - 1) if wanted is None else wanted, self._limits.max_wait_s)

    def _sleep(self, seconds: float) -> None:
        """Waits.

        Raises:
            FetchFailed: the time of all requests would be over by then.
        """
        if seconds >= self.left_s:
            raise FetchFailed("the time limit of the crawl is over")
        time.sleep(seconds)


def _last_outcome(state: RetryCallState) -> Response:
    """Returns the last response; raises why there is none."""
    return cast(Response, cast(Future, state.outcome).result())


class _Received:
    """What libcurl receives for one request, up to a number of bytes."""

    def __init__(self, is_wanted: IsWanted, max_bytes: int) -> None:
        self._is_wanted, self._max_bytes = is_wanted, max_bytes
        self.status, self.headers, self.is_cut = 0, dict[str, str](), False
        self._body, self._room = bytearray(), -1

    def add_header(self, line: bytes) -> None:
        """Adds a line; many servers send UTF-8 where Latin-1 is meant, in `Location` above all."""
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            text = line.decode("latin-1")
        if text.startswith("HTTP/"):  # a response before this one was no final one
            self.status, self.headers = int(text.split()[1]), {}
            return
        name, _, value = text.partition(":")
        key, value = name.strip().lower(), value.strip()
        self.headers[key] = f"{self.headers[key]}, {value}" if key in self.headers else value

    def add_part(self, part: bytes) -> int:
        """Adds a part of the body; returns 0, which ends the transfer, where there is no room for it.

        A short body that is no page is read to its end, so that the connection can be used again.
        """
        if self._room < 0:
            is_page = 200 <= self.status < 300
            self._room = self._max_bytes * self._is_wanted(self.headers) if is_page else _MAX_SKIPPED_BYTES
        self.is_cut = len(self._body) + len(part) > self._room
        if self.is_cut:
            return 0
        self._body += part
        return len(part)

    def content(self) -> bytes:
        """Returns the body of a page, unpacked; nothing where it is not wanted.

        Raises:
            FetchFailed: it is larger than the limit, or not packed as the server says.
        """
        if self._room <= 0:
            return b""
        if self.is_cut:
            raise FetchFailed(f"the response is larger than {self._max_bytes:,} bytes")
        coding = self.headers.get("content-encoding", "").strip().lower()
        if coding in ("", "identity"):
            return bytes(self._body)
        if coding not in _PACKED:
            raise FetchFailed(f"the response is packed by {coding[:40]!r}, which was not requested")
        return unpack(bytes(self._body), self._max_bytes)


def unpack(data: bytes, max_bytes: int) -> bytes:
    """Returns the content of a gzip or zlib file.

    Raises:
        FetchFailed: it is larger than the limit, or not whole.
    """
    unpacker = zlib.decompressobj(_ANY_ZLIB_HEADER)
    try:
        found = unpacker.decompress(data, max_bytes + 1)
    except zlib.error:
        raise FetchFailed("the response is not packed as the server says") from None
    if len(found) > max_bytes:
        raise FetchFailed(f"the response is larger than {max_bytes:,} bytes")
    if not unpacker.eof or unpacker.unused_data:
        why = "followed by other data than the server says" if unpacker.eof else "packed, and its end is missing"
        raise FetchFailed(f"the response is {why}")
    return found
