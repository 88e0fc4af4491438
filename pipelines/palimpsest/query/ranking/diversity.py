"""Diversity in a ranking: one that adds something comes before one that repeats a better one.

Maximal marginal relevance (Carbonell and Goldstein, 1998): the next result has the highest score, less a weight times
how much of it an earlier result has already. How much is the share of words in common.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from palimpsest.query.request.types import Memory, Scope
from palimpsest.query.scope.scope_query import Ranked
from palimpsest.text.terms import terms

POOL_FACTOR = 3  # candidates per result
MAX_RESULTS = 100  # with more, each would be compared with each


def diversify_results(best: Sequence[Ranked], k: int) -> Sequence[Ranked]:
    """Returns the results to show, diverse where a scope's weights ask for it and `k` is at most `MAX_RESULTS`."""
    queries = {query.scope: query for query, _ in best}
    if k > MAX_RESULTS or not any(q.weights.diversity for q in queries.values()):
        return best
    pool = best[: POOL_FACTOR * k]
    memories = {
        scope: query.served.memories([c.memory_id for q, c in pool if q.scope == scope])
        for scope, query in queries.items()
    }
    return diversify(pool, memories, k)


def diversify(best: Sequence[Ranked], memories: Mapping[Scope, Mapping[str, Memory]], k: int) -> list[Ranked]:
    """Returns at most k of the candidates, best first; scores are those that they were chosen by.

    Args:
        best: candidates, best first; weights of their queries give the diversity, 0 leaves candidates as they are.
        memories: their memories, by scope and id.
        k: how many.
    """
    words = [frozenset(terms(memories[q.scope][c.memory_id].text)) for q, c in best]
    repeated = [0.0] * len(best)
    waiting, chosen = list(range(len(best))), list[Ranked]()
    while waiting and len(chosen) < k:
        scores = {n: best[n][1].score - best[n][0].weights.diversity * repeated[n] for n in waiting}
        first = max(waiting, key=lambda n: (scores[n], -n))
        waiting.remove(first)
        query, candidate = best[first]
        penalty = candidate.score - scores[first]
        chosen.append((query, replace(candidate, score=scores[first], base=candidate.base - penalty)))
        for n in waiting:
            repeated[n] = max(repeated[n], _jaccard(words[n], words[first]))
    return chosen


def _jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    union = len(a | b)
    return len(a & b) / union if union else 1.0
