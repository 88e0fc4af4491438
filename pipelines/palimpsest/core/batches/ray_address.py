"""Does a Ray cluster answer at an address? Ray itself tries for minutes where nothing, or something else, answers."""

import socket
import subprocess
import sys

from palimpsest.core.errors import ComponentFailed, PalimpsestError

_CONNECT_S, _STATUS_S = 5.0, 25.0
_STATUS = (sys.executable, "-m", "ray.scripts.scripts", "status", "--address")
_HERE = ("", "local")
"""A Ray of this process is started."""


def check_address(address: str) -> None:
    """Opens a connection to an address and closes it, in 5 seconds at most.

    Raises:
        PalimpsestError: this is no address of a cluster.
        ComponentFailed: nothing answers there.
    """
    if address in (*_HERE, "auto"):
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise PalimpsestError(f"RAY_ADDRESS: {address[:80]!r} must be HOST:PORT or auto; correct it or unset it")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
    except (OSError, UnicodeError) as e:
        raise ComponentFailed(no_cluster(address[:80], str(e))) from None


def check_cluster(address: str) -> None:
    """Runs `ray status` at an address, for 25 seconds at most: what accepts connections there may not be Ray.

    Raises:
        ComponentFailed: no Ray cluster answers there.
    """
    if address in _HERE:
        return
    try:
        done = subprocess.run(  # noqa: S603
            [*_STATUS, address], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_STATUS_S
        )
    except subprocess.TimeoutExpired:
        reason = f"what accepts connections there did not answer as Ray within {_STATUS_S:.0f} s"
        raise ComponentFailed(no_cluster(address, reason)) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"ray status ended with {done.returncode}"])[-1]
        raise ComponentFailed(no_cluster(address, last[:160]))


def no_cluster(address: str, reason: str) -> str:
    """Returns the message for an address where there is no cluster."""
    advice = "start one with ray start --head, or unset PALIMPSEST_BATCHES"
    return f"RAY_ADDRESS: no Ray cluster at {address or 'this machine'} ({reason}); {advice}"
