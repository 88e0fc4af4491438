"""Queries searched once, with all that came back: metrics, gate, RAGAS and the analysis of misses read one run."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Protocol

from palimpsest.core.ids import JsonRecord
from palimpsest.core.message import Message
from palimpsest.query.context.quotes import Quote
from palimpsest.query.request.types import Memory, RankedMemory, Scope
from palimpsest.query.result import SearchResult

DEPTH = 10
BUDGET_TOKENS = 1200


class Searcher(Protocol):
    """The part of `palimpsest.query`'s Reader that evaluation uses."""

    @property
    def search(self) -> Callable[..., SearchResult]:
        """Takes (text, scope, **filters)."""


@dataclass(frozen=True)
class SearchSettings(JsonRecord):
    """How the queries of a run are searched; two runs are comparable when these are equal.

    Attributes:
        strategy: name of a strategy; `auto` is resolved for each collection by its build.
        budget_tokens: budget of the packed context.
        depth: results of a query; at least 10 for nDCG@10.
    """

    strategy: str = "auto"
    budget_tokens: int = BUDGET_TOKENS
    depth: int = DEPTH


@dataclass(frozen=True)
class RetrievalQuery:
    """One query, which is searched inside its own scope only.

    `filters` are further arguments of `Reader.search`, such as `as_of`, `project` and `turns`.
    """

    query_id: str
    text: str
    scope: Scope
    filters: Mapping[str, date | str | tuple[Message, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class QueryResult:
    """What one query returned.

    Attributes:
        query: the query.
        memories: best first, at most the run's depth.
        packed_ids: the memories whose whole text the context contains.
        neighbors: memories in the context that were not ranked, but surround those that were.
        folded: ids left out of the context, by the id of the memory that has the same text.
        context: the packed context, cited by id and with full sources; by default it is shown with short ones.
        quotes: the memories that the context quotes in part.
        context_tokens: tokens of the context as it is shown, with short sources.
        returned_ids: the memories that a search returns that is not for all results.
        ms: milliseconds of the whole search.
        steps_ms: milliseconds of each step of the query path.
        answer_probability: that the results hold an answer; None where the reader does not judge that.
        waited_ms: how long threads of this process waited for a processor meanwhile, in all.
    """

    query: RetrievalQuery
    memories: tuple[RankedMemory, ...]
    packed_ids: tuple[str, ...]
    neighbors: tuple[Memory, ...]
    folded: Mapping[str, tuple[str, ...]]
    context: str
    ms: float
    steps_ms: Mapping[str, float]
    quotes: tuple[Quote, ...] = ()
    context_tokens: int = 0
    returned_ids: frozenset[str] = frozenset()
    answer_probability: float | None = None
    waited_ms: float = 0.0

    @property
    def memory_ids(self) -> list[str]:
        """Ids of the ranked memories, best first."""
        return [m.memory_id for m in self.memories]

    @property
    def ranks(self) -> dict[str, int]:
        """The rank of each ranked memory, from 1."""
        return {memory_id: rank for rank, memory_id in enumerate(self.memory_ids, 1)}


@dataclass(frozen=True)
class RetrievalRun:
    """The results of all queries of one evaluation, by query id, and how they were searched."""

    settings: SearchSettings
    results: Mapping[str, QueryResult]

    @property
    def took_ms(self) -> list[float]:
        """Milliseconds of each whole search, in the order of the searches."""
        return [result.ms for result in self.results.values()]

    @property
    def unhindered_ms(self) -> list[float]:
        """Milliseconds that each search would have taken at least on a machine that does nothing else."""
        return [max(0.0, result.ms - result.waited_ms) for result in self.results.values()]

    @property
    def steps_ms(self) -> dict[str, list[float]]:
        """Milliseconds of each step of the query path, one value for each query."""
        steps: dict[str, list[float]] = {}
        for result in self.results.values():
            for step, ms in result.steps_ms.items():
                steps.setdefault(step, []).append(round(ms, 3))
        return steps


_THREADS = Path("/proc/self/task")


def waited_ms() -> float:
    """Returns how long the threads of this process have waited for a processor, in all; 0 where it is not Linux."""
    waited_ns = 0
    for thread in _THREADS.glob("*/schedstat"):
        with suppress(OSError, IndexError, ValueError):  # it may have ended
            waited_ns += int(thread.read_bytes().split()[1])
    return waited_ns / 1e6


def search_queries(
    reader: Searcher,
    queries: Iterable[RetrievalQuery],
    settings: SearchSettings | None = None,
    *,
    hops: int | None = None,
    warm_up: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> RetrievalRun:
    """Searches each query once.

    Args:
        reader: reader of the build.
        queries: the queries; an iterator that reports progress is fine.
        settings: strategy, budget and depth; None means the defaults.
        hops: links to follow; None means the strategy's.
        warm_up: whether the first query of a scope is searched once more before it is timed.
        clock: seconds; tests replace it.
    """
    settings = settings or SearchSettings()
    base: dict[str, Any] = {"k": settings.depth, "all_results": True}
    base |= {"strategy": settings.strategy, "budget_tokens": settings.budget_tokens}
    if hops is not None:
        base["hops"] = hops
    warm: set[tuple[Scope, date | str | tuple[Message, ...] | None]] = set()
    results: dict[str, QueryResult] = {}
    for query in queries:
        filters = {**base, **query.filters}
        place = query.scope, query.filters.get("project")
        if warm_up and place not in warm:
            reader.search(query.text, query.scope, **filters)
            warm.add(place)
        waited = waited_ms()
        start = clock()
        found = reader.search(query.text, query.scope, **filters)
        ms = (clock() - start) * 1000
        waited = max(0.0, waited_ms() - waited) if clock is time.perf_counter else 0.0
        results[query.query_id] = QueryResult(
            query,
            tuple(found.memories),
            tuple(found.packed_ids),
            tuple(found.beside),
            found.folded,
            found.context_with("full"),
            ms,
            found.timings,
            tuple(found.quotes),
            found.context_tokens,
            frozenset(found.returned_ids),
            max((m.relevance for m in found.memories), default=0.0),
            waited,
        )
    return RetrievalRun(settings, results)
