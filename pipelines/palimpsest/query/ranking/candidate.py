"""A memory in the ranking."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from palimpsest.query.request.types import Link
from palimpsest.query.scope.scope_query import ScopeQuery


@dataclass(frozen=True)
class Candidate:
    """A memory in the ranking.

    Attributes:
        memory_id: of the memory.
        score: the ranking sorts by it.
        vector: cosine of its best window.
        words: BM25 sum.
        base: score by itself.
        score_path: returns the links in its score; called only for results, for it costs more than scoring.
        hops: links that lifted it after that.
        rerank: score of the reranker; None where none read it.
        relevance: probability that it is evidence, where that was judged.
    """

    memory_id: str
    score: float
    vector: float
    words: float
    base: float
    score_path: Callable[[], tuple[Link, ...]] = tuple
    hops: tuple[Link, ...] = ()
    rerank: float | None = None
    relevance: float = 1.0

    @cached_property
    def path(self) -> tuple[Link, ...]:
        """The links that lifted it, from the seed on; empty where none did."""
        return (*self.score_path(), *self.hops)


Ranked = tuple[ScopeQuery, Candidate]
"""A candidate with the query of its scope."""
