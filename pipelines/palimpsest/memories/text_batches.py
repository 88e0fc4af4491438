"""Texts cut into batches that any worker embeds to the same bits, and an embedder that has them computed elsewhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from palimpsest.core.ids import content_id
from palimpsest.core.parallel import Batch, BatchRunner, cut
from palimpsest.memories.embed import MAX_TOKENS
from palimpsest.memories.embedders import load_batch_embedder
from palimpsest.memories.vector_space import Done, Space
from palimpsest.text.tokenizer import tokenizer

# What is embedded of a memory's text: the whole where it fits the embedder, else windows that overlap.

SPECIAL_TOKENS = 2  # [CLS] and [SEP]
_WINDOW_TOKENS = 250 - SPECIAL_TOKENS
_OVERLAP_TOKENS = 48
_PREFIX_TOKENS = 64  # of each window at most: the rest is the memory's own text


def window_texts(prefixes: Sequence[str], texts: Sequence[str]) -> list[list[str]]:
    """Returns what to embed of each text: prefix + text where that fits 256 tokens, else its windows in order.

    A window is the prefix (truncated to 64 tokens) and whole words of the text, at most 250 tokens in all; each starts
    about 48 tokens before the end of the previous one.
    """
    if not texts:
        return []
    encode = tokenizer().encode_batch
    out: list[list[str]] = []
    heads = encode(list(prefixes), add_special_tokens=False)
    bodies = encode(list(texts), add_special_tokens=False)
    for prefix, text, head, body in zip(prefixes, texts, heads, bodies, strict=True):
        if len(head) + len(body) + SPECIAL_TOKENS <= MAX_TOKENS:
            out.append([prefix + text])
            continue
        if len(head) > _PREFIX_TOKENS:
            prefix = prefix[: head.offsets[_word_start(head.word_ids, _PREFIX_TOKENS)][0]].rstrip(". ") + ". "
            limit = _WINDOW_TOKENS - _PREFIX_TOKENS - 1
        else:
            limit = _WINDOW_TOKENS - len(head)
        out.append([prefix + text[a:b] for a, b in _window_spans(body.word_ids, body.offsets, len(text), limit)])
    return out


def _window_spans(
    words: Sequence[int | None], offsets: Sequence[tuple[int, int]], text_end: int, limit: int
) -> list[tuple[int, int]]:
    """Returns the spans, in characters, of windows over a text; `words` is the number of the word of each token."""
    spans: list[tuple[int, int]] = []
    start, count = 0, len(words)
    while True:
        end = count if start + limit >= count else _word_start(words, start + limit)
        if end <= start:  # one word longer than a window, which the tokenizer does not make
            end = start + limit
        spans.append((offsets[start][0] if spans else 0, text_end if end >= count else offsets[end - 1][1]))
        if end >= count:
            return spans
        start = max(start + 1, _word_start(words, end - _OVERLAP_TOKENS)) if limit > 2 * _OVERLAP_TOKENS else end


def _word_start(words: Sequence[int | None], token: int) -> int:
    """Returns the nearest token at or before `token` that starts a word."""
    while token > 0 and words[token] == words[token - 1]:
        token -= 1
    return token


_TEXTS_PER_BATCH = 32
_PROBE_STEP = 16

_WORDS = ("the", "river", "was", "cold", "and", "we", "met", "at", "seven", "near", "old", "bridge", "with", "two")
PROBE_TEXTS = tuple(
    " ".join(_WORDS[(width + i) % len(_WORDS)] for i in range(width - SPECIAL_TOKENS))
    for width in range(_PROBE_STEP, MAX_TOKENS + 1, _PROBE_STEP)
)
"""Texts of many lengths: a processor may compute each by another kernel."""


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
    """See BatchEmbedder: workers embed batches."""

    space: Space
    runner: BatchRunner

    def encode(self, texts: Sequence[str], done: Done | None = None) -> np.ndarray:
        """See BatchEmbedder."""
        out = np.zeros((len(texts), self.space.dimensions), np.float32)
        for batch, vectors in self.runner.run(EmbedWork(self.space), text_batches(texts)):
            rows = list(batch.rows)
            out[rows] = vectors
            if done is not None:
                done(rows, vectors)
        return out


def text_batches(texts: Sequence[str]) -> list[Batch[str]]:
    """Returns batches of texts."""
    return cut(range(len(texts)), texts, _TEXTS_PER_BATCH, str)
