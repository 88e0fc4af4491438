"""How alike two words are: vectors of word pieces, made by the embedder reading each piece alone.

A word's vector is the sum of those of its pieces. The table is small enough to ship (30,522 x 64 bytes);
`palimpsest.eval.abstention.word_table` makes it.
"""

import threading
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from palimpsest.store.home import SHIPPED
from palimpsest.text.tokenizer import tokenizer

TABLE_FILE = "models/word_vectors.npy"
_CACHED_WORDS = 20_000
_known: dict[str, np.ndarray] = {}
_lock = threading.Lock()


@lru_cache(maxsize=1)
def _table() -> np.ndarray:
    # As a plain array: rows of a memmap take five times as long to select.
    table: np.ndarray = np.asarray(np.load(SHIPPED / TABLE_FILE, allow_pickle=False, mmap_mode="r"))
    return table


def word_vectors(words: Sequence[str]) -> np.ndarray:
    """Returns the unit vectors of words without white space, shape (len(words), 64); zeros for one without pieces."""
    found = {word: _known.get(word) for word in words}
    if missing := [word for word, vector in found.items() if vector is None]:
        made = dict(zip(missing, _make_vectors(missing), strict=True))
        with _lock:
            if len(_known) + len(made) > _CACHED_WORDS:
                _known.clear()
            _known.update(made)
        found |= made
    return np.array([found[word] for word in words], np.float32)


def _make_vectors(words: Sequence[str]) -> np.ndarray:
    """Returns the vectors of words; they are read as one text, which takes a fifth of the time of each alone."""
    read = tokenizer().encode(" ".join(words), add_special_tokens=False)
    starts = np.cumsum([0, *(len(word) + 1 for word in words[:-1])])
    word_of = np.searchsorted(starts, np.array([start for start, _ in read.offsets], np.int64), side="right") - 1
    totals = np.zeros((len(words), _table().shape[1]), np.float32)
    np.add.at(totals, word_of, _table()[read.ids].astype(np.float32))
    lengths: np.ndarray = np.linalg.norm(totals, axis=1, keepdims=True)
    vectors: np.ndarray = totals / np.maximum(lengths, np.float32(1e-9))
    return vectors


def similarities(words: tuple[str, ...], others: list[str]) -> np.ndarray:
    """Returns the cosine of each of `words` with each of `others`, shape (len(words), len(others)) float32."""
    if not words or not others:
        return np.zeros((len(words), len(others)), np.float32)
    cosines: np.ndarray = word_vectors(words) @ word_vectors(others).T
    return cosines
