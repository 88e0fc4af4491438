"""A formed memory and the memory it rests on take one place in the results.

Both say the same, the formed one in a sentence that can be read alone. Where that sentence answers the question better,
its evidence takes its score, and is what is shown: the words that were said. A formed memory that rests on several, a
problem and what fixed it, is a result itself, which has the words of all. So is one whose evidence is no candidate, and
one that a filter selects.
"""

from collections.abc import Sequence
from dataclasses import replace

from palimpsest.core.memory_units import REFLECTION
from palimpsest.query.ranking.candidate import Ranked
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
    rests_on: dict[str, str] = {}
    for query in queries.values():
        rests_on |= _single_evidence(query.served, [c.memory_id for q, c in first if q is query])
    joined: dict[str, Ranked] = {}
    for query, candidate in first:
        evidence = own.get(rests_on.get(candidate.memory_id, ""))
        if evidence is None:
            joined.setdefault(candidate.memory_id, (query, candidate))
        elif evidence.memory_id not in joined:
            link = Link(candidate.memory_id, evidence.memory_id, PREMISE, 1.0)
            joined[evidence.memory_id] = (query, replace(evidence, score=candidate.score, hops=(link,)))
    places = sorted(joined.values(), key=lambda pair: (-pair[1].score, pair[1].memory_id, pair[0].scope))
    return [*places, *ranked[len(first) :]]


def _single_evidence(served: ServedScope, ids: Sequence[str]) -> dict[str, str]:
    """Returns the memory that each formed memory among `ids` rests on, of those that rest on one alone."""
    formed = [i for i, memory in served.memories(ids).items() if memory.unit == REFLECTION]
    premises: dict[str, list[str]] = {}
    for link in served.neighbors(sorted(formed), 0):
        if link.kind == PREMISE:
            premises.setdefault(link.source, []).append(link.target)
    return {source: targets[0] for source, targets in premises.items() if len(targets) == 1}
