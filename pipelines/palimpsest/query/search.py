"""One search from request to answer: embed, rank each scope, merge, read, pack."""

import datetime as dt
import difflib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from palimpsest.core.errors import ArgumentError
from palimpsest.memories.embedders.space import Space
from palimpsest.query.context.changes import (
    LATER,
    is_beside,
    mark_changes,
    newer_first,
    reasons_of_latest,
    without_ended_parts,
)
from palimpsest.query.context.compressor import Compression, Compressor, requested_compressor
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
from palimpsest.query.context.quotes import Sentences, quotable_sentences
from palimpsest.query.embed_query import count_tokens, embed_query
from palimpsest.query.ranking.candidate import Candidate, Ranked
from palimpsest.query.ranking.experimental.diversity import diversify_results
from palimpsest.query.ranking.merge import Task, favor_task, join_formed, merge_candidates
from palimpsest.query.ranking.rank import SEEDS, rank
from palimpsest.query.ranking.relevance import DEPTH, LIKELY, least_relevance
from palimpsest.query.request.search_request import SearchRequest, narrow_to_tiers
from palimpsest.query.request.types import Memory, RankedMemory, Scope
from palimpsest.query.request.where import Condition, Kind, Where
from palimpsest.query.rerank.answer_reader import AnswerReader
from palimpsest.query.rerank.rerank_candidates import AnyReranker, Reranking, rerank_candidates, with_relevance
from palimpsest.query.result import SearchResult
from palimpsest.query.scope.backend import Backend
from palimpsest.query.scope.resolve_scopes import project_scopes
from palimpsest.query.scope.scope_query import NodeSearch, ScopeQuery, resolve_query
from palimpsest.query.scope.served_scope import ReasonRecord, ServedScope
from palimpsest.query.scope.view import MEMORY_FIELDS, METADATA
from palimpsest.query.turns.resolve import resolve_text
from palimpsest.store.usage_log import DAYS_VARIABLE, UsageLog
from palimpsest.text.terms import query_terms

# Checks that the fields of a `where` exist in what a search reads, and that they are compared with their own kind.

_MAX_NAMED, _MAX_NAME_CHARS = 12, 60
_A_KIND = {"text": "a text", "number": "a number", "date": "a date", "boolean": "true or false"}
_EXAMPLES = {"text": '"word"', "number": "3", "date": "2026-05-31", "boolean": "true"}


def check_fields(where: Where, scopes: Iterable[ServedScope]) -> None:
    """Checks the fields of an expression against metadata_schema, the metadata of visible memories, and memories.

    Raises:
        ArgumentError: a field is in none of the scopes, or all its values are of other kinds than it is compared with.
    """
    known = _known_fields(scopes)
    for condition in where.conditions():
        name = condition.field if condition.field in MEMORY_FIELDS else condition.field.removeprefix(METADATA)
        kinds = frozenset({MEMORY_FIELDS[name]}) if condition.field in MEMORY_FIELDS else known.get(name)
        if kinds is None:
            raise ArgumentError("where", _unknown_field(condition.field, known))
        if kinds:
            _check_values(condition, kinds)


def _known_fields(scopes: Iterable[ServedScope]) -> dict[str, frozenset[Kind]]:
    """Returns the fields of metadata by name; the kinds of a schema are those of its field, dates in texts apart."""
    known: dict[str, frozenset[Kind]] = {}
    for served in scopes:
        info = served.backend.collections().get(served.scope.collection)
        declared = {name: frozenset(kinds) for name, kinds in info.fields.items()} if info else {}
        stated = served.field_kinds()
        for name in declared.keys() | stated.keys():
            kinds = stated.get(name, frozenset())
            if of_schema := declared.get(name):
                kinds = of_schema | (kinds & {"date"} if "text" in of_schema else frozenset())
            known[name] = known.get(name, frozenset()) | kinds
    return known


def _check_values(condition: Condition, kinds: frozenset[Kind]) -> None:
    for value in condition.values:
        if value.kind in kinds or (value.kind == "text" and "date" in kinds and value.is_date):
            continue
        named = " or ".join(_A_KIND[k] for k in sorted(kinds))
        example = _EXAMPLES[min(kinds)]
        raise ArgumentError(
            "where",
            f"{_shorten(condition.field)} is {named}, and {_shorten(value.written)} is {_A_KIND[value.kind]};"
            f" compare it with a value such as {example}",
        )


def _unknown_field(name: str, known: Mapping[str, frozenset[Kind]]) -> str:
    """Returns what is wrong with a name, and the closest known ones."""
    fields = sorted({*known, *MEMORY_FIELDS})
    close = difflib.get_close_matches(name.removeprefix(METADATA), fields, n=3, cutoff=0.5)
    listed = close or [*sorted(known)[:_MAX_NAMED], *MEMORY_FIELDS][:_MAX_NAMED]
    names = ", ".join(_shorten(n) for n in listed)
    return f"no memory here has a field {_shorten(name)!r}; {'did you mean' if close else 'fields are'} {names}"


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_NAME_CHARS else line[: _MAX_NAME_CHARS - 1] + "…"


# One search from request to answer: embed, rank each scope, merge, read, pack.

_COMPLETED = 0.03
"""Least relevance of a result that neighbors complete, and that what was said later follows."""
_LIKELY_LATER, _RELEVANT_LATER = 0.05, 0.005
_LEAST_WITH_SOURCES = 320  # tokens: of a smaller budget a tenth is less than a line of sources
"""What was said later is in a context from this likelihood on that it ended such a result, or this relevance."""
STEPS = ("embed_ms", "seeds_ms", "expand_ms", "rank_ms", "rerank_ms", "read_ms", "pack_ms")


def run_search(
    request: SearchRequest,
    backend: Backend,
    clock: dt.datetime,
    reranker: AnyReranker | None = None,
    usage: UsageLog | None = None,
    compressor: Compressor | None = None,
) -> SearchResult:
    """Answers a request from one build.

    Args:
        request: the search.
        backend: the store of the build.
        clock: the real time; a memory past its retention is not served, and `accessed_within` is counted back from it.
        reranker: reads the best candidates; without one the scores alone decide.
        usage: reads of memories; None where none are counted.
        compressor: picks the sentences of long results where the request says so.

    Raises:
        PalimpsestError: the strategy or the project is unknown, or the request needs a compressor and there is none.
    """
    timer, compressor = _StepTimer(), requested_compressor(request.compress, compressor)
    question = resolve_text(request.text, request.turns, request.brief)
    queries = _scope_queries(request, question.text, backend, clock, usage)
    ranking = _rank_scopes(request, question.text, queries, reranker, timer)
    best = ranking.best
    likely = {c.memory_id for n, (_, c) in enumerate(best) if n == 0 or c.relevance >= _COMPLETED}
    reads = {
        q.scope: _read_scope(q, [c.memory_id for at, c in best if at is q], likely, request.history) for q in queries
    }
    memories = _ranked_memories(best, queries, reads)
    highest = max((m.relevance for m in memories), default=0.0)
    abstained = request.abstain and highest < LIKELY
    if abstained:
        memories, best, reads = [], [], {}
    least = 0.0 if request.history else least_relevance(highest)  # who asks for all versions wants them all
    shown = {m.memory_id for n, m in enumerate(memories) if n == 0 or m.relevance >= least}
    if not request.all_results:
        memories = [m for m in memories if m.memory_id in shown]
        best = [(at, c) for at, c in best if c.memory_id in shown]
    texts: dict[str, str] = {}
    if request.explain:
        memories, texts = explain_results(memories, best, queries)
    timer.record("read_ms")
    replaced = {i: chain for read in reads.values() for i, chain in read.replaced.items()}
    neighbors = {i: near for read in reads.values() for i, near in read.neighbors.items()}
    packable = [m for m in memories if m.memory_id in shown]
    find = partial(_quotable_sentences, queries, best, {m.memory_id: m for m in packable})
    picking = None if compressor is None else _SentencePicker(compressor, question.text, packable, find, timer)
    sentences = no_sentences if request.compress == "none" else picking or find
    known = {i: m for read in reads.values() for i, m in read.memories.items()}
    later = _said_later(packable, known, likely, ranking.relevance)
    newest_first = asks_present(question.text)
    has_sources = request.sources != "short" or request.budget_tokens >= _LEAST_WITH_SOURCES
    sources = request.sources if has_sources else "none"
    packed = pack(
        packable,
        replaced,
        request.budget_tokens,
        count_tokens,
        neighbors,
        sentences,
        later,
        sources,
        newest_first,
    )
    repeated = set() if request.all_results else {i for ids in packed.folded.values() for i in ids}
    memories = [replace(m, repeats=packed.folded.get(m.memory_id, ())) for m in memories if m.memory_id not in repeated]
    timer.record("pack_ms")
    subgraph = None
    if request.subgraph:
        from palimpsest.query.graph.subgraph import read_subgraph

        subgraph = read_subgraph([query.served for query in queries], memories)
        lines = ((line.text, line.memory_ids) for line in subgraph.lines)
        packed = add_relation_lines(packed, lines, request.budget_tokens, count_tokens, sources)
        timer.record("subgraph_ms")
    return SearchResult(
        memories=memories,
        lines=packed.lines,
        returned_ids=frozenset(shown),
        sources=sources,
        packed_ids=packed.packed_ids,
        quotes=packed.quotes,
        beside=packed.beside,
        folded=dict(packed.folded),
        timings=timer.timings,
        strategy=queries[0].strategy,
        build_id=backend.build_id,
        versions={i: versions for read in reads.values() for i, versions in read.versions.items()},
        times={query.scope: query.temporal for query in queries},
        met=texts,
        question=question,
        filters=request.filters_json() | {"below_min_score": ranking.below_min_score},
        reranker=ranking.reranking,
        compression=picking.compression if picking else None,
        abstained=abstained,
        subgraph=subgraph,
        cited=_cited(packed, memories, [*replaced.values(), *later.values()]),
    )


def _said_later(
    ranked: Sequence[RankedMemory], known: Mapping[str, Memory], likely: Set[str], relevance: Mapping[str, float]
) -> dict[str, list[Memory]]:
    """Returns for results what was said later about the same and is no result itself, in order of time.

    What neither disputes nor may have ended a likely result has to be about the question.

    Args:
        ranked: results.
        known: memories by id.
        likely: ids of results that are likely evidence.
        relevance: of the best memories, by id.
    """
    results = {m.memory_id for m in ranked}
    found: dict[str, list[Memory]] = {}
    for memory in ranked:
        later = [
            n
            for n in memory.later
            if n.why != LATER
            or (
                memory.memory_id in likely
                and (
                    relevance.get(n.memory_id, 0.0) >= _RELEVANT_LATER
                    or ((n.likelihood or 0.0) >= _LIKELY_LATER and not is_beside(memory, known.get(n.memory_id)))
                )
            )
        ]
        named = [*([memory.disputed_by] if memory.disputed_by else []), *later]
        ids = [n.memory_id for n in reversed(named) if n.memory_id not in results and n.memory_id in known]
        if ids:
            found[memory.memory_id] = [known[i] for i in ids]
    return found


def _cited(packed: Packed, ranked: Sequence[Memory], others: Sequence[Sequence[Memory]]) -> dict[str, Memory]:
    """Returns the memories of a context by id: ranked ones, their other versions, later ones, and their neighbors."""
    ids = {*packed.packed_ids, *(q.memory_id for q in packed.quotes)}
    known = [*ranked, *(m for chain in others for m in chain), *packed.beside]
    return {m.memory_id: m for m in known if m.memory_id in ids}


class _Ranking(NamedTuple):
    """The best k of all scopes, the relevance of the best by id, how many were left out, what the reranker did."""

    best: Sequence[Ranked]
    relevance: Mapping[str, float]
    below_min_score: int
    reranking: Reranking | None


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
    judged = with_relevance(reader, text, diversify_results(above, request.k)[: max(request.k, DEPTH)])
    timer.record("rerank_ms")
    chances = {c.memory_id: c.relevance for _, c in judged}
    best = newer_first(judged, request.k)[: request.k]
    timer.record("rank_ms")
    return _Ranking(best, chances, len(merged) - len(above), reranking)


def _task(request: SearchRequest, space: Space | None) -> Task | None:
    """Returns what the request says of its task, its brief embedded in a space; None where it says nothing."""
    if not (request.brief or request.paths):
        return None
    vector = embed_query(request.brief, space) if request.brief else None
    return Task(vector, tuple(query_terms(request.brief)), request.paths)


def _scope_queries(
    request: SearchRequest, text: str, backend: Backend, clock: dt.datetime, usage: UsageLog | None
) -> list[ScopeQuery]:
    """Returns the query of each scope of a request, sorted by scope; `text` is the question, resolved."""
    scopes: Sequence[Scope] = request.scopes
    if request.project:
        known = backend.scopes()
        scopes = sorted({s for at in scopes for s in project_scopes(known, *at[:2], request.project)})
    filters = request.filters(clock)
    accessed = _accessed(request, clock, usage)
    narrowed = {s: narrow_to_tiers(replace(filters, accessed=accessed(s)), s, request.tiers) for s in scopes}
    served = [ServedScope(backend, s, narrowed[s]) for s in scopes]
    if filters.where is not None:
        check_fields(filters.where, served)
    nodes = NodeSearch(request.narrow, request.node_types, request.node_where, request.depth)
    terms, vectors = query_terms(text), {space: embed_query(text, space) for space in {s.space for s in served}}
    return [resolve_query(s, text, vectors[s.space], terms, request.strategy, nodes) for s in served]


def _accessed(
    request: SearchRequest, clock: dt.datetime, usage: UsageLog | None
) -> Callable[[Scope], frozenset[str] | None]:
    """Returns what gives the memories of a scope that were read recently enough; None where that is no filter.

    Raises:
        ArgumentError: no reads are counted, or they are kept for fewer days.
    """
    if request.accessed_within is None:
        return lambda _: None
    if usage is None:
        raise ArgumentError(
            "accessed_within",
            f"no reads are counted here: {DAYS_VARIABLE} is 0, or the reader was not opened by open_home",
        )
    if request.accessed_within > dt.timedelta(days=usage.days):
        raise ArgumentError(
            "accessed_within", f"reads are kept for {usage.days} days; ask for less, or set {DAYS_VARIABLE}"
        )
    since = clock - request.accessed_within
    return lambda scope: usage.accessed_since(scope, since)


@dataclass(frozen=True)
class _ScopeRead:
    """What was read of one scope for its results: texts by id, and by the id of a result the rest."""

    memories: Mapping[str, Memory]
    neighbors: Mapping[str, Sequence[NeighborContext]]
    replaced: Mapping[str, list[Memory]]
    versions: Mapping[str, tuple[Version, ...]]
    reasons: Mapping[str, Sequence[ReasonRecord]]


def _read_scope(query: ScopeQuery, ids: Sequence[str], likely: Set[str], history: bool) -> _ScopeRead:
    """Reads the results of one scope, neighbors of the likely ones; without `history` what each replaced directly."""
    served = query.served
    neighbors = neighbor_ids(served, [i for i in ids if i in likely])
    memories = served.memories([*ids, *distinct_ids(neighbors), *served.related_ids(ids)])
    reasons = reasons_of_latest(served, memories.values())
    if not served.filters.history:
        memories |= without_ended_parts({i: memories[i] for i in memories.keys() - set(ids)}, reasons)
    replaced = served.history(ids)
    if not history:
        replaced = {newer: [m for m in chain if m.superseded_by == newer][:1] for newer, chain in replaced.items()}
    versions = histories(served, ids) if history else {}
    return _ScopeRead(memories, neighbor_contexts(neighbors, memories), replaced, versions, reasons)


def _quotable_sentences(
    queries: Sequence[ScopeQuery], best: Sequence[Ranked], memories: Mapping[str, RankedMemory]
) -> dict[str, Sentences]:
    """Returns the sentences of those results that may be quoted in part, by id."""
    found: dict[str, Sentences] = {}
    for query in queries:
        known = [memories[c.memory_id] for at, c in best if at is query and c.memory_id in memories]
        whole = [m for m in known if not m.is_cut]
        found |= quotable_sentences(query, whole)
    return found


def _ranked_memories(
    best: Sequence[Ranked], queries: Sequence[ScopeQuery], reads: Mapping[Scope, _ScopeRead]
) -> list[RankedMemory]:
    """Returns the results in their order, with what newer memories of their scope end, dispute or say later."""
    marked: dict[str, RankedMemory] = {}
    for query in queries:
        read = reads[query.scope]
        ranked = [_with_scores(read.memories[c.memory_id], c) for at, c in best if at is query]
        marked |= {m.memory_id: m for m in mark_changes(query.served, ranked, read.reasons)}
    return [marked[c.memory_id] for _, c in best]


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


class _SentencePicker:
    """Finds the sentences of long results and has a compressor pick among them.

    Attributes:
        compression: what the compressor did.
    """

    def __init__(
        self,
        compressor: Compressor,
        question: str,
        memories: Sequence[RankedMemory],
        find: Callable[[], Mapping[str, Sentences]],
        timer: "_StepTimer",
    ):
        self._compressor, self._question, self._memories, self._find = compressor, question, memories, find
        self._timer, self.compression = timer, Compression(compressor.name)

    def __call__(self) -> Mapping[str, Sentences]:
        """Returns the sentences of long results, by memory id."""
        found = self._find()
        self._timer.record("pack_ms")
        picked, self.compression = self._compressor.pick(self._question, self._memories, found)
        self._timer.record("compress_ms")
        return picked


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
