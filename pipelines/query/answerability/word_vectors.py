"""How alike two words are: vectors of word pieces, made by the embedder reading each piece alone.

A word's vector is the sum of those of its pieces. The table is small enough to ship (30,522 x 64 bytes);
`palimpsest.eval.abstention.word_table` makes it.
"""

from functools import lru_cache

import numpy as np

from palimpsest.store.home import SHIPPED
from palimpsest.text.tokenizer import tokenizer

TABLE_FILE = "models/word_vectors.npy"
_CACHED_WORDS = 20_000


@lru_cache(maxsize=1)
def _table() -> np.ndarray:
    table: np.ndarray = np.load(SHIPPED / TABLE_FILE, allow_pickle=False, mmap_mode="r")
    return table


@lru_cache(maxsize=_CACHED_WORDS)
def word_vector(word: str) -> np.ndarray:
    """Returns the unit vector of a word, shape (64,) float32; zeros where it has no pieces."""
    ids = tokenizer().encode(word, add_special_tokens=False).ids
    total = _table()[ids].astype(np.float32).sum(axis=0)
    vector: np.ndarray = total / max(float(np.linalg.norm(total)), 1e-9)
    vector.setflags(write=False)
    return vector


def similarities(words: tuple[str, ...], others: list[str]) -> np.ndarray:
    """Returns the cosine of each of `words` with each of `others`, shape (len(words), len(others)) float32."""
    if not words or not others:
        return np.zeros((len(words), len(others)), np.float32)
    cosines: np.ndarray = np.stack([word_vector(w) for w in words]) @ np.stack([word_vector(w) for w in others]).T
    return cosines
