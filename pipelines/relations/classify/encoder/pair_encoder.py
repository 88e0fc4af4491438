"""Reads two statements together: all-MiniLM-L6-v2, fine-tuned to tell how the newer relates to the older, as int8 ONNX.

The graph lacks the table of word vectors, which training leaves as it is: it comes from the embedder's package. Each
pair is its own batch, because the scale of int8 activations is taken over a batch: a pair's probabilities then never
depend on other pairs. `palimpsest.eval.labels.training.train_encoder` trains it; data/models/README.md is its card.
"""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from palimpsest.core.errors import ComponentFailed
from palimpsest.memories.embed import model_folder
from palimpsest.store.home import SHIPPED

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Encoding, Tokenizer

ENCODER_CLASSES = ("update", "extend", "conditional", "derive", "none", "static")
"""In the order of the graph's output. `conditional` is an EXTEND, `static` a NONE that contradicts the older."""
MAX_PAIR_TOKENS = 96
GRAPH_FILE = "models/pair_encoder.onnx"
_INPUTS = ("word_vectors", "token_type_ids")
_WORD_VECTORS = "embeddings.word_embeddings.weight"
_THREADS = 2


@dataclass(frozen=True)
class PairEncoder:
    """A classifier of (older, newer) texts.

    Attributes:
        graph: the serialized ONNX model.
    """

    graph: bytes

    @cached_property
    def key(self) -> str:
        """Names the weights."""
        return hashlib.sha256(self.graph).hexdigest()[:16]

    def predict(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Returns probabilities of (older, newer) texts, shape (len(pairs), len(ENCODER_CLASSES)) float32.

        Of each pair the first 96 tokens are read, the longer text is cut first.
        """
        out = np.zeros((len(pairs), len(ENCODER_CLASSES)), np.float32)
        if not pairs:
            return out
        encodings = self._tokenizer.encode_batch(list(pairs))
        with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as threads:
            for i, row in enumerate(threads.map(self._run, encodings)):
                out[i] = row
        return out

    def _run(self, encoding: "Encoding") -> np.ndarray:
        fed = (self._word_vectors[encoding.ids][None], np.array([encoding.type_ids], np.int64))
        (probabilities,) = self._session.run(None, dict(zip(_INPUTS, fed, strict=True)))
        return np.asarray(probabilities[0], np.float32)

    @cached_property
    def _session(self) -> "InferenceSession":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(self.graph, options, providers=["CPUExecutionProvider"])

    @cached_property
    def _tokenizer(self) -> "Tokenizer":
        from tokenizers import Tokenizer

        loaded = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
        loaded.no_padding()
        loaded.enable_truncation(MAX_PAIR_TOKENS)
        return loaded

    @cached_property
    def _word_vectors(self) -> np.ndarray:
        from safetensors import safe_open

        with safe_open(model_folder() / "model.safetensors", framework="numpy") as weights:
            return np.asarray(weights.get_tensor(_WORD_VECTORS), np.float32)


@lru_cache(maxsize=1)
def pair_encoder() -> PairEncoder:
    """Returns the encoder that comes with Palimpsest, opened when it is first used.

    Raises:
        ComponentFailed: its file is missing.
    """
    try:
        return PairEncoder((SHIPPED / GRAPH_FILE).read_bytes())
    except OSError as e:
        raise ComponentFailed(f"pair encoder: {e.filename} cannot be read; install palimpsest-memory again") from None
