"""Ranking, the same over every backend: fused seeds, then what links reach from the best of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from palimpsest.query.ranking.backend import Backend
from palimpsest.query.ranking.conversation import score_turns
from palimpsest.query.ranking.fusion import standardise, top
from palimpsest.query.ranking.hierarchy import score_topics
from palimpsest.query.ranking.priors import stands
from palimpsest.query.ranking.scope_cache import rows_of
from palimpsest.query.ranking.spreading import score_passages
from palimpsest.query.ranking.view import Question, ScopeView, Scored, score_alone
from palimpsest.query.request.strategies import STRATEGIES, Weights
from palimpsest.query.request.types import Filters, Link, Scope
from palimpsest.text.periods import Period

SEEDS = 100  # candidates; moments are exact, so more of them change nothing
DECAY = 0.7
__all__ = ["DECAY", "SEEDS", "STRATEGIES", "Candidate", "Weights", "rank"]
_LEAST = 1e-6  # of the weight of vectors, which the store divides by
_FROM = 10  # memories that each hop starts from, the best first


_SCORERS: dict[str, Callable[[ScopeView, Filters, Question, Weights], Scored]] = {
    "alone": score_alone,
    "order": score_turns,
    "passages": score_passages,
    "topics": score_topics,
}


@dataclass(frozen=True)
class Candidate:
    """A memory in the ranking.

    Attributes:
        memory_id: of the memory.
        score: what the ranking sorts by.
        vector: cosine of its best window.
        words: BM25 sum.
        own: what it scores by itself.
        told: tells the links that are in its score; asked only of what is returned: telling costs more than scoring.
        hopped: links that lifted it after that.
    """

    memory_id: str
    score: float
    vector: float
    words: float
    own: float
    told: Callable[[], tuple[Link, ...]] = tuple
    hopped: tuple[Link, ...] = ()

    @cached_property
    def path(self) -> tuple[Link, ...]:
        """The links that lifted it, from the seed on; empty where none did."""
        return (*self.told(), *self.hopped)


class _Pool(Protocol):
    """What is ranked: the best to start with, and the score of whatever a link reaches."""

    def best(self) -> dict[str, Candidate]:
        """Returns the seeds."""

    def more(self, ids: Sequence[str]) -> dict[str, Candidate]:
        """Returns other candidates, with their own scores."""


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
    text: str = "",
    period: Period | None = None,
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
        text: the query itself, for the names in it.
        period: what it asks about by time.
    """
    used = tuple(terms) if weights.words > 0 else ()
    asked = period if weights.time > 0 else None
    question = Question(vector, used, text, asked, filters.moment)
    view = backend.view(scope) if _needs_all(weights, question) else None
    pool: _Pool
    if view is not None:
        pool = _Whole(_SCORERS[weights.whole or "alone"](view, filters, question, weights), weights.graph, n)
    else:
        pool = _Seeded(backend, scope, filters, vector, used, weights, n)
    lap("seeds_ms")
    found = pool.best()
    start = sorted(found.values(), key=_order)[:_FROM]
    lap("rank_ms")
    for _ in range(hops if found and weights.graph > 0 else 0):
        links = backend.neighbours(scope, filters, [c.memory_id for c in start], weights.entities)
        start = _expand(links, pool, weights, found, start)
    lap("expand_ms")
    return sorted(found.values(), key=_order)


def _needs_all(weights: Weights, question: Question) -> bool:
    """Tells whether every memory must be scored: the store alone finds the best by vectors, or by both and words."""
    if weights.whole not in ("", "alone") or weights.vector <= 0 or weights.fusion != "z" or stands(weights):
        return True
    return weights.whole == "alone" and question.period is not None


def _order(candidate: Candidate) -> tuple[float, str]:
    return (-candidate.score, candidate.memory_id)


class _Seeded:
    """The store finds the best; what links reach is scored when it is reached."""

    def __init__(
        self,
        backend: Backend,
        scope: Scope,
        filters: Filters,
        vector: np.ndarray,
        terms: Sequence[str],
        weights: Weights,
        n: int,
    ):
        self._asked = (backend, scope, vector, terms)
        self._weights = weights
        self._seeds = backend.seeds(scope, filters, vector, terms, weights.words / max(weights.vector, _LEAST), n)

    def best(self) -> dict[str, Candidate]:
        return self._fused(self._seeds.ids, np.stack([self._seeds.vector, self._seeds.words], axis=1))

    def more(self, ids: Sequence[str]) -> dict[str, Candidate]:
        backend, scope, vector, terms = self._asked
        return self._fused(ids, backend.scores(scope, vector, terms, ids))

    def _fused(self, ids: Sequence[str], scores: np.ndarray) -> dict[str, Candidate]:
        z = self._weights.vector * standardise(scores[:, 0], self._seeds.vector_moments)
        z = z + self._weights.words * standardise(scores[:, 1], self._seeds.words_moments)
        rows = zip(ids, z.tolist(), scores.tolist(), strict=True)
        return {i: Candidate(i, total, vector, words, total) for i, total, (vector, words) in rows}


class _Whole:
    """Every memory of the scope is scored already; `graph` is how much of it counts that is not a memory's own."""

    def __init__(self, scored: Scored, graph: float, n: int):
        total = scored.total if graph == 1.0 else scored.own + graph * (scored.total - scored.own)
        self._scored, self._n = replace(scored, total=total), n

    def best(self) -> dict[str, Candidate]:
        s = self._scored
        return self._candidates(s.rows[top(s.total[s.rows], self._n)])

    def more(self, ids: Sequence[str]) -> dict[str, Candidate]:
        return self._candidates(rows_of(self._scored.ids, ids))

    def _candidates(self, rows: np.ndarray) -> dict[str, Candidate]:
        s = self._scored
        columns = (a[rows].tolist() for a in (s.ids, s.total, s.cosines, s.words, s.own))
        return {
            i: Candidate(i, score, vector, words, own, partial(s.path, row))
            for row, i, score, vector, words, own in zip(rows.tolist(), *columns, strict=True)
        }


def _expand(
    links: Sequence[Link], pool: _Pool, weights: Weights, found: dict[str, Candidate], start: list[Candidate]
) -> list[Candidate]:
    """Lifts what links from `start` reach; updates `found` and returns where the next hop starts."""
    if new := sorted({link.target for link in links} - found.keys()):
        found |= pool.more(new)
    origin = {c.memory_id: c for c in start}
    best: dict[str, tuple[float, Link]] = {}
    for link in links:
        score = weights.graph * DECAY * link.weight * origin[link.source].score
        if score > found[link.target].score and score > best.get(link.target, (0.0, link))[0]:
            best[link.target] = (score, link)
    lifted = [
        replace(found[target], score=score, told=(at := origin[link.source]).told, hopped=(*at.hopped, link))
        for target, (score, link) in best.items()
    ]
    found |= {c.memory_id: c for c in lifted}
    return sorted(lifted, key=_order)[:_FROM]
