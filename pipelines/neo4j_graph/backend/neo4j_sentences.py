"""The passages of a scope in Neo4j, and the sentences of some memories from their packed blocks."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from palimpsest.query.scope.passage_graph import PassageGraph
from palimpsest.query.scope.scope_arrays import Arrays


@dataclass(frozen=True)
class Passages:
    """The passage graph of a scope, and what its sentences need.

    Attributes:
        graph: None where the scope has no names.
        entity_of: local numbers of entities by the hash of their ids.
        blocks: number of blocks of sentences.
    """

    graph: PassageGraph | None
    entity_of: dict[int, int]
    blocks: int

    @classmethod
    def from_arrays(cls, arrays: Arrays, size: int) -> "Passages":
        """Makes it of the part `passages` of a scope of `size` memories."""
        if not arrays:
            return cls(None, {}, 1)
        numbers = {h: i for i, h in enumerate(arrays["hashes"].tolist())}
        return cls(PassageGraph.from_arrays(arrays, size), numbers, int(arrays["blocks"][0]))

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return (self.graph.nbytes if self.graph else 0) + 100 * len(self.entity_of)


@dataclass(frozen=True)
class MemorySentences:
    """The sentences of one memory: spans, entities of each, and vectors, which may be none."""

    spans: np.ndarray
    entities: list[np.ndarray]
    vectors: np.ndarray


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
        first = np.concatenate([[0], np.cumsum(block["counts"])])
        spans = block["spans"].reshape(-1, 2)
        for i, memory_id in enumerate(block["ids"]):
            if memory_id in wanted:
                a, b = int(ends[i] - block["sizes"][i]), int(ends[i])
                hashes = [block["entities"][first[k] : first[k + 1]].tolist() for k in range(a, b)]
                entities = [np.sort(np.array([entity_of[h] for h in of], np.int64)) for of in hashes]
                out[wanted[memory_id]] = MemorySentences(spans[a:b], entities, block["vectors"][a:b])
    return out
