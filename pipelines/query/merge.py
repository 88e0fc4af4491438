"""Puts the candidates of several scopes on one scale.

Scores are standardised inside each scope. The best z-score in a scope of n memories is (n - 1) / sqrt(n) at most, so a
project of two or three memories could never come before a large general memory. A small scope therefore borrows the
scale of cosines from all the scopes that the search reads, by the share n / (n + 30) it trusts its own statistics less.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from palimpsest.query.ranking.backend import Backend
from palimpsest.query.ranking.fusion import standardise
from palimpsest.query.ranking.rank import Candidate
from palimpsest.query.request.strategies import Weights
from palimpsest.query.request.types import Filters, Moments, Scope

HALF_TRUSTED = 30
"""Memories of a scope that is placed by its own statistics and by the common scale in equal parts."""


def merged(
    backend: Backend,
    filters: Mapping[Scope, Filters],
    vector: np.ndarray,
    weights: Mapping[Scope, Weights],
    found: Mapping[Scope, Sequence[Candidate]],
) -> list[tuple[Scope, Candidate]]:
    """Returns the candidates of all scopes, best first, ties by id and scope; those of a single scope as they are.

    The order inside a scope follows mostly from its own ranking; links keep what they added.

    Args:
        backend: the store.
        filters: what narrows each scope.
        vector: the query's unit vector.
        weights: of each scope's strategy.
        found: the ranked candidates of each scope.
    """
    pairs = [(s, c) for s, candidates in found.items() for c in candidates]
    if len(found) > 1:
        known = {s: backend.seeds(s, filters[s], vector, (), 0.0, 1) for s in found}
        common = pooled({s: (seeds.candidates, seeds.vector_moments) for s, seeds in known.items()})
        pairs = [(s, _placed(c, known[s].candidates, common, weights[s])) for s, c in pairs]
    return sorted(pairs, key=lambda pair: (-pair[1].score, pair[1].memory_id, pair[0]))


def pooled(parts: Mapping[Scope, tuple[int, Moments]]) -> Moments:
    """Returns mean and standard deviation over all scopes, from how many memories each has and its own moments."""
    total = sum(n for n, _ in parts.values())
    if total == 0:
        return Moments()
    mean = sum(n * m.mean for n, m in parts.values()) / total
    square = sum(n * (m.std**2 + m.mean**2) for n, m in parts.values()) / total
    return Moments(mean, float(np.sqrt(max(square - mean**2, 0.0))))


def _placed(candidate: Candidate, size: int, common: Moments, weights: Weights) -> Candidate:
    trust = size / (size + HALF_TRUSTED)
    on_common = float(standardise(np.array([candidate.vector]), common)[0]) * (weights.vector + weights.words)
    own = trust * candidate.own + (1 - trust) * on_common
    return replace(candidate, own=own, score=own + candidate.score - candidate.own)
