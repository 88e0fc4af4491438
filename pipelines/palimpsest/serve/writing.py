"""One change of the home at a time: what requests decide or edit waits for a build for a moment, then says so."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from palimpsest.core.errors import PalimpsestError
from palimpsest.serve.problems import Problem
from palimpsest.store.home import Home

WAIT_S = 0.5
_BUSY = "a build is running; send it again when it is done"
_RETRY = {"Retry-After": "15"}


class Writer:
    """Lets one request after the other change a home."""

    def __init__(self, home: Home):
        self._home, self._lock = home, threading.Lock()  # the home's lock excludes other processes, not threads

    @contextmanager
    def change(self) -> Iterator[Home]:
        """Gives the home to one request.

        Yields:
            The home.

        Raises:
            Problem: 503, where a build or another request has the home.
        """
        with ExitStack() as locks:
            if not self._lock.acquire(timeout=WAIT_S):
                raise Problem(503, _BUSY, _RETRY)
            locks.callback(self._lock.release)
            try:
                locks.enter_context(self._home.lock(WAIT_S))
            except PalimpsestError:
                raise Problem(503, _BUSY, _RETRY) from None
            yield self._home
