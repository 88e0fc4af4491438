"""Vector spaces: what a vector depends on besides its text. Vectors of two spaces are never compared.

A space's name has the model, number format, pooling, dimension, token limit, and a hash of the weights and prefixes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from palimpsest.core.ids import JsonRecord, content_id

MINILM, BGE_SMALL, MULTILINGUAL_E5 = "minilm", "bge-small-en-v1.5", "multilingual-e5-small"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")

Done = Callable[[list[int], np.ndarray], None]
"""Takes the indices of embedded texts, and their vectors."""


VectorLookup = Callable[[Sequence[str]], np.ndarray]
"""Maps n text hashes to their unit vectors, shape (n, dimensions) float32."""


@dataclass(frozen=True)
class Space(JsonRecord):
    """A vector space.

    Attributes:
        embedder: the setting that gives it.
        name: identifies it; also the name of its folder of vectors.
        dimensions: length of its vectors.
    """

    embedder: str
    name: str
    dimensions: int

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> "Space":
        """Reads what `to_json` wrote."""
        return cls(str(value["embedder"]), str(value["name"]), int(str(value["dimensions"])))


@dataclass(frozen=True)
class SpaceParts:
    """What a space's name is made of.

    Attributes:
        model: its short name.
        weights: hash of the weights, or what else tells two models of one name apart.
        dtype: number format of the model.
        pooling: how the states of a text's tokens become one vector.
        dimensions: length of a vector.
        max_tokens: tokens of a text that are read; 0 where a server decides.
        query_prefix: what precedes a question.
        text_prefix: what precedes a text.
    """

    model: str
    weights: str
    dtype: str
    pooling: str
    dimensions: int
    max_tokens: int
    query_prefix: str = ""
    text_prefix: str = ""

    @property
    def name(self) -> str:
        """Name of the space: what it says in plain, and a hash of the rest."""
        model = _UNSAFE.sub("-", self.model).strip("-.")[:60]
        key = content_id("space", self.model, self.weights, self.query_prefix, self.text_prefix)[:8]
        return f"{model}-{self.dtype}-{self.pooling}-{self.dimensions}d-{self.max_tokens}t-{key}"


@dataclass(frozen=True)
class IndexedSpace:
    """The vectors of a space.

    Attributes:
        name: of the space.
        dimensions: length of a vector.
        lookup: its vectors.
    """

    name: str
    dimensions: int
    lookup: VectorLookup


class BatchEmbedder(Protocol):
    """Embeds the texts of one space."""

    def encode(self, texts: Sequence[str], done: Done | None = None) -> np.ndarray:
        """Returns unit vectors, shape (len(texts), dimensions) float32, in the order of `texts`.

        Args:
            texts: texts; what is beyond the model's token limit is not read.
            done: called after each batch.
        """


class QuestionEmbedder(Protocol):
    """Embeds the questions of one space. Safe to share between threads."""

    def embed(self, text: str) -> np.ndarray:
        """Returns the unit vector of a question, shape (dimensions,) float32."""


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Returns the rows divided by their length, float32."""
    vectors = np.asarray(vectors, np.float32)
    lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return np.ascontiguousarray(vectors / lengths, np.float32)
