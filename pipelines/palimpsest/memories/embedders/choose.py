"""The space and the embedder of a setting."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import read_json, write_json
from palimpsest.core.ids import content_id
from palimpsest.memories import embed
from palimpsest.memories.embedders import sentence_model, server
from palimpsest.memories.embedders.bge_small import bge_space, load_bge
from palimpsest.memories.embedders.space import (
    BGE_SMALL,
    MINILM,
    BatchEmbedder,
    QuestionEmbedder,
    Space,
    SpaceParts,
)


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
    if setting.startswith(server.PREFIX):
        return server.load_server(setting, dimensions)
    return sentence_model.load_model(setting)


class _Both(BatchEmbedder, QuestionEmbedder, Protocol):
    """Embeds texts and questions."""


def _parts(setting: str, dimensions: int) -> SpaceParts:
    if setting.startswith(server.PREFIX):
        return server.server_parts(setting, dimensions)
    return sentence_model.model_parts(setting, sentence_model.model_folder(setting), dimensions)


def _measure_dimensions(setting: str) -> int:
    if setting.startswith(server.PREFIX):
        return len(server.load_server(setting, 0).embed("dimension"))
    return sentence_model.load_model(setting).dimensions


def _recorded_dimensions(parts: SpaceParts, vectors: Path, measure: Callable[[], int]) -> int:
    path = vectors / f"{content_id('dimensions', parts.name)}.json"
    if (known := (read_json(path) or {}).get("dimensions")) is None:
        known = measure()
        vectors.mkdir(parents=True, exist_ok=True)
        write_json(path, {"space": parts.name, "dimensions": known})
    return int(known)
