"""Which two memories answer a question together: one found by itself, and one that it names with the words it lacks.

Neither has the whole answer of a question over two steps, so neither scores best alone. A pair scores the base score of
its first memory plus what the second adds; both are lifted by the best pair that they are in.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from palimpsest.query.scope.passage_graph import PassageGraph
from palimpsest.query.scope.scope_arrays import Postings, word_sums

NONE = -1


@dataclass(frozen=True)
class Pairs:
    """The best pair of each memory.

    Attributes:
        share: e to the power of how far a memory's best pair, or a leading memory alone, is behind the best of all: 1
            for that, 0 for a memory that does not lead and is in no pair.
        partners: local row of the other memory of the pair; NONE for none.
        names: local entity number of the name that both have; NONE for none.
    """

    share: np.ndarray
    partners: np.ndarray
    names: np.ndarray


def best_pairs(
    graph: PassageGraph,
    leading: np.ndarray,
    base: np.ndarray,
    postings: Sequence[Postings],
    word: float,
    title: float,
    allowed: np.ndarray,
) -> Pairs:
    """Pairs each leading memory with all that share a name with it and add something.

    Args:
        graph: which memory names which entity.
        leading: local rows of the memories that a pair may start from.
        base: base scores of all memories, shape (memories,).
        postings: of the question's terms.
        word: contribution of 1 of BM25, of a term that the first memory lacks, on the scale of `base`.
        title: bonus where the name is the second memory's title.
        allowed: which memories may be reached, shape (memories,) bool.
    """
    best = np.full(graph.size, -np.inf)
    best[leading] = base[leading]
    partners, names = np.full(graph.size, NONE), np.full(graph.size, NONE)
    sums_by_missing: dict[tuple[bool, ...], np.ndarray] = {}
    lacking_of = np.array([p.scores_of(leading) == 0 for p in postings]).reshape(len(postings), len(leading)).T
    for row, lacks in zip(leading.tolist(), map(tuple, lacking_of.tolist()), strict=True):
        if lacks not in sums_by_missing:
            missing = [p for p, lacking in zip(postings, lacks, strict=True) if lacking]
            sums_by_missing[lacks] = word * word_sums(missing, graph.size)
        words = sums_by_missing[lacks]
        for entity in graph.entities[graph.edges_of(row)].tolist():
            for others, more in ((graph.rows[graph.edges_by_entity[entity]], 0.0), (graph.titled[entity], title)):
                adds = words[others] + more
                useful = (adds > 0) & allowed[others] & (others != row)
                others, scores = others[useful], base[row] + adds[useful]
                better = scores > best[others]
                new = others[better]
                best[new], partners[new], names[new] = scores[better], row, entity
                if len(scores) and scores.max() > best[row]:
                    at = int(scores.argmax())
                    best[row], partners[row], names[row] = scores[at], others[at], entity
    return Pairs(np.exp(best - best.max()) if len(leading) else np.zeros(graph.size), partners, names)
