"""What every request passes: its size, its time, its caller, how many there were, and headers of the answer."""

import asyncio
import datetime as dt
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, get_args

import jwt
from fastapi import Request, Security
from fastapi.security import HTTPBearer
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.request.types import Scope
from palimpsest.serve.problems import Problem, problem_response
from palimpsest.serve.settings import SECRET, ServeSettings, TokenSettings

# Who calls: what a verified token says, and which scopes follow from it.

Permission = Literal["read", "write", "delete"]
PERMISSIONS: tuple[Permission, ...] = get_args(Permission)
MAX_USER_CHARS = 256


class BadClaims(ValueError):
    """The claims of a token are not those of a user."""


@dataclass(frozen=True)
class Identity:
    """A caller.

    Attributes:
        user: `sub`: whose memories are read and written.
        projects: names in `projects`: what is read besides the user's general memory.
        permissions: words of `scope`; without that claim only read.
        expires_at: `exp`, seconds since 1970.
    """

    user: str
    projects: frozenset[str] = frozenset()
    permissions: frozenset[str] = frozenset({"read"})
    expires_at: float = math.inf

    def scopes(self, known: Iterable[Scope], shared: Mapping[str, str]) -> list[Scope]:
        """Returns the scopes that the caller may read, among those of a build.

        Args:
            known: all scopes of the build.
            shared: collections that every caller may read, with the user of their memories without an owner.
        """

        def is_mine(scope: Scope) -> bool:
            return scope.user_id == self.user and (not scope.project_id or scope.project_id in self.projects)

        return [s for s in known if is_mine(s) or (shared.get(s.collection) == s.user_id and not s.project_id)]


def identity_of(claims: Mapping[str, object]) -> Identity:
    """Returns the caller that verified claims name.

    Raises:
        BadClaims: `sub` is no user id, or `projects` or `scope` is malformed.
    """
    user, projects, scope = claims.get("sub"), claims.get("projects", []), claims.get("scope", "read")
    if not isinstance(user, str) or not user.strip() or len(user) > MAX_USER_CHARS or not user.isprintable():
        raise BadClaims("sub")
    if not isinstance(projects, list) or not all(isinstance(p, str) and p for p in projects):
        raise BadClaims("projects")
    if not isinstance(scope, str):
        raise BadClaims("scope")
    exp = claims.get("exp")
    expires_at = float(exp) if isinstance(exp, int | float) else math.inf
    return Identity(user, frozenset(projects), frozenset(scope.split()) & frozenset(PERMISSIONS), expires_at)


# JSON Web Tokens: verified with one algorithm, issuer and audience; made for development with the secret.

LEEWAY_S = 30
"""Seconds by which clocks may differ."""
_REQUIRED = ("exp", "iss", "aud", "sub")


class BadToken(Exception):
    """A token is not valid; the message is safe to send to the caller."""


class TokenVerifier:
    """Verifies tokens. Safe to share between threads."""

    def __init__(self, settings: TokenSettings):
        self._settings = settings

    def verify(self, token: str) -> Identity:
        """Returns who a token is of.

        Raises:
            BadToken: the signature, algorithm, issuer, audience, expiry or a claim is wrong.
        """
        try:
            claims = jwt.decode(
                token,
                self._key(token),
                algorithms=[self._settings.algorithm],
                issuer=self._settings.issuer,
                audience=self._settings.audience,
                leeway=LEEWAY_S,
                options={"require": list(_REQUIRED)},
            )
            return identity_of(claims)
        except jwt.ExpiredSignatureError:
            raise BadToken("the token has expired") from None
        except (jwt.PyJWTError, BadClaims, ValueError, TypeError):
            raise BadToken("the token is not valid") from None

    def _key(self, token: str) -> str | jwt.PyJWK:
        if self._keys is not None:
            return self._keys.get_signing_key_from_jwt(token)
        return self._settings.secret or self._settings.public_key

    @cached_property
    def _keys(self) -> jwt.PyJWKClient | None:
        url = self._settings.jwks_url
        return jwt.PyJWKClient(url, cache_keys=True, lifespan=300, timeout=5) if url else None


def make_token(
    settings: TokenSettings,
    user: str,
    projects: Sequence[str] = (),
    permissions: Sequence[str] = PERMISSIONS,
    lifetime: dt.timedelta = dt.timedelta(hours=1),
    now: dt.datetime | None = None,
) -> str:
    """Returns a token for development, signed with the secret.

    Raises:
        PalimpsestError: there is no secret, or the user or a permission cannot be used.
    """
    if not settings.secret:
        raise PalimpsestError(
            f"serve token: needs {SECRET}; with a public key, tokens come from your identity provider"
        )
    if unknown := sorted(set(permissions) - set(PERMISSIONS)):
        raise PalimpsestError(f"--permission {unknown[0]}: use {', '.join(PERMISSIONS)}")
    now = now or dt.datetime.now(dt.UTC)
    claims = {"sub": user, "iss": settings.issuer, "aud": settings.audience, "iat": now, "exp": now + lifetime}
    claims |= {"projects": list(projects), "scope": " ".join(permissions)}
    try:
        identity_of(claims)
    except BadClaims:
        raise PalimpsestError(f"--user {user[:40]!r}: not usable as a user id") from None
    return jwt.encode(claims, settings.secret, algorithm="HS256")


MAX_HEADER_BYTES = 2**15
SMALL_BODY_BYTES = 2**20
UNCOUNTED_BYTES = 2**18
"""Bodies up to this size are read at any time; of larger ones `LARGE_BODIES` at once."""
LARGE_BODIES = 2
BODY_S = 5.0
"""Seconds in which a further part of a body must have come."""

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
METADATA_PATH = "/.well-known/oauth-protected-resource"
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
        where = f' resource_metadata="{settings.url}{METADATA_PATH}/mcp"' if settings.url else ""
        self._challenge = {"WWW-Authenticate": f"Bearer{where}"}
        self._invalid = {"WWW-Authenticate": f'Bearer error="invalid_token"{where and ","}{where}'}

    def identify(self, token: str, address: str) -> Identity:
        """Returns the caller of a request, and counts it.

        Raises:
            Problem: 401 where the token is not valid, 429 where there were too many requests.
        """
        identity = self.check(token, address)
        if not self._limiter.hit(self._per_user, "user", identity.user):
            raise Problem(429, f"more than {self.settings.requests_per_minute} requests a minute", _RETRY)
        return identity

    def check(self, token: str, address: str) -> Identity:
        """Returns the caller of a request.

        Raises:
            Problem: 401 where the token is not valid, 429 where there were too many without a valid one.
        """
        try:
            return self._verifier.verify(token)
        except BadToken as e:
            # Of several users behind one address, only those without a valid token are limited.
            if not self._limiter.hit(self._failures, "failure", address):
                raise Problem(429, "too many requests without a valid token", _RETRY) from None
            raise Problem(401, str(e) if token else _TOKENLESS, self._invalid if token else self._challenge) from None


def bearer_token(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Returns the token of a request; empty where it has none."""
    given = next((value for name, value in headers if name == b"authorization"), b"").decode("latin-1")
    scheme, _, token = given.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


_BEARER = HTTPBearer(
    bearerFormat="JWT",
    scheme_name="bearer",
    description="A JSON Web Token: `sub` is the user, `scope` has the permissions read, write, delete.",
    auto_error=False,  # the guard answers, and counts what fails
)


def caller(permission: Permission) -> Callable[..., Identity]:
    """Returns a dependency that gives the caller of a request, who must have a permission."""

    def identify(request: Request, _: Annotated[object, Security(_BEARER)] = None) -> Identity:
        guard: Guard = request.app.state.guard
        address = request.client.host if request.client else ""
        identity = guard.identify(bearer_token(request.headers.raw), address)
        if permission not in identity.permissions:
            needs = {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{permission}"'}
            raise Problem(403, f"the token does not allow to {permission}", needs)
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
    """ASGI middleware: a caller without a valid token sends no body, others a bounded one in bounded time.

    It adds headers to every answer. Few large bodies are read at once; the others wait unread.
    """

    def __init__(self, app: ASGIApp, guard: "Guard", is_untimed: Iterable[str] = (), takes_large: Iterable[str] = ()):
        """Makes it for an app.

        Args:
            app: answers the requests.
            guard: knows tokens and limits.
            is_untimed: beginnings of paths whose answers do not end.
            takes_large: beginnings of paths that take a body of `max_body_bytes`; others take `SMALL_BODY_BYTES`.
        """
        self._app, self._guard = app, guard
        self._untimed, self._large = tuple(is_untimed), tuple(takes_large)
        self._room = asyncio.Semaphore(LARGE_BODIES)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answers one request.

        Raises:
            Problem: the request is too large, once the answer has begun.
            TimeoutError: it took too long, once the answer has begun.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False
        at_most = self._guard.settings.max_body_bytes if scope["path"].startswith(self._large) else SMALL_BODY_BYTES
        body = _Body(receive, dict(scope["headers"]), at_most, self._room)

        async def with_headers(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                given = {name for name, _ in message["headers"]}
                policy = (b"content-security-policy", _POLICY)
                message["headers"] += [h for h in (*_HEADERS, policy) if h[0] not in given]
                if not body.is_read:  # what is left of it would be taken for the next request
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        try:
            timeout_s = None if scope["path"].startswith(self._untimed) else self._guard.settings.timeout_s
            async with asyncio.timeout(timeout_s):
                if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
                    raise Problem(431, f"the headers of a request have at most {MAX_HEADER_BYTES:,} bytes")
                if body.is_sent:
                    await self._check(scope, body)
                await self._app(scope, body.receive, with_headers)
        except (Problem, TimeoutError) as e:
            if has_begun:
                raise
            problem = e if isinstance(e, Problem) else Problem(503, "the request took too long")
            await problem_response(problem.status, problem.detail, problem.headers, problem.type)(
                scope, receive, with_headers
            )
        finally:
            body.close()

    async def _check(self, scope: AsgiScope, body: "_Body") -> None:
        """Checks the token of a request with a body, and the size that it states.

        Raises:
            Problem: the token is not valid, or the body is too large.
        """
        try:
            self._guard.check(bearer_token(scope["headers"]), (scope.get("client") or ("",))[0])
            body.check_length()
        except Problem:
            await body.drop()
            raise


class _Body:
    """The body of a request as it comes: how much of it, how fast, and whether it has all been read."""

    def __init__(self, receive: Receive, headers: Mapping[bytes, bytes], at_most: int, room: asyncio.Semaphore):
        length = headers.get(b"content-length", b"")
        self._length = int(length) if length.isdigit() else None
        self.is_sent = bool(self._length) or b"transfer-encoding" in headers
        self.is_read = not self.is_sent
        self._receive, self._at_most, self._room = receive, at_most, room
        self._size, self._has_room = 0, False

    def check_length(self) -> None:
        """Checks the length that is stated.

        Raises:
            Problem: it is too large.
        """
        if max(self._length or 0, self._size) > self._at_most:
            raise Problem(413, f"the body of this request has at most {self._at_most:,} bytes")

    async def receive(self) -> Message:
        """Returns the next part.

        Raises:
            Problem: the body is too large, or nothing more of it came.
        """
        if self.is_read:
            return await self._receive()
        if not self._has_room and max(self._length or 0, self._size) > UNCOUNTED_BYTES:
            await self._room.acquire()
            self._has_room = True
        try:
            async with asyncio.timeout(BODY_S):
                message = await self._receive()
        except TimeoutError:
            raise Problem(408, f"nothing of the body came for {BODY_S:g} seconds") from None
        self._size += len(message.get("body", b""))
        self.is_read = not message.get("more_body", False)
        self.check_length()
        return message

    async def drop(self) -> None:
        """Reads a small body and forgets it, so that its sender reads the answer; a larger one is left unread."""
        if self._length is None or self._length > UNCOUNTED_BYTES:
            return
        with suppress(Problem):
            while not self.is_read:
                await self.receive()

    def close(self) -> None:
        """Gives the room of a large body to the next."""
        if self._has_room:
            self._room.release()
            self._has_room = False
