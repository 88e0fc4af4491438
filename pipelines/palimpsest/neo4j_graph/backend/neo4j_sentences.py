"""The passages of a scope in Neo4j, and the sentences of some memories from their packed blocks."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from palimpsest.query.scope.memory_sentences import MemorySentences
from palimpsest.query.scope.passage_graph import PassageGraph
from palimpsest.query.scope.scope_arrays import Arrays
from palimpsest.text.sentence_terms import SentenceTerms


@dataclass(frozen=True)
class Passages:
    """The passage graph of a scope, and what its sentences need.

    Attributes:
        graph: None where the scope has no names.
        entity_of: local numbers of entities by the hash of their ids.
    """

    graph: PassageGraph | None
    entity_of: dict[int, int]

    @classmethod
    def from_arrays(cls, arrays: Arrays, size: int) -> "Passages":
        """Makes it of the part `passages` of a scope of `size` memories."""
        if not arrays:
            return cls(None, {})
        numbers = {h: i for i, h in enumerate(arrays["hashes"].tolist())}
        return cls(PassageGraph.from_arrays(arrays, size), numbers)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return (self.graph.nbytes if self.graph else 0) + 100 * len(self.entity_of)


def sentences_of(
    blocks: Iterable[Arrays], wanted: dict[str, int], entity_of: dict[int, int]
) -> dict[int, MemorySentences]:
    """Returns the sentences of memories, by local row.

    Args:
        blocks: unpacked blocks of sentences.
        wanted: local rows by memory id.
        entity_of: see `Passages`.
    """
    out = {}
    for block in blocks:
        ends = np.cumsum(block["sizes"])
        first = _starts(block["counts"])
        terms_at = _starts(block["term_counts"]) if "terms" in block else None
        spans = block["spans"].reshape(-1, 2)
        for i, memory_id in enumerate(block["ids"]):
            if memory_id not in wanted:
                continue
            a, b = int(ends[i] - block["sizes"][i]), int(ends[i])
            hashes = [block["entities"][first[k] : first[k + 1]].tolist() for k in range(a, b)]
            entities = np.array([e for of in hashes for e in sorted(entity_of[h] for h in of)], np.int64)
            words = None
            if terms_at is not None:
                keys = block["terms"][terms_at[a] : terms_at[b]].copy()
                words = SentenceTerms(spans[a:b].copy(), block["term_counts"][a:b].copy(), keys)
            is_named = bool(block["named"][i]) if "named" in block else True
            counts = block["counts"][a:b].astype(np.int64) if is_named else None
            vectors = block["vectors"][a:b].copy()  # copied: a view would keep the whole block
            vectors = vectors if len(vectors) == b - a else None
            out[wanted[memory_id]] = MemorySentences(spans[a:b].copy(), counts, entities, vectors, words)
    return out


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)])
