"""Which two memories answer a question together: one found by itself, and one that it names with the words it lacks.

Neither holds the whole answer of a question that asks over two steps, so neither scores best alone. A pair scores what
its first memory does by itself and what the second adds; both are lifted by the best pair that holds them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from palimpsest.query.ranking.passage_graph import PassageGraph
from palimpsest.query.ranking.scope_cache import Postings
from palimpsest.query.ranking.view import word_sums

NOWHERE = -1


@dataclass(frozen=True)
class Pairs:
    """The best pair of each memory.

    Attributes:
        share: e to the power of how far a memory's best pair, or a leading memory alone, is behind the best of all: 1
            for that, 0 for a memory that does not lead and is in no pair.
        partners: local row of the other memory of the pair; NOWHERE for none.
        names: local entity number of the name that both say; NOWHERE for none.
    """

    share: np.ndarray
    partners: np.ndarray
    names: np.ndarray


def best_pairs(
    graph: PassageGraph,
    leading: np.ndarray,
    own: np.ndarray,
    postings: Sequence[Postings],
    word: float,
    title: float,
    allowed: np.ndarray,
) -> Pairs:
    """Pairs each leading memory with all that share a name with it and add something.

    Args:
        graph: who names what.
        leading: local rows of the memories that a pair may start from.
        own: scores of all memories by themselves, shape (memories,).
        postings: of the question's terms.
        word: what 1 of BM25, of a term that the first memory lacks, adds on the scale of `own`.
        title: what is added where the name is the second memory's title.
        allowed: which memories may be reached, shape (memories,) bool.
    """
    best = np.full(graph.size, -np.inf)
    best[leading] = own[leading]
    partners, names = np.full(graph.size, NOWHERE), np.full(graph.size, NOWHERE)
    known: dict[tuple[bool, ...], np.ndarray] = {}
    for row in leading.tolist():
        lacks = tuple(bool(p.scores_of(np.array([row]))[0] == 0) for p in postings)
        if lacks not in known:
            missing = [p for p, lacking in zip(postings, lacks, strict=True) if lacking]
            known[lacks] = word * word_sums(missing, graph.size)
        words = known[lacks]
        for entity in graph.entities[graph.edges_of(row)].tolist():
            for others, more in ((graph.rows[graph.places[entity]], 0.0), (graph.titled[entity], title)):
                adds = words[others] + more
                useful = (adds > 0) & allowed[others] & (others != row)
                others, scores = others[useful], own[row] + adds[useful]
                better = scores > best[others]
                new = others[better]
                best[new], partners[new], names[new] = scores[better], row, entity
                if len(scores) and scores.max() > best[row]:
                    at = int(scores.argmax())
                    best[row], partners[row], names[row] = scores[at], others[at], entity
    return Pairs(np.exp(best - best.max()) if len(leading) else np.zeros(graph.size), partners, names)
