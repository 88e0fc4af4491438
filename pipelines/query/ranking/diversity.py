"""Diversity in a ranking: what repeats a better result makes way for what says something else.

Maximal marginal relevance (Carbonell and Goldstein, 1998): the next result is the one whose score, less a weight times
how much of it a result before has said already, is highest. How much is the share of words in common.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from palimpsest.query.ranking.rank import Candidate
from palimpsest.query.request.types import Memory, Scope
from palimpsest.text.terms import terms

WIDER = 3  # times as many candidates as results are chosen among
MOST = 100  # results: of more, every one is wanted, and each would be compared with each

Found = tuple[Scope, Candidate]


def diverse(
    best: Sequence[Found], held: Mapping[Scope, Mapping[str, Memory]], weights: Mapping[Scope, float], k: int
) -> list[Found]:
    """Returns at most k of the candidates, best first; scores are those that they were chosen by.

    Args:
        best: candidates, best first.
        held: their memories, by scope and id.
        weights: of diversity, by scope; 0 leaves a scope's candidates as they are.
        k: how many.
    """
    said = [frozenset(terms(held[s][c.memory_id].text)) for s, c in best]
    repeated = [0.0] * len(best)
    waiting, chosen = list(range(len(best))), list[Found]()
    while waiting and len(chosen) < k:
        scores = {n: best[n][1].score - weights[best[n][0]] * repeated[n] for n in waiting}
        first = max(waiting, key=lambda n: (scores[n], -n))
        waiting.remove(first)
        scope, candidate = best[first]
        less = candidate.score - scores[first]
        chosen.append((scope, replace(candidate, score=scores[first], own=candidate.own - less)))
        for n in waiting:
            repeated[n] = max(repeated[n], _in_common(said[n], said[first]))
    return chosen


def _in_common(a: frozenset[str], b: frozenset[str]) -> float:
    union = len(a | b)
    return len(a & b) / union if union else 1.0
