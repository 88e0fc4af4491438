"""Queries searched once, with all that came back: metrics, gate, RAGAS and the analysis of misses read one run."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from palimpsest.core.files import progress
from palimpsest.core.ids import JsonRecord
from palimpsest.core.message import Message
from palimpsest.query.context.quotes import Quote
from palimpsest.query.request.types import Memory, RankedMemory, Scope
from palimpsest.query.result import SearchResult

DEPTH = 10
TIMED = 40
"""Queries of a run that are searched alone, one after another, and timed."""
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
        ms: milliseconds of the whole search; None where it was not timed.
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
    ms: float | None
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
        """Milliseconds of each whole search that was timed, in the order of the searches."""
        return [result.ms for result in self.results.values() if result.ms is not None]

    @property
    def unhindered_ms(self) -> list[float]:
        """Milliseconds that each of these would have taken at least on a machine that does nothing else."""
        return [max(0.0, r.ms - r.waited_ms) for r in self.results.values() if r.ms is not None]

    @property
    def steps_ms(self) -> dict[str, list[float]]:
        """Milliseconds of each step of the query path, one value for each of these."""
        steps: dict[str, list[float]] = {}
        for result in (r for r in self.results.values() if r.ms is not None):
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


_Item = TypeVar("_Item")


def timed_part(items: Sequence[_Item]) -> Sequence[_Item]:
    """Returns those of the queries of a run that are timed: at most `TIMED`, evenly among the others."""
    return items[:: max(1, -(-len(items) // TIMED))]


def search_queries(
    reader: Searcher,
    queries: Sequence[RetrievalQuery],
    settings: SearchSettings | None = None,
    *,
    hops: int | None = None,
    times: bool = True,
    others: Searcher | None = None,
    what: str = "search",
    clock: Callable[[], float] = time.perf_counter,
) -> RetrievalRun:
    """Searches each query once; some of them alone, which are timed, the others several at once.

    Args:
        reader: reader of the build, safe to share between threads.
        queries: the queries.
        settings: strategy, budget and depth; None means the defaults.
        hops: links to follow; None means the strategy's.
        times: whether those of `timed_part` are timed. The first of a scope is searched once more before.
        others: reader of the same build for the queries that are not timed: one that knows what it has read before.
        what: of the lines that show progress.
        clock: seconds; tests replace it.
    """
    settings = settings or SearchSettings()
    base: dict[str, Any] = {"k": settings.depth, "all_results": True}
    base |= {"strategy": settings.strategy, "budget_tokens": settings.budget_tokens}
    if hops is not None:
        base["hops"] = hops
    timed = timed_part(queries) if times else []
    results: dict[str, QueryResult] = {}

    def search(by: Searcher, query: RetrievalQuery) -> SearchResult:
        return by.search(query.text, query.scope, **{**base, **query.filters})

    alone = {query.query_id for query in timed}
    rest = [query for query in queries if query.query_id not in alone]
    with progress(what, len(queries), "queries") as advance:
        with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            found = threads.map(partial(search, others or reader), rest)
            for query, result in zip(rest, found, strict=True):
                results[query.query_id] = _result(query, result)
                advance(1)
        warm: set[tuple[Scope, date | str | tuple[Message, ...] | None]] = set()
        for query in timed:  # last: what a process loads once is loaded
            place = query.scope, query.filters.get("project")
            if place not in warm:
                search(reader, query)
                warm.add(place)
            results[query.query_id] = _timed(query, partial(search, reader), clock)
            advance(1)
    return RetrievalRun(settings, {query.query_id: results[query.query_id] for query in queries})


def _timed(
    query: RetrievalQuery, search: Callable[[RetrievalQuery], SearchResult], clock: Callable[[], float]
) -> QueryResult:
    waited = waited_ms()
    start = clock()
    found = search(query)
    ms = (clock() - start) * 1000
    waited = max(0.0, waited_ms() - waited) if clock is time.perf_counter else 0.0
    return replace(_result(query, found), ms=ms, waited_ms=waited)


def _result(query: RetrievalQuery, found: SearchResult) -> QueryResult:
    return QueryResult(
        query,
        tuple(found.memories),
        tuple(found.packed_ids),
        tuple(found.beside),
        found.folded,
        found.context_with("full"),
        None,
        found.timings,
        tuple(found.quotes),
        found.context_tokens,
        frozenset(found.returned_ids),
        max((m.relevance for m in found.memories), default=0.0),
    )
