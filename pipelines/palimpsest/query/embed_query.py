"""Embeds a query: by MiniLM, which is loaded without torch, or as a space asks; and counts tokens."""

import threading
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from palimpsest.core.ids import text_hash
from palimpsest.memories.embed import load_embedder
from palimpsest.memories.vector_space import MINILM, QuestionEmbedder, Space
from palimpsest.text.tokenizer import tokenizer

MAX_CHARS = 20_000  # far beyond what an embedder reads of any script
_CACHED = 256
_COUNTED, _COUNTED_CHARS = 16_384, 300  # places and attributions, which results repeat

_lock = threading.Lock()
_loaded: dict[str, "_Remembered"] = {}  # by the name of the space, MiniLM's by its setting
_counts: dict[str, int] = {}  # tokens by the hash of a text


def query_embedder() -> QuestionEmbedder:
    """Returns MiniLM's embedder of this process, loaded once."""
    return _load_once(MINILM, load_embedder)


def embed_query(text: str, space: Space | None) -> np.ndarray:
    """Returns the unit vector of a question in a space, shape (dimensions,) float32; None means MiniLM's.

    Raises:
        PalimpsestError: the model is not the one that the index was built with, or cannot be loaded.
    """
    if space is None or space.embedder == MINILM:
        return query_embedder().embed(text)

    def load() -> QuestionEmbedder:
        # Imported here: a cold query with MiniLM needs none of the other embedders, nor their HTTP client.
        from palimpsest.memories.embedders import load_question_embedder

        return load_question_embedder(space)

    return _load_once(space.name, load).embed(text)


def _load_once(name: str, load: Callable[[], QuestionEmbedder]) -> "_Remembered":
    with _lock:
        if name not in _loaded:
            _loaded[name] = _Remembered(load())
        return _loaded[name]


class _Remembered:
    """An embedder of questions that keeps the vectors of the last ones. Safe to share between threads."""

    def __init__(self, embedder: QuestionEmbedder):
        self._embed = lru_cache(maxsize=_CACHED)(embedder.embed)

    def embed(self, text: str) -> np.ndarray:
        """Returns the unit vector of a question; nobody may change it."""
        vector = self._embed(text[:MAX_CHARS])
        vector.setflags(write=False)
        return vector


def count_tokens(text: str) -> int:
    """Returns the number of tokens of a text, special tokens left out, however long it is."""
    if len(text) > _COUNTED_CHARS:
        return _count(text)
    key = text_hash(text)  # of the text nothing is kept: it may be deleted
    if (count := _counts.get(key)) is None:
        if len(_counts) >= _COUNTED:
            _counts.clear()
        count = _counts[key] = _count(text)
    return count


def _count(text: str) -> int:
    return len(tokenizer().encode(text, add_special_tokens=False).ids)
