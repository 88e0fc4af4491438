"""Pages that scripts draw: Chromium, as it is installed, writes the page that a person would see.

Chromium runs without a profile, and reaches one host alone: the page's, at the address that was checked. What a page
loads from other hosts, and private addresses behind any name, do not resolve.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from palimpsest.core.errors import PalimpsestError
from palimpsest.sources.crawl.address_guard import AddressPolicy, AddressRefused
from palimpsest.sources.crawl.fetch import FetchFailed, user_agent
from palimpsest.sources.crawl.urls import DEFAULT_PORTS

VARIABLE = "PALIMPSEST_CHROMIUM"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_MAX_BYTES = 20_000_000
_ERROR_PAGE = b'id="main-frame-error"'
_LIMIT_S, _SCRIPTS_MS = 45.0, 8_000
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH")


@dataclass(frozen=True)
class Browser:
    """An installed Chromium, and which addresses it may be led to."""

    program: str
    policy: AddressPolicy

    @classmethod
    def find(cls, policy: AddressPolicy) -> "Browser":
        """Returns the Chromium that PALIMPSEST_CHROMIUM or the search path has.

        Raises:
            PalimpsestError: there is none.
        """
        names = (named,) if (named := os.environ.get(VARIABLE, "").strip()) else _NAMES
        program = next((found for name in names if (found := shutil.which(name))), None)
        if program is None:
            raise PalimpsestError(
                f"--render needs Chromium, and none of {', '.join(names)} is installed: apt install chromium, or "
                f"{VARIABLE} names one"
            )
        return cls(program, policy)

    def render(self, url: str) -> bytes:
        """Returns the page of a URL as HTML, after its scripts ran.

        Raises:
            FetchFailed: its address is refused, or Chromium writes no page within 45 s.
        """
        address = self._checked_address(url)
        with tempfile.TemporaryDirectory(prefix="palimpsest-browser-", ignore_cleanup_errors=True) as profile:
            command = [self.program, *_options(url, address, profile), url]
            env = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | {"HOME": profile}
            with tempfile.TemporaryFile(dir=profile) as page:
                process = subprocess.Popen(  # noqa: S603 (a list, without a shell)
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=page,
                    stderr=subprocess.DEVNULL,
                    env=env,
                    start_new_session=True,
                )
                try:
                    code = process.wait(_LIMIT_S)
                except subprocess.TimeoutExpired:
                    raise FetchFailed(f"Chromium drew no page within {_LIMIT_S:.0f} s") from None
                finally:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                page.seek(0)
                data = page.read(_MAX_BYTES + 1)
        if code != 0 or not data.strip():
            raise FetchFailed(f"Chromium drew no page (exit code {code})")
        if _ERROR_PAGE in data:
            raise FetchFailed("Chromium could not load the page")
        if len(data) > _MAX_BYTES:
            raise FetchFailed(f"the page that Chromium drew is larger than {_MAX_BYTES:,} bytes")
        return data

    def _checked_address(self, url: str) -> str:
        """Returns the address of a URL's host.

        Raises:
            FetchFailed: it has none, or one that may not be contacted.
        """
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]
        try:
            found = [str(row[4][0]) for row in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
            return self.policy.check(host, port, found)[0]
        except AddressRefused as e:
            raise FetchFailed(str(e), is_refused=True) from None
        except (OSError, UnicodeError):
            raise FetchFailed(f"no address of {host}") from None


def _options(url: str, address: str, profile: str) -> list[str]:
    host = urlsplit(url).hostname or ""
    target = f"[{address}]" if ":" in address else address
    options = [
        "--headless=new",
        f"--user-data-dir={profile}",
        f"--user-agent={user_agent()}",
        f"--host-resolver-rules=MAP {host} {target}, MAP * ~NOTFOUND",
        f"--virtual-time-budget={_SCRIPTS_MS}",
        "--dump-dom",
        "--incognito",
        "--disable-gpu",
        "--disable-extensions",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
        "--no-proxy-server",
        "--no-first-run",
        "--no-default-browser-check",
        "--mute-audio",
        "--blink-settings=imagesEnabled=false",
    ]
    if os.geteuid() == 0:  # Chromium's sandbox does not start for root
        options.append("--no-sandbox")
    return options
