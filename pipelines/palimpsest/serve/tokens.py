"""JSON Web Tokens: verified with one algorithm, issuer and audience; made for development with the secret."""

import datetime as dt
from collections.abc import Sequence
from functools import cached_property

import jwt

from palimpsest.core.errors import PalimpsestError
from palimpsest.serve.identity import PERMISSIONS, BadClaims, Identity, identity_of
from palimpsest.serve.settings import SECRET, TokenSettings

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
