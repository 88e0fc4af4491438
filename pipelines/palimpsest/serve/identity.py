"""Who calls: what a verified token says, and which scopes follow from it."""

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import jwt

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.request.types import Scope
from palimpsest.serve.settings import SECRET, TokenSettings

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
