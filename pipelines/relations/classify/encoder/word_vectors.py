"""The embedder's table of word vectors, and words compared by it: no model runs."""

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from palimpsest.memories.embed import DIMENSIONS, model_folder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_TABLE = "embeddings.word_embeddings.weight"


@lru_cache(maxsize=1)
def word_vector_table() -> np.ndarray:
    """Returns the vector of each token of the embedder's vocabulary, shape (tokens, 384) float32."""
    from safetensors import safe_open

    with safe_open(model_folder() / "model.safetensors", framework="numpy") as weights:
        return np.asarray(weights.get_tensor(_TABLE), np.float32)


def load_tokenizer() -> "Tokenizer":
    """Returns the embedder's tokenizer, without padding and truncation."""
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    loaded.no_padding()
    loaded.no_truncation()
    return loaded


def cosine(a: Collection[str], b: Collection[str]) -> float:
    """Returns the cosine of the mean vectors of two sets of words, 0 where one is empty."""
    if not a or not b:
        return 0.0
    return float(np.round(mean_vector(frozenset(a)) @ mean_vector(frozenset(b)), 4))


@lru_cache(maxsize=65_536)
def mean_vector(words: frozenset[str]) -> np.ndarray:
    """Returns the unit vector of the mean of words, shape (384,) float32; zeros where none has a vector."""
    total = sum((_centered(word) for word in sorted(words)), np.zeros(DIMENSIONS, np.float32))
    length = float(np.linalg.norm(total))
    return total / np.float32(length) if length else total


@lru_cache(maxsize=65_536)
def _centered(word: str) -> np.ndarray:
    ids: Sequence[int] = _tokenizer().encode(word, add_special_tokens=False).ids
    if not ids:
        return np.zeros(DIMENSIONS, np.float32)
    found = word_vector_table()[ids].mean(axis=0) - _mean_of_table()
    return np.asarray(found / np.linalg.norm(found), np.float32)


@lru_cache(maxsize=1)
def _mean_of_table() -> np.ndarray:
    return np.asarray(word_vector_table().mean(axis=0), np.float32)


@lru_cache(maxsize=1)
def _tokenizer() -> "Tokenizer":
    return load_tokenizer()
