"""Ranking, the same over every backend: fused seeds, then what links reach from the best of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipelines.query.backend import Backend
from pipelines.query.fusion import standardise
from pipelines.query.types import Filters, Link, Scope, Seeds

SEEDS = 100  # candidates; moments are exact, so more of them change nothing
DECAY = 0.7
_FROM = 10  # memories that each hop starts from, the best first
_OVER_ENTITIES = 20  # links from each


@dataclass(frozen=True)
class Weights:
    """The composite: `vector` * z(cosine) + `words` * z(BM25), lifted over links.

    A link lifts what it reaches to `links` * DECAY * link weight of the score that it comes from, where that is more.
    """

    vector: float = 1.0
    words: float = 1.2
    links: float = 1.0


STRATEGIES: dict[str, Weights] = {"flat": Weights(words=0.0, links=0.0), "hybrid": Weights()}


@dataclass(frozen=True)
class Candidate:
    """A memory in the ranking; `path` holds the links that lifted it, from the seed on; empty where none did."""

    memory_id: str
    score: float
    vector: float
    words: float
    own: float
    path: tuple[Link, ...] = ()


def rank(
    backend: Backend,
    scope: Scope,
    filters: Filters,
    vector: np.ndarray,
    terms: Sequence[str],
    weights: Weights,
    hops: int,
    n: int = SEEDS,
    lap: Callable[[str], None] = lambda _: None,
) -> list[Candidate]:
    """Returns the candidates of one scope, best first, ties by id.

    Scores are standardised over all candidates of the scope, so those of different scopes compare. A memory that a link
    reaches scores at least `DECAY` * weight of what it was reached from: it is lifted towards what it belongs to, and
    never past it.

    Args:
        backend: the store of the build.
        scope: where to search.
        filters: which memories are candidates.
        vector: the query's unit vector.
        terms: the query's terms.
        weights: of the strategy.
        hops: links to follow from the best seeds, 0 to 2.
        n: how many seeds.
        lap: told the name of each step as it ends, for timings.
    """
    used = tuple(terms) if weights.words > 0 else ()
    seeds = backend.seeds(scope, filters, vector, used, weights.words / weights.vector, n)
    lap("seeds_ms")
    found = _fused(seeds, seeds.ids, np.stack([seeds.vector, seeds.words], axis=1), weights)
    start = sorted(found.values(), key=_order)[:_FROM]
    lap("rank_ms")
    for _ in range(hops if found and weights.links > 0 else 0):
        start = _expand(backend, scope, filters, vector, used, weights, seeds, found, start)
    lap("expand_ms")
    return sorted(found.values(), key=_order)


def _order(candidate: Candidate) -> tuple[float, str]:
    return (-candidate.score, candidate.memory_id)


def _fused(seeds: Seeds, ids: Sequence[str], scores: np.ndarray, weights: Weights) -> dict[str, Candidate]:
    z = weights.vector * standardise(scores[:, 0], seeds.vector_moments)
    z = z + weights.words * standardise(scores[:, 1], seeds.words_moments)
    rows = zip(ids, z.tolist(), scores.tolist(), strict=True)
    return {i: Candidate(i, total, vector, words, total) for i, total, (vector, words) in rows}


def _expand(
    backend: Backend,
    scope: Scope,
    filters: Filters,
    vector: np.ndarray,
    terms: Sequence[str],
    weights: Weights,
    seeds: Seeds,
    found: dict[str, Candidate],
    start: list[Candidate],
) -> list[Candidate]:
    """Follows one link from each of `start`; updates `found` and returns where the next hop starts."""
    links = backend.neighbours(scope, filters, [c.memory_id for c in start], _OVER_ENTITIES)
    new = sorted({link.target for link in links} - found.keys())
    if new:
        found |= _fused(seeds, new, backend.scores(scope, vector, terms, new), weights)
    origin = {c.memory_id: c for c in start}
    best: dict[str, tuple[float, Link]] = {}
    for link in links:
        score = weights.links * DECAY * link.weight * origin[link.source].score
        if score > found[link.target].score and score > best.get(link.target, (0.0, link))[0]:
            best[link.target] = (score, link)
    lifted = [
        replace(found[target], score=score, path=(*origin[link.source].path, link))
        for target, (score, link) in best.items()
    ]
    found |= {c.memory_id: c for c in lifted}
    return sorted(lifted, key=_order)[:_FROM]
