"""One request at a time, politely: within limits of size and time, with a pause between requests and few retries."""

import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType

import httpcore2
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt

from palimpsest.sources.crawl.address_guard import AddressPolicy, AddressRefused, Resolver, resolve_host
from palimpsest.sources.crawl.connection import GuardedBackend
from palimpsest.sources.crawl.content_coding import BadCoding, TooLarge, Unpacker
from palimpsest.sources.crawl.urls import try_normalize

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
