"""The library that draws the graph (Cytoscape.js, MIT): one file of a locked WebJar, and its license."""

import threading
import zipfile
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.maven import JarSet, fetch_jars

JARS = JarSet("the page's graph", Path(__file__).with_name("jars.lock"), "PALIMPSEST_PAGE_JARS", "page-jars")
_FOLDER = "META-INF/resources/webjars/cytoscape/3.33.1/"
_MEMBERS = {"cytoscape.js": "dist/cytoscape.esm.min.mjs", "cytoscape.license.txt": "LICENSE"}
NAMES = frozenset(_MEMBERS)
"""The files that `DrawingLibrary.read` gives."""


class DrawingLibrary:
    """Fetches the jar when it is first needed, and keeps the two files that the page has of it."""

    def __init__(self) -> None:
        self._lock, self._files = threading.Lock(), dict[str, bytes]()

    def read(self, name: str) -> bytes:
        """Returns one of `NAMES`.

        Raises:
            PalimpsestError: the jar cannot be fetched, or is not the one of the lock.
        """
        with self._lock:
            if not self._files:
                (jar,) = fetch_jars(JARS)
                try:
                    with zipfile.ZipFile(jar) as archive:
                        self._files = {n: archive.read(_FOLDER + member) for n, member in _MEMBERS.items()}
                except (OSError, zipfile.BadZipFile, KeyError):
                    raise PalimpsestError(f"{jar}: cannot be read; remove it, it is fetched again") from None
            return self._files[name]
