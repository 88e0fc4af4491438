"""Reads two statements together: all-MiniLM-L6-v2, fine-tuned to tell how the newer relates to the older, as int8 ONNX.

Two networks, trained on different pairs for different times, are averaged: each is wrong where the other is not. The
graphs lack the table of word vectors, which training leaves as it is: it comes from the embedder's package. Each pair
is its own batch, because the scale of int8 activations is taken over a batch: a pair's probabilities then never depend
on other pairs. `palimpsest.eval.labels.training.train_encoder` trains them; data/models/README.md is their card.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from palimpsest.core.errors import ComponentFailed
from palimpsest.relations.classify.encoder.word_vectors import load_tokenizer, word_vector_table
from palimpsest.store.home import SHIPPED

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Encoding, Tokenizer

ENCODER_CLASSES = ("update", "extend", "conditional", "derive", "none", "static")
"""In the order of the graph's output. `conditional` is an EXTEND, `static` a NONE that contradicts the older."""
MAX_PAIR_TOKENS = 96
GRAPH_FILES = ("models/pair_encoder_1.onnx", "models/pair_encoder_2.onnx")
_INPUTS = ("word_vectors", "token_type_ids")
_THREADS = 2


@dataclass(frozen=True)
class PairEncoder:
    """A classifier of (older, newer) texts.

    Attributes:
        graphs: serialized ONNX models, whose probabilities are averaged.
    """

    graphs: tuple[bytes, ...]

    @cached_property
    def key(self) -> str:
        """Names the weights."""
        return hashlib.sha256(b"".join(self.graphs)).hexdigest()[:16]

    def predict(self, pairs: Sequence[tuple[str, str]], advance: Callable[[int], None] = lambda n: None) -> np.ndarray:
        """Returns probabilities of (older, newer) texts, shape (len(pairs), len(ENCODER_CLASSES)) float32.

        Of each pair the first 96 tokens are read, the longer text is cut first.

        Args:
            pairs: the texts.
            advance: is called with 1 after each pair.
        """
        out = np.zeros((len(pairs), len(ENCODER_CLASSES)), np.float32)
        if not pairs:
            return out
        encodings = self._tokenizer.encode_batch(list(pairs))
        with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as threads:
            for i, row in enumerate(threads.map(self._run, encodings)):
                out[i] = row
                advance(1)
        return out

    def _run(self, encoding: "Encoding") -> np.ndarray:
        vectors = word_vector_table()[encoding.ids][None]
        fed = dict(zip(_INPUTS, (vectors, np.array([encoding.type_ids], np.int64)), strict=True))
        found = [session.run(None, fed)[0][0] for session in self._sessions]
        return np.asarray(np.mean(found, axis=0), np.float32)

    @cached_property
    def _sessions(self) -> "list[InferenceSession]":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            return [
                onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
                for graph in self.graphs
            ]
        except Exception as e:  # onnxruntime raises classes of its own
            raise ComponentFailed(
                f"pair encoder: not an ONNX model ({type(e).__name__}); install palimpsest-memory again"
            ) from None

    @cached_property
    def _tokenizer(self) -> "Tokenizer":
        tokenizer = load_tokenizer()
        tokenizer.enable_truncation(MAX_PAIR_TOKENS)
        return tokenizer


@lru_cache(maxsize=1)
def pair_encoder() -> PairEncoder:
    """Returns the encoder that comes with Palimpsest, opened when it is first used.

    Raises:
        ComponentFailed: its file is missing.
    """
    try:
        return PairEncoder(tuple((SHIPPED / name).read_bytes() for name in GRAPH_FILES))
    except OSError as e:
        raise ComponentFailed(f"pair encoder: {e.filename} cannot be read; install palimpsest-memory again") from None
