"""What every request passes: its size, its time, its caller, how many there were, and headers of the answer."""

import asyncio
from collections.abc import Callable, Iterable
from contextvars import ContextVar

from fastapi import Request
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from palimpsest.serve.identity import Identity, Permission
from palimpsest.serve.problems import Problem, problem_response
from palimpsest.serve.settings import ServeSettings
from palimpsest.serve.tokens import BadToken, TokenVerifier

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
)
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_TOKENLESS = "the request has no token; send the header Authorization: Bearer TOKEN"
_CHALLENGE = {"WWW-Authenticate": "Bearer"}
_RETRY = {"Retry-After": "60"}


client_address: ContextVar[str] = ContextVar("client_address", default="")
"""Of the request that another app answers: failures are counted by address there too, so that none locks out others."""


class Guard:
    """Identifies callers and counts their requests. One for an app."""

    def __init__(self, settings: ServeSettings):
        self.settings, self._verifier = settings, TokenVerifier(settings.tokens)
        self._limiter = MovingWindowRateLimiter(MemoryStorage())
        self._per_user = RateLimitItemPerMinute(settings.requests_per_minute)
        self._failures = RateLimitItemPerMinute(settings.failures_per_minute)

    def identify(self, token: str, address: str) -> Identity:
        """Returns the caller of a request.

        Raises:
            Problem: 401 where the token is not valid, 429 where there were too many requests.
        """
        try:
            identity = self._verifier.verify(token)
        except BadToken as e:
            # Of several users behind one address, only those without a valid token are limited.
            if not self._limiter.hit(self._failures, "failure", address):
                raise Problem(429, "too many requests without a valid token", _RETRY) from None
            raise Problem(401, str(e) if token else _TOKENLESS, _CHALLENGE) from None
        if not self._limiter.hit(self._per_user, "user", identity.user):
            raise Problem(429, f"more than {self.settings.requests_per_minute} requests a minute", _RETRY)
        return identity


def caller(permission: Permission) -> Callable[[Request], Identity]:
    """Returns a dependency that gives the caller of a request, who must have a permission."""

    def identify(request: Request) -> Identity:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        guard: Guard = request.app.state.guard
        address = request.client.host if request.client else ""
        identity = guard.identify(token.strip() if scheme.lower() == "bearer" else "", address)
        if permission not in identity.permissions:
            raise Problem(403, f"the token does not allow to {permission}")
        _check_query(request)
        return identity

    return identify


def _check_query(request: Request) -> None:
    """Checks that a request has no query parameter that the description of its endpoint does not name.

    Raises:
        Problem: it has one, which would change nothing although the caller expects it to.
    """
    if not request.query_params:
        return
    described = request.app.openapi()["paths"][request.scope["route"].path][request.method.lower()]
    known = {p["name"] for p in described.get("parameters", ()) if p["in"] == "query"}
    if unknown := sorted(set(request.query_params) - known):
        there_are = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
        raise Problem(422, f"{unknown[0][:40]}: no such query parameter; {there_are}"[:300])


class AtPath:
    """ASGI middleware: another app answers at one path."""

    def __init__(self, app: ASGIApp, path: str, other: ASGIApp):
        self._app, self._path, self._other = app, path, other

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        is_other = scope["type"] == "http" and scope["path"] == self._path
        if is_other and scope.get("client"):
            client_address.set(scope["client"][0])
        await (self._other if is_other else self._app)(scope, receive, send)


class Envelope:
    """ASGI middleware: limits the size and time of a request, and adds headers to every answer."""

    def __init__(self, app: ASGIApp, max_body_bytes: int, timeout_s: float, is_untimed: Iterable[str] = ()):
        self._app, self._max, self._timeout_s = app, max_body_bytes, timeout_s
        self._untimed = tuple(is_untimed)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answers one request.

        Raises:
            Problem: the request is too large, once the answer has begun.
            TimeoutError: it took too long, once the answer has begun.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        size, has_begun = 0, False

        async def limited() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._max:
                raise Problem(413, f"a request has at most {self._max:,} bytes")
            return message

        async def with_headers(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                given = {name for name, _ in message["headers"]}
                policy = (b"content-security-policy", _POLICY)
                message["headers"] += [h for h in (*_HEADERS, policy) if h[0] not in given]
            await send(message)

        length = dict(scope["headers"]).get(b"content-length", b"0")
        try:
            if length.isdigit() and int(length) > self._max:
                raise Problem(413, f"a request has at most {self._max:,} bytes")
            timeout_s = None if scope["path"].startswith(self._untimed) else self._timeout_s
            async with asyncio.timeout(timeout_s):
                await self._app(scope, limited, with_headers)
        except (Problem, TimeoutError) as e:
            if has_begun:
                raise
            status, detail = (e.status, e.detail) if isinstance(e, Problem) else (503, "the request took too long")
            await problem_response(status, detail)(scope, receive, with_headers)
