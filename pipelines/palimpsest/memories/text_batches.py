"""Texts cut into batches that any worker embeds to the same bits, and an embedder that has them computed elsewhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from palimpsest.core.ids import content_id
from palimpsest.core.parallel import Batch, BatchRunner, cut
from palimpsest.memories.embed import MAX_TOKENS
from palimpsest.memories.embedders import load_batch_embedder
from palimpsest.memories.vector_space import MINILM, Done, Space
from palimpsest.memories.windows import SPECIAL_TOKENS
from palimpsest.text.tokenizer import count_tokens_batch

# The shapes of `memories.embed`, which a test compares; its module is part of the key of labels and stays as it is.
_WIDTH_STEP = 16
_TOKENS_PER_BATCH = 512
_TEXTS_PER_BATCH = 32  # of embedders that take texts one by one

_WORDS = ("the", "river", "was", "cold", "and", "we", "met", "at", "seven", "near", "old", "bridge", "with", "two")
PROBE_TEXTS = tuple(
    " ".join(_WORDS[(width + i) % len(_WORDS)] for i in range(width - SPECIAL_TOKENS))
    for width in range(_WIDTH_STEP, MAX_TOKENS + 1, _WIDTH_STEP)
)
"""One text for each shape of a batch: a processor may compute each by another kernel."""


@dataclass(frozen=True)
class EmbedWork:
    """Embeds texts in a space; see BatchWork."""

    space: Space

    @property
    def name(self) -> str:
        """See BatchWork."""
        return "embed"

    def load(self) -> Callable[[Sequence[str]], np.ndarray]:
        """See BatchWork."""
        return load_batch_embedder(self.space).encode

    def probe(self, compute: Callable[[Sequence[str]], np.ndarray]) -> str:
        """See BatchWork."""
        return content_id(self.space.name, compute(PROBE_TEXTS).tobytes().hex())


@dataclass(frozen=True)
class DistributedEmbedder:
    """See BatchEmbedder: workers embed batches, each of one shape."""

    space: Space
    runner: BatchRunner

    def encode(self, texts: Sequence[str], done: Done | None = None) -> np.ndarray:
        """See BatchEmbedder."""
        out = np.zeros((len(texts), self.space.dimensions), np.float32)
        for batch, vectors in self.runner.run(EmbedWork(self.space), text_batches(self.space, texts)):
            rows = list(batch.rows)
            out[rows] = vectors
            if done is not None:
                done(rows, vectors)
        return out


def text_batches(space: Space, texts: Sequence[str]) -> list[Batch[str]]:
    """Returns batches of texts: for MiniLM those of one padded width together, as many as fill its fixed shape."""
    if space.embedder != MINILM:
        return cut(range(len(texts)), texts, _TEXTS_PER_BATCH, str)
    by_width: dict[int, list[int]] = {}
    for row, tokens in enumerate(count_tokens_batch(texts)):
        width = min(MAX_TOKENS, -(-(tokens + SPECIAL_TOKENS) // _WIDTH_STEP) * _WIDTH_STEP)
        by_width.setdefault(width, []).append(row)
    shapes = ((max(1, _TOKENS_PER_BATCH // width), rows) for width, rows in sorted(by_width.items()))
    return [batch for size, rows in shapes for batch in cut(rows, texts, size, str)]
