"""A formed memory and the memory it rests on take one place in the results.

Both say the same, the formed one in a sentence that can be read alone. Where that sentence answers the question better,
its evidence takes its score, and is what is shown: the words that were said. A formed memory whose evidence is no
candidate is a result itself, and so is one that a filter selects.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from palimpsest.core.memory_units import REFLECTION
from palimpsest.query.ranking.merge import Ranked
from palimpsest.query.request.types import Link, Memory
from palimpsest.query.scope.scope_graph import PREMISE

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
    memories: dict[str, Memory] = {}
    for query in queries.values():
        memories |= query.served.memories([c.memory_id for q, c in first if q is query])
    joined: dict[str, Ranked] = {}
    for query, candidate in first:
        evidence_id = _evidence(candidate.memory_id, memories)
        kept = joined.get(evidence_id or candidate.memory_id)
        if evidence_id is None:
            if kept is None:
                joined[candidate.memory_id] = (query, candidate)
        elif kept is None:
            own = next(c for _, c in first if c.memory_id == evidence_id)
            link = Link(candidate.memory_id, evidence_id, PREMISE, 1.0)
            joined[evidence_id] = (query, replace(own, score=candidate.score, hops=(link,)))
    places = sorted(joined.values(), key=lambda pair: (-pair[1].score, pair[1].memory_id, pair[0].scope))
    return [*places, *ranked[len(first) :]]


def _evidence(memory_id: str, memories: Mapping[str, Memory]) -> str | None:
    """Returns the memory among those read that holds the words of a formed memory; None where there is none."""
    formed = memories.get(memory_id)
    if formed is None or formed.unit != REFLECTION or formed.span is None:
        return None
    start, end = formed.span
    stated = [m for m in memories.values() if m.unit != REFLECTION and m.document_id == formed.document_id]
    found = [m.memory_id for m in stated if m.span and m.span[0] < end and start < m.span[1]]
    return min(found, default=None)
