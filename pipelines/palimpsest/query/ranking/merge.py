"""Puts the candidates of several scopes on one scale.

Scores are standardized inside each scope. The best z-score in a scope of n memories is (n - 1) / sqrt(n) at most, so a
project of two or three memories could never come before a large general memory. A small scope therefore borrows the
scale of cosines from all the scopes that the search reads, by the share n / (n + 30) it trusts its own statistics less.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from palimpsest.core.memory_types import REFLECTION
from palimpsest.memories.embedders.space import Space
from palimpsest.query.ranking.candidate import Candidate, Ranked
from palimpsest.query.ranking.fusion import standardize
from palimpsest.query.request.strategies import Weights
from palimpsest.query.request.types import Link, ScoreStats
from palimpsest.query.scope.scope_graph import PREMISE
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.served_scope import ServedScope

HALF_TRUSTED = 30
"""Memories of a scope that is scored by its own statistics and by the common scale in equal parts."""


def merge_candidates(found: Sequence[tuple[ScopeQuery, Sequence[Candidate]]]) -> list[Ranked]:
    """Returns the candidates of all scopes, best first, ties by id and scope; those of a single scope unchanged.

    The order inside a scope follows mostly from its own ranking; links keep what they added.

    Args:
        found: each scope's query with its ranked candidates.
    """
    ranked = [(query, c) for query, candidates in found for c in candidates]
    if len(found) > 1:
        seeds = {query.scope: query.served.seeds(query.vector, (), 0.0, 1) for query, _ in found}
        parts: dict[Space | None, list[tuple[int, ScoreStats]]] = {}  # cosines of two spaces have no common scale
        for query, _ in found:
            stats = seeds[query.scope]
            parts.setdefault(query.space, []).append((stats.candidates, stats.vector_stats))
        common = {space: pool_stats(of_space) for space, of_space in parts.items()}
        ranked = [(q, _on_common_scale(c, seeds[q.scope].candidates, common[q.space], q.weights)) for q, c in ranked]
    return sorted(ranked, key=lambda pair: (-pair[1].score, pair[1].memory_id, pair[0].scope))


def pool_stats(parts: Sequence[tuple[int, ScoreStats]]) -> ScoreStats:
    """Returns mean and standard deviation over all scopes, from the size and the statistics of each."""
    total = sum(n for n, _ in parts)
    if total == 0:
        return ScoreStats()
    mean = sum(n * s.mean for n, s in parts) / total
    square = sum(n * (s.std**2 + s.mean**2) for n, s in parts) / total
    return ScoreStats(mean, float(np.sqrt(max(square - mean**2, 0.0))))


def _on_common_scale(candidate: Candidate, size: int, common: ScoreStats, weights: Weights) -> Candidate:
    trust = size / (size + HALF_TRUSTED)
    on_common = float(standardize(np.array([candidate.vector]), common)[0]) * (weights.vector + weights.words)
    base = trust * candidate.base + (1 - trust) * on_common
    return replace(candidate, base=base, score=base + candidate.score - candidate.base)


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
