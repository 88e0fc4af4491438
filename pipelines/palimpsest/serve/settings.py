"""Settings of the service: environment variables, read once when it starts."""

import ipaddress
import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from palimpsest.core.environment import whole_number
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import write_private
from palimpsest.core.setting_table import MIN_SECRET_BYTES
from palimpsest.store.home import make_service_folder, service_folder

SECRET, PUBLIC_KEY, JWKS = "PALIMPSEST_JWT_SECRET", "PALIMPSEST_JWT_PUBLIC_KEY", "PALIMPSEST_JWKS_URL"
TOOLS, URL = "PALIMPSEST_MCP_TOOLS", "PALIMPSEST_SERVE_URL"
_NAME = "palimpsest"
_ADDRESSES = ("https://", "http://127.0.0.1", "http://localhost")
_KEYS = f"{SECRET}, {PUBLIC_KEY} or {JWKS}"


@dataclass(frozen=True)
class TokenSettings:
    """How tokens are verified. Exactly one of `secret`, `public_key` and `jwks_url` is set.

    Attributes:
        issuer: the `iss` that a token must have.
        audience: the `aud` that a token must name.
        secret: of HS256.
        public_key: PEM of RS256.
        jwks_url: where the keys of RS256 are.
    """

    issuer: str = _NAME
    audience: str = _NAME
    secret: str = ""
    public_key: str = ""
    jwks_url: str = ""

    @property
    def algorithm(self) -> str:
        """The only algorithm that is accepted: it follows from the kind of key, never from a token."""
        return "HS256" if self.secret else "RS256"


@dataclass(frozen=True)
class ServeSettings:
    """What the service allows.

    Attributes:
        tokens: how tokens are verified.
        requests_per_minute: of one user.
        failures_per_minute: requests without a valid token, of one address.
        max_body_bytes: of a request.
        timeout_s: of a request.
        shared: collections whose memories without an owner of their own every caller may read.
        all_tools: whether agents have the tools that few need, too.
        url: where callers reach the service, without a path; with it clients of MCP find the identity provider.
    """

    tokens: TokenSettings
    requests_per_minute: int = 600
    failures_per_minute: int = 60
    max_body_bytes: int = 32 * 2**20
    timeout_s: int = 30
    shared: frozenset[str] = frozenset()
    all_tools: bool = False
    url: str = ""


def serve_settings(own_secret: Callable[[], str] = str) -> ServeSettings:
    """Returns the settings that environment variables give.

    Args:
        own_secret: returns what counts where no key is set; see `make_secret`.

    Raises:
        PalimpsestError: no key is set, several are, or a value cannot be used.
    """
    tokens = token_settings(own_secret=own_secret)
    return ServeSettings(
        tokens,
        whole_number("PALIMPSEST_SERVE_RPM"),
        whole_number("PALIMPSEST_SERVE_FAILURES_RPM"),
        whole_number("PALIMPSEST_SERVE_MAX_MIB") * 2**20,
        whole_number("PALIMPSEST_SERVE_TIMEOUT_S"),
        frozenset(filter(None, (n.strip() for n in os.environ.get("PALIMPSEST_SERVE_SHARED", "").split(",")))),
        _all_tools(os.environ.get(TOOLS, "").strip()),
        _service_url(os.environ.get(URL, "").strip().rstrip("/"), tokens),
    )


def _all_tools(value: str) -> bool:
    if value not in ("", "common", "all"):
        raise PalimpsestError(f"{TOOLS}: {value[:40]!r} must be common or all")
    return value == "all"


def _service_url(url: str, tokens: TokenSettings) -> str:
    """Returns the address of the service, whose tokens come from an identity provider.

    Raises:
        PalimpsestError: it is no address, or the issuer of tokens is none.
    """
    if url and not (_is_address(url) and url.count("/") == 2):
        raise PalimpsestError(
            f"{URL}: {url[:80]!r} must be an address without a path, such as https://memory.example.com"
        )
    if url and not _is_address(tokens.issuer):
        raise PalimpsestError(f"{URL}: needs the address of the identity provider as PALIMPSEST_JWT_ISSUER")
    return url


def _is_address(text: str) -> bool:
    return text.startswith(_ADDRESSES)


# The secret of a home: what signs tokens where nobody has set a key, on the loopback address alone.

_OWN_SECRET = "jwt-secret"  # noqa: S105 (the name of a file)


def is_loopback(host: str) -> bool:
    """Returns whether only this machine reaches an address."""
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def make_secret(home: Path) -> str:
    """Returns the secret of a home, made where there is none: a file that its owner alone may read.

    Raises:
        PalimpsestError: the file cannot be used.
    """
    path = make_service_folder(home) / _OWN_SECRET
    if not path.exists():
        made = path.with_name(f".{_OWN_SECRET}.{os.getpid()}")
        write_private(made, secrets.token_hex(MIN_SECRET_BYTES).encode())
        with suppress(FileExistsError):  # another process was first: its secret counts
            os.link(made, path)
        made.unlink()
    return read_secret(home)


def read_secret(home: Path) -> str:
    """Returns the secret of a home; empty where there is none.

    Raises:
        PalimpsestError: the file cannot be used.
    """
    path = service_folder(home) / _OWN_SECRET
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            mode, found = os.fstat(file.fileno()).st_mode, file.read(1024).decode("ascii")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError):
        found, mode = "", 0
    if len(found) < MIN_SECRET_BYTES or mode & 0o077:
        raise PalimpsestError(
            f"{path}: no secret that its owner alone may read; remove it, and start the service again"
        )
    return found


def token_settings(environment: Mapping[str, str] = os.environ, own_secret: Callable[[], str] = str) -> TokenSettings:
    """Returns how tokens are verified.

    Args:
        environment: its variables.
        own_secret: returns the secret of the home, which counts where no variable gives a key; empty for none.

    Raises:
        PalimpsestError: no key is set, several are, or one cannot be used.
    """
    secret, key_file, jwks_url = (environment.get(n, "").strip() for n in (SECRET, PUBLIC_KEY, JWKS))
    secret = secret or ("" if key_file or jwks_url else own_secret())
    if sum(map(bool, (secret, key_file, jwks_url))) != 1:
        given = "none is set" if not (secret or key_file or jwks_url) else "several are set"
        raise PalimpsestError(f"set one of {_KEYS} to verify tokens; {given}")
    if secret and len(secret.encode()) < MIN_SECRET_BYTES:
        raise PalimpsestError(
            f"{SECRET}: must have {MIN_SECRET_BYTES} bytes or more, such as of `openssl rand -hex 32`"
        )
    url = environment.get(URL, "").strip().rstrip("/")  # tokens are for this resource (RFC 8707)
    if jwks_url and not _is_address(jwks_url):
        raise PalimpsestError(f"{JWKS}: must begin with https://")
    return TokenSettings(
        environment.get("PALIMPSEST_JWT_ISSUER", "").strip() or _NAME,
        environment.get("PALIMPSEST_JWT_AUDIENCE", "").strip() or (f"{url}/mcp" if url else _NAME),
        secret,
        _read_key(key_file) if key_file else "",
        jwks_url,
    )


def _read_key(name: str) -> str:
    try:
        text = Path(name).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as e:
        raise PalimpsestError(f"{PUBLIC_KEY}: {name}: {e.strerror if isinstance(e, OSError) else 'not PEM'}") from None
    if "PUBLIC KEY" not in text:
        raise PalimpsestError(f"{PUBLIC_KEY}: {name}: no public key in PEM form")
    return text
