"""The sentences of single memories, as a store reads and caches them, and those of several as one table."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from palimpsest.query.scope.passage_graph import Sentences
from palimpsest.text.sentence_terms import SentenceTerms, join_sentences

_OVERHEAD_BYTES = 600  # of one cache entry


@dataclass(frozen=True)
class MemorySentences:
    """The sentences of one memory.

    Attributes:
        spans: start and end of each in the text, shape (n, 2) int32.
        counts: how many entities each names, shape (n,); None where names are not indexed.
        entities: local numbers of these, the sentences one after the other, ascending in each.
        vectors: float16, shape (n, dimensions); None where the build embedded none.
        words: None in a build of an earlier version.
    """

    spans: np.ndarray
    counts: np.ndarray | None
    entities: np.ndarray
    vectors: np.ndarray | None
    words: SentenceTerms | None

    @property
    def nbytes(self) -> int:
        """Size in bytes, the bookkeeping of one cache entry included."""
        words = [self.words.counts, self.words.keys] if self.words else []
        arrays = [self.spans, self.counts, self.entities, self.vectors, *words]
        return sum(a.nbytes for a in arrays if a is not None) + _OVERHEAD_BYTES


NO_SENTENCES = MemorySentences(np.zeros((0, 2), "<i4"), None, np.zeros(0, np.int64), None, None)


def join_named(found: Mapping[int, MemorySentences], words: Mapping[int, SentenceTerms]) -> Sentences:
    """Returns the sentences of memories by local row as one table.

    Args:
        found: memories whose names are indexed.
        words: of them; not read where all sentences have vectors.
    """
    vectors = [s.vectors for s in found.values() if s.vectors is not None]
    counts = [s.counts for s in found.values() if s.counts is not None]
    embedded = bool(found) and len(vectors) == len(found)
    nothing = np.zeros(0, np.int64)
    return Sentences(
        np.repeat(np.array(list(found), np.int64), [len(c) for c in counts]),
        np.concatenate([nothing, *counts]),
        np.concatenate([nothing, *(s.entities for s in found.values())]),
        np.concatenate(vectors).astype(np.float32) if embedded else None,
        join_sentences([] if embedded else list(words.values())),
    )
