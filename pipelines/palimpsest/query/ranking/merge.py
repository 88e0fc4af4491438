"""Puts the candidates of several scopes on one scale.

Scores are standardized inside each scope. The best z-score in a scope of n memories is (n - 1) / sqrt(n) at most, so a
project of two or three memories could never come before a large general memory. A small scope therefore borrows the
scale of cosines from all the scopes that the search reads, by the share n / (n + 30) it trusts its own statistics less.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from palimpsest.memories.embedders.space import Space
from palimpsest.query.ranking.candidate import Candidate, Ranked
from palimpsest.query.ranking.fusion import standardize
from palimpsest.query.request.strategies import Weights
from palimpsest.query.request.types import ScoreStats
from palimpsest.query.scope.scope_query import ScopeQuery

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
