"""The default embedder, all-MiniLM-L6-v2, as a graph of whole numbers that builds and questions share.

Each text is an input of its own, without padding: the scale of int8 activations is taken over an input, so that a
vector is a pure function of its text, whatever is embedded with it. `palimpsest_eval.training.export_embedder` makes
the graph of the weights of sentence-transformers; data/models has its figures.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

from palimpsest.core.files import SHIPPED
from palimpsest.core.onnx_graph import open_graph
from palimpsest.memories.vector_space import Done
from palimpsest.text.tokenizer import tokenizer

MODEL_ID = "all-MiniLM-L6-v2"
MODEL_FILE = "models/sentence_embedder.onnx"
DIMENSIONS = 384
MAX_TOKENS = 256
_MAX_CHARS = 20_000  # far beyond 256 tokens of any script: the tokenizer need not read a megabyte
_TEXTS_PER_REPORT = 64


def vector_space() -> str:
    """Returns the name of all that a vector depends on besides its text: the model and its number format."""
    return f"{MODEL_ID}-int8"


class MiniLM:
    """See BatchEmbedder and QuestionEmbedder. Safe to share between threads.

    Raises:
        ComponentFailed: the graph is missing or damaged.
    """

    def __init__(self) -> None:
        self._session = open_graph(SHIPPED / MODEL_FILE, f"embedder: data/{MODEL_FILE} cannot be loaded")
        self._tokenizer = tokenizer()

    def encode(self, texts: Sequence[str], done: Done | None = None) -> np.ndarray:
        """See BatchEmbedder. `done` gets the texts in order of their length."""
        return encode_apart(self.embed, DIMENSIONS, texts, done)

    def embed(self, text: str) -> np.ndarray:
        """Returns the unit vector of a text, shape (384,) float32: the mean of its first 256 tokens' states."""
        tokens = self._tokenizer.encode(text[:_MAX_CHARS]).ids
        if len(tokens) > MAX_TOKENS:
            tokens = [*tokens[: MAX_TOKENS - 1], tokens[-1]]  # the last one ends every text
        (means,) = self._session.run(None, {"input_ids": np.array([tokens], np.int64)})
        return np.ascontiguousarray(means[0] / max(float(np.linalg.norm(means[0])), 1e-12), dtype=np.float32)


def encode_apart(
    embed: Callable[[str], np.ndarray], dimensions: int, texts: Sequence[str], done: Done | None = None
) -> np.ndarray:
    """Embeds texts one by one, in a thread for each processor.

    Args:
        embed: of one text.
        dimensions: of a vector.
        texts: the shorter ones are embedded first.
        done: see BatchEmbedder.
    """
    out = np.zeros((len(texts), dimensions), np.float32)
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        for start in range(0, len(order), _TEXTS_PER_REPORT):
            rows = order[start : start + _TEXTS_PER_REPORT]
            out[rows] = np.stack(list(threads.map(embed, (texts[i] for i in rows))))
            if done is not None:
                done(rows, out[rows])
    return out


@lru_cache(maxsize=1)
def load_embedder() -> MiniLM:
    """Returns the embedder of this process, loaded once."""
    return MiniLM()
