"""One search from request to answer: find in each scope, rank, read the results, pack the context."""

import datetime as dt
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from palimpsest.memories.vector_space import Space
from palimpsest.query.context.changes import (
    mark_changes,
    newer_first,
    reasons_of_latest,
    said_later,
    without_ended_parts,
)
from palimpsest.query.context.explain import Version, explain_results, histories
from palimpsest.query.context.lines import asks_present
from palimpsest.query.context.pack import (
    NeighborContext,
    Packed,
    add_relation_lines,
    distinct_ids,
    neighbor_contexts,
    neighbor_ids,
    no_sentences,
    pack,
)
from palimpsest.query.context.quotes import Compression, Compressor, Sentences, quotable_sentences, requested_compressor
from palimpsest.query.embed_query import count_tokens, embed_query
from palimpsest.query.ranking.merge import (
    DEPTH,
    LIKELY,
    READ,
    Task,
    diversify_results,
    favor_task,
    join_formed,
    least_relevance,
    merge_candidates,
)
from palimpsest.query.ranking.rank import SEEDS, rank
from palimpsest.query.request.resolve_turns import resolve_text
from palimpsest.query.request.search_request import SearchRequest, Sources
from palimpsest.query.request.types import Memory, RankedMemory
from palimpsest.query.rerank import (
    AnswerReader,
    AnyReranker,
    Reranking,
    rerank_candidates,
    with_relevance,
)
from palimpsest.query.result import SearchResult
from palimpsest.query.scope.backend import Backend
from palimpsest.query.scope.resolve_scopes import resolve_queries
from palimpsest.query.scope.scope_query import Candidate, Ranked, ScopeQuery
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.store.usage_log import UsageLog

_COMPLETED = 0.03
"""Least relevance of a result that neighbors complete, and that what was said later follows."""
_LEAST_WITH_SOURCES = 320  # tokens: of a smaller budget a tenth is less than a line of sources
_SURROUNDED = 3
"""Candidates whose neighbors are read ahead: few results are completed."""
_NEAREST = 2
"""Pending memories that are shown where there is room, whatever their words are."""
STEPS = ("embed_ms", "seeds_ms", "expand_ms", "rank_ms", "rerank_ms", "read_ms", "pack_ms")


def run_search(
    request: SearchRequest,
    backend: Backend,
    clock: dt.datetime,
    reranker: AnyReranker | None = None,
    usage: UsageLog | None = None,
    compressor: Compressor | None = None,
    pending: Set[str] = frozenset(),
) -> SearchResult:
    """Answers a request from one build.

    Args:
        request: the search.
        backend: the store of the build.
        clock: the real time; a memory past its retention is not served, and `accessed_within` is counted back from it.
        reranker: reads the best candidates; without one the scores alone decide.
        usage: reads of memories; None where none are counted.
        compressor: picks the sentences of long results where the request says so.
        pending: ids of memories that no build has; see `_keep_pending`.

    Raises:
        PalimpsestError: the strategy or the project is unknown, or the request needs a compressor and there is none.
    """
    timer, compressor = _StepTimer(), requested_compressor(request.compress, compressor)
    question = resolve_text(request.text, request.turns, request.brief)
    queries = resolve_queries(request, question.text, backend, clock, usage)
    ranking = _rank_scopes(request, question.text, queries, reranker, timer)
    ranking = _keep_pending(ranking, pending, request.k) if pending else ranking
    read = _read_results(request, ranking, queries)
    timer.record("read_ms")
    picker = _SentencePicker(compressor, question.text, queries, read, timer)
    packed = _pack_results(request, question.text, read, picker)
    folded = dict(packed.folded)
    repeated = set() if request.all_results else {i for ids in folded.values() for i in ids}
    memories = [replace(m, repeats=folded[m.memory_id]) if m.memory_id in folded else m for m in read.memories]
    memories = [m for m in memories if m.memory_id not in repeated]
    timer.record("pack_ms")
    subgraph = None
    if request.subgraph:
        from palimpsest.query.graph.subgraph import read_subgraph

        subgraph = read_subgraph([query.served for query in queries], memories)
        lines = ((line.text, line.memory_ids) for line in subgraph.lines)
        packed = add_relation_lines(packed, lines, request.budget_tokens, count_tokens, _sources(request))
        timer.record("subgraph_ms")
    return SearchResult(
        memories=memories,
        lines=packed.lines,
        returned_ids=read.likely_ids,
        sources=_sources(request),
        packed_ids=packed.packed_ids,
        quotes=packed.quotes,
        beside=packed.beside,
        folded=folded,
        timings=timer.timings,
        strategy=queries[0].strategy,
        build_id=backend.build_id,
        versions=read.versions,
        times={query.scope: query.temporal for query in queries},
        met=read.linked_texts,
        question=question,
        filters=request.filters_json() | {"below_min_score": ranking.below_min_score},
        reranker=ranking.reranking,
        compression=picker.compression,
        abstained=read.abstained,
        subgraph=subgraph,
        cited=_cited(packed, memories, [*read.replaced.values(), *read.later.values()]),
    )


# Ranking.


class _Ranking(NamedTuple):
    """The candidates of all scopes as they were judged and the best k of them.

    Attributes:
        best: the best k.
        judged: the first of them, with their relevance.
        below_min_score: how many were left out.
        reranking: what the reranker did.
        kept: ids of results that are shown however relevant they are.
    """

    best: Sequence[Ranked]
    judged: Sequence[Ranked]
    below_min_score: int
    reranking: Reranking | None
    kept: Set[str] = frozenset()


def _rank_scopes(
    request: SearchRequest, text: str, queries: Sequence[ScopeQuery], reranker: AnyReranker | None, timer: "_StepTimer"
) -> _Ranking:
    tasks = {space: _task(request, space) for space in {query.space for query in queries}}
    timer.record("embed_ms")
    hops = 0 if request.narrow else request.hops  # a link may lead to other nodes' memories
    found = [(query, rank(query, hops, max(SEEDS, request.k), timer.record)) for query in queries]
    found = [(q, favor_task(q, cs, task) if (task := tasks[q.space]) is not None else cs) for q, cs in found]
    merged, reranking = merge_candidates(found), None
    merged = list(join_formed(merged, request.k))
    above = [(q, c) for q, c in merged if request.min_score is None or c.vector >= request.min_score]
    timer.record("rank_ms")
    reader = None
    if isinstance(reranker, AnswerReader):
        reader = reranker
    elif reranker is not None:
        above, reranking = rerank_candidates(reranker, text, above)
    results: Sequence[Ranked] = above
    if any(query.weights.diversity for query in queries):
        results = diversify_results(above, request.k)
    timer.record("rerank_ms")
    _read_ahead(queries, results[: max(request.k, READ)])
    timer.record("read_ms")
    judged = with_relevance(reader, text, results[: max(request.k, DEPTH)])
    timer.record("rerank_ms")
    best = newer_first(judged, request.k)[: request.k]
    timer.record("rank_ms")
    return _Ranking(best, judged, len(merged) - len(above), reranking)


def _read_ahead(queries: Sequence[ScopeQuery], first: Sequence[Ranked]) -> None:
    """Reads the first candidates, what surrounds the best and what changed them: one round trip to a server."""
    for query in queries:
        candidates = [c for at, c in first if at is query]
        ids = [c.memory_id for c in candidates]
        older = [c.stands_for.memory_id for c in candidates if c.stands_for is not None]
        query.served.read_ahead([*ids, *older, *distinct_ids(neighbor_ids(query.served, ids[:_SURROUNDED]))])


def _keep_pending(ranking: _Ranking, pending: Set[str], k: int) -> _Ranking:
    """Returns a ranking whose free places have the pending memories that are nearest to the question by meaning.

    What was sent just now has no links and few words of the question, and loses to what has many. Free are the places
    behind the likely results: nothing likely is left out for it.
    """
    likely = _likely(ranking.best, least_relevance(max((c.relevance for _, c in ranking.best), default=0.0)))
    sent = (pair for pair in ranking.judged if pair[1].memory_id in pending and pair[1].relevance)
    nearest = sorted(sent, key=lambda p: (-p[1].vector, p[1].memory_id))
    shown = {c.memory_id for _, c in likely}
    added = [pair for pair in nearest[:_NEAREST] if pair[1].memory_id not in shown][: max(0, k - len(likely))]
    kept = frozenset(c.memory_id for _, c in added)
    rest = [pair for pair in ranking.best if pair[1].memory_id not in shown | kept]
    return ranking._replace(best=[*likely, *added, *rest][:k], kept=kept)


def _likely(best: Sequence[Ranked], least: float) -> list[Ranked]:
    """Returns the results that are likely enough evidence: the first one in any case."""
    return [pair for n, pair in enumerate(best) if n == 0 or pair[1].relevance >= least]


def _task(request: SearchRequest, space: Space | None) -> Task | None:
    """Returns what the request says of its task, its brief embedded in a space; None where it says nothing."""
    if not (request.brief or request.paths):
        return None
    vector = embed_query(request.brief, space) if request.brief else None
    return Task(vector, request.brief, request.paths)


# Reading what the results say, and what surrounds them.


@dataclass(frozen=True)
class _Results:
    """The results, and what was read around them.

    Attributes:
        memories: best first.
        best: their candidates, each with the query of its scope.
        likely_ids: ids of those that are likely enough evidence: the context is of them.
        neighbors: what surrounds a result in its source, by its id.
        replaced: the versions that it replaced, newest first, by its id.
        later: what was said later about the same and is no result, oldest first, by its id.
        versions: with `history`, all versions of its fact, by its id.
        linked_texts: with `explain`, the texts of memories that links led from or to, by id.
        abstained: whether there were results and none is likely to hold an answer.
    """

    memories: Sequence[RankedMemory] = ()
    best: Sequence[Ranked] = ()
    likely_ids: frozenset[str] = frozenset()
    neighbors: Mapping[str, Sequence[NeighborContext]] = field(default_factory=dict)
    replaced: Mapping[str, list[Memory]] = field(default_factory=dict)
    later: Mapping[str, list[Memory]] = field(default_factory=dict)
    versions: Mapping[str, tuple[Version, ...]] = field(default_factory=dict)
    linked_texts: Mapping[str, str] = field(default_factory=dict)
    abstained: bool = False

    @property
    def likely(self) -> list[RankedMemory]:
        """The results that the context is of."""
        return [m for m in self.memories if m.memory_id in self.likely_ids]


def _read_results(request: SearchRequest, ranking: _Ranking, queries: Sequence[ScopeQuery]) -> _Results:
    """Reads the best memories, and of each scope what surrounds, ended, disputed or followed them."""
    best = ranking.best
    completed = {c.memory_id for n, (_, c) in enumerate(best) if n == 0 or c.relevance >= _COMPLETED}
    marked: dict[str, RankedMemory] = {}
    known: dict[str, Memory] = {}
    neighbors: dict[str, Sequence[NeighborContext]] = {}
    replaced: dict[str, list[Memory]] = {}
    versions: dict[str, tuple[Version, ...]] = {}
    for query in queries:
        served, candidates = query.served, [c for at, c in best if at is query]
        ids = [c.memory_id for c in candidates]
        beside = neighbor_ids(served, [i for i in ids if i in completed])
        memories = served.memories([*ids, *distinct_ids(beside), *served.related_ids(ids)])
        reasons = reasons_of_latest(served, memories.values())
        if not served.filters.history:
            memories |= without_ended_parts({i: memories[i] for i in memories.keys() - set(ids)}, reasons)
        ranked = [_with_scores(memories[c.memory_id], c) for c in candidates]
        marked |= {m.memory_id: m for m in mark_changes(served, ranked, reasons)}
        known |= memories
        neighbors |= neighbor_contexts(beside, memories)
        replaced |= _replaced(served, ids, request.history)
        versions |= histories(served, ids) if request.history else {}
    results = [marked[c.memory_id] for _, c in best]
    highest = max((m.relevance for m in results), default=0.0)
    if request.abstain and highest < LIKELY:
        return _Results(abstained=True)
    least = 0.0 if request.history else least_relevance(highest)  # who asks for all versions wants them all
    likely = frozenset(c.memory_id for _, c in _likely(best, least)) | ranking.kept
    chances = {c.memory_id: c.relevance for _, c in ranking.judged}
    later = said_later([m for m in results if m.memory_id in likely], known, completed, chances)
    if not request.all_results:
        results = [m for m in results if m.memory_id in likely]
        best = [(at, c) for at, c in best if c.memory_id in likely]
    results, texts = explain_results(results, best, queries) if request.explain else (results, {})
    return _Results(results, best, likely, neighbors, replaced, later, versions, texts)


def _replaced(served: ServedScope, ids: Sequence[str], history: bool) -> dict[str, list[Memory]]:
    """Returns the versions that memories replaced; without `history` the one that each replaced directly."""
    chains = served.history(ids)
    if history:
        return chains
    return {newer: [m for m in chain if m.superseded_by == newer][:1] for newer, chain in chains.items()}


def _with_scores(memory: Memory, candidate: Candidate) -> RankedMemory:
    return RankedMemory(
        **vars(memory),
        score=candidate.score,
        vector_score=candidate.vector,
        words_score=candidate.words,
        graph_score=candidate.score - candidate.base,
        hops=len(candidate.path),
        rerank_score=candidate.rerank,
        relevance=candidate.relevance,
    )


# Packing.


def _sources(request: SearchRequest) -> Sources:
    has_sources = request.sources != "short" or request.budget_tokens >= _LEAST_WITH_SOURCES
    return request.sources if has_sources else "none"


def _pack_results(request: SearchRequest, question: str, read: _Results, picker: "_SentencePicker") -> Packed:
    return pack(
        read.likely,
        read.replaced,
        request.budget_tokens,
        count_tokens,
        read.neighbors,
        no_sentences if request.compress == "none" else picker,
        read.later,
        _sources(request),
        asks_present(question),
    )


def _cited(packed: Packed, ranked: Sequence[Memory], others: Sequence[Sequence[Memory]]) -> dict[str, Memory]:
    """Returns the memories of a context by id: ranked ones, their other versions, later ones, and their neighbors."""
    ids = {*packed.packed_ids, *(q.memory_id for q in packed.quotes)}
    known = [*ranked, *(m for chain in others for m in chain), *packed.beside]
    return {m.memory_id: m for m in known if m.memory_id in ids}


class _SentencePicker:
    """Finds the sentences of long results; a compressor picks among them.

    Attributes:
        compression: what the compressor did; None without one.
    """

    def __init__(
        self,
        compressor: Compressor | None,
        question: str,
        queries: Sequence[ScopeQuery],
        read: _Results,
        timer: "_StepTimer",
    ):
        self._compressor, self._question, self._queries = compressor, question, queries
        self._read, self._timer = read, timer
        self.compression = None if compressor is None else Compression(compressor.name)

    def __call__(self) -> Mapping[str, Sentences]:
        """Returns the sentences of long results, by memory id."""
        memories = self._read.likely
        found = self._found({m.memory_id: m for m in memories})
        if self._compressor is None:
            return found
        self._timer.record("pack_ms")
        picked, self.compression = self._compressor.pick(self._question, memories, found)
        self._timer.record("compress_ms")
        return picked

    def _found(self, memories: Mapping[str, RankedMemory]) -> dict[str, Sentences]:
        """Returns the sentences of those results that may be quoted in part, by id."""
        found: dict[str, Sentences] = {}
        for query in self._queries:
            known = [memories[c.memory_id] for at, c in self._read.best if at is query and c.memory_id in memories]
            found |= quotable_sentences(query, [m for m in known if not m.is_cut])
        return found


class _StepTimer:
    """Milliseconds of each step, and of all since it was made."""

    def __init__(self) -> None:
        self._started = self._last = time.perf_counter()
        self.timings: dict[str, float] = dict.fromkeys(STEPS, 0.0)

    def record(self, name: str) -> None:
        """Adds the time since the last call to a step."""
        now = time.perf_counter()
        self.timings[name] = self.timings.get(name, 0.0) + (now - self._last) * 1000
        self._last = now
        self.timings["total_ms"] = (now - self._started) * 1000
