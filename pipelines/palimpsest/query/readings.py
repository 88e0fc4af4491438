"""What the reader of answers said before of a question and a line of a memory: the gate asks mostly the same again.

Of a question and a line only a hash of eight bytes is kept. A delete removes the file with the report of its build.
"""

import threading
from collections.abc import Callable
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from palimpsest.core.files import write_private

READINGS_FILE = "readings.npz"
MOST = 500_000
"""Readings that a file has: 6 MB."""


class Readings:
    """Log odds by question and line, of one model. Safe to share between threads."""

    def __init__(self, model: str, earlier: Path | None = None):
        """Reads those of a file.

        Args:
            model: names the weights: of others nothing is taken.
            earlier: written by `save`; one that is missing or damaged has none.
        """
        self._model, self._lock = model, threading.Lock()
        self._before = _read(earlier, model) if earlier is not None else {}
        self._now: dict[int, float] = {}

    def of(self, question: str, line: str, read: Callable[[str, str], float]) -> float:
        """Returns the log odds of a line; `read` computes them where they are not known."""
        key = int.from_bytes(blake2b(f"{question}\0{line}".encode("utf-8", "replace"), digest_size=8).digest(), "big")
        with self._lock:
            found = self._now.get(key, self._before.get(key))
        odds = read(question, line) if found is None else found
        with self._lock:
            self._now[key] = odds
        return odds

    def save(self, path: Path) -> None:
        """Writes what is known, of more than `MOST` what was needed since these were made."""
        with self._lock:
            found = {**self._before, **self._now}
            found = found if len(found) <= MOST else self._now
        keys, odds = np.array([*found], np.uint64), np.array([*found.values()], np.float32)
        order = np.argsort(keys)
        file = BytesIO()
        np.savez(file, model=np.array(self._model), keys=keys[order], odds=odds[order])
        write_private(path, file.getvalue())


def _read(path: Path, model: str) -> dict[int, float]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            if str(stored["model"]) != model:
                return {}
            return dict(zip(stored["keys"].tolist(), stored["odds"].tolist(), strict=True))
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return {}
