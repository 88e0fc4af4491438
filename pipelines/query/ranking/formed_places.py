"""A formed memory and the memory it rests on take one place in the results.

Both say the same, the formed one in a sentence that can be read alone. Where that sentence answers the question better,
its evidence takes its score, and is what is shown: the words that were said. A formed memory that rests on several, a
problem and what fixed it, is shown itself, since it has the words of all, with the best of their scores. One whose
evidence is no candidate, and one that a filter selects, is a result like any other.
"""

from collections.abc import Sequence
from dataclasses import replace

from palimpsest.core.memory_units import REFLECTION
from palimpsest.query.ranking.merge import Ranked
from palimpsest.query.ranking.rank import Candidate
from palimpsest.query.request.types import Link
from palimpsest.query.scope.scope_graph import PREMISE
from palimpsest.query.scope.served_scope import ServedScope

_READ_PER_RESULT = 4  # candidates: a turn seldom has more formed memories than two


def join_formed(ranked: Sequence[Ranked], k: int) -> Sequence[Ranked]:
    """Returns candidates, each formed memory joined with its evidence among the first ones; best first.

    Candidates of collections that form no memories stay as they are.

    Args:
        ranked: candidates of all scopes, best first.
        k: results that the search returns.
    """
    queries = {q.scope: q for q, _ in ranked if q.served.has_formed}
    if not queries:
        return ranked
    first = ranked[: _READ_PER_RESULT * k]
    own = {c.memory_id: c for _, c in first}
    rests_on: dict[str, list[str]] = {}
    for query in queries.values():
        rests_on |= _evidence(query.served, [c.memory_id for q, c in first if q is query])
    joined: dict[str, Ranked] = {}
    contained: set[str] = set()
    for query, candidate in first:
        named = rests_on.get(candidate.memory_id, [])
        evidence = own.get(named[0]) if len(named) == 1 else None
        if len(named) > 1:
            joined[candidate.memory_id] = (query, _with_best_score(candidate, [own[i] for i in named if i in own]))
            contained.update(named)
        elif evidence is None:
            joined.setdefault(candidate.memory_id, (query, candidate))
        elif evidence.memory_id not in joined:
            link = Link(candidate.memory_id, evidence.memory_id, PREMISE, 1.0)
            joined[evidence.memory_id] = (query, replace(evidence, score=candidate.score, hops=(link,)))
    kept = [pair for memory_id, pair in joined.items() if memory_id not in contained]
    places = sorted(kept, key=lambda pair: (-pair[1].score, pair[1].memory_id, pair[0].scope))
    return [*places, *ranked[len(first) :]]


def _with_best_score(formed: Candidate, evidence: Sequence[Candidate]) -> Candidate:
    """Returns a formed memory with the score of the best of its evidence, where that is more than its own."""
    best = max(evidence, key=lambda c: (c.score, c.memory_id), default=formed)
    if best.score <= formed.score:
        return formed
    return replace(formed, score=best.score, hops=(Link(best.memory_id, formed.memory_id, PREMISE, 1.0),))


def _evidence(served: ServedScope, ids: Sequence[str]) -> dict[str, list[str]]:
    """Returns the memories that each formed memory among `ids` rests on."""
    formed = [i for i, memory in served.memories(ids).items() if memory.unit == REFLECTION]
    premises: dict[str, list[str]] = {}
    for link in served.neighbors(sorted(formed), 0):
        if link.kind == PREMISE:
            premises.setdefault(link.source, []).append(link.target)
    return premises
