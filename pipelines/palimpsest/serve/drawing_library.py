"""The library that draws the graph (Cytoscape.js, MIT): one file of a locked WebJar, and its license."""

import threading
import time
import zipfile
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.maven import JarSet, fetch_jars

JARS = JarSet("the page's graph", Path(__file__).with_name("jars.lock"), "PALIMPSEST_PAGE_JARS", "page-jars")
_FOLDER = "META-INF/resources/webjars/cytoscape/3.33.1/"
_MEMBERS = {"cytoscape.js": "dist/cytoscape.esm.min.mjs", "cytoscape.license.txt": "LICENSE"}
NAMES = frozenset(_MEMBERS)
"""The files that `DrawingLibrary.read` gives."""
RETRY_S = 120.0
"""From a failure to the next attempt."""


class DrawingLibrary:
    """Fetches the jar when it is first needed, and keeps the two files that the page has of it."""

    def __init__(self) -> None:
        self._lock, self._files, self._not_before = threading.Lock(), dict[str, bytes](), 0.0

    def read(self, name: str) -> bytes:
        """Returns one of `NAMES`.

        Raises:
            PalimpsestError: the jar cannot be fetched, or is not the one of the lock.
        """
        if not self._files:
            self._fetch()
        return self._files[name]

    def _fetch(self) -> None:
        """Reads the jar, in one request at a time and not again soon after a failure: others do not wait.

        Raises:
            PalimpsestError: the jar cannot be had now.
        """
        if time.monotonic() < self._not_before or not self._lock.acquire(blocking=False):
            raise PalimpsestError("the library that draws the graph is not here yet")
        try:
            self._not_before = time.monotonic() + RETRY_S
            (jar,) = fetch_jars(JARS)
            with zipfile.ZipFile(jar) as archive:
                self._files = {n: archive.read(_FOLDER + member) for n, member in _MEMBERS.items()}
        except (OSError, zipfile.BadZipFile, KeyError):
            raise PalimpsestError(f"{JARS.folder}: a jar cannot be read; remove it, it is fetched again") from None
        finally:
            self._lock.release()
