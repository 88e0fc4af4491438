"""The run of a golden set: its questions are searched once, and scored by what they returned."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from palimpsest.core.ids import GENERAL, SCOPE, scope_parts
from palimpsest.query.request.types import RankedMemory
from palimpsest_eval.golden.answers import Sources, check_citations, duplicate_share, irrelevant_share, quoted_tokens
from palimpsest_eval.golden.golden_run import (
    CONTEXT_PRECISION,
    CONTEXT_TOKENS,
    DIGITS,
    DUPLICATES,
    EVIDENCE_RATE,
    FILLED,
    IRRELEVANT,
    MIN_BROAD,
    PACKED_ALL,
    RETIRED,
    RETURNED_PRECISION,
    SIGNALS,
    STALE,
    TOP,
    GoldenRun,
    GoldenSearch,
    Hit,
    Miss,
    empty_run,
    search_golden,
)
from palimpsest_eval.golden.misses import find_misses, unresolved_misses
from palimpsest_eval.golden.questions import GoldenError, GoldenSet, Tables, retired_ids
from palimpsest_eval.golden.resolve import ResolvedQuestion
from palimpsest_eval.golden.retrieval_run import DEPTH, QueryResult, Searcher, SearchSettings
from palimpsest_eval.metrics import evaluate, percentiles

LIBRARY_MEASURES = ("R@5", "R@10", "P@5", "Hit@5", "nDCG@10", "MRR@10")


def run_golden(
    reader: Searcher,
    golden: GoldenSet,
    tables: Tables,
    settings: SearchSettings | None = None,
    *,
    diagnose: bool = False,
    on_search: Callable[[GoldenSearch], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
    others: Searcher | None = None,
) -> GoldenRun:
    """Searches the questions and scores what they return, as `search_golden` and `score_golden` do.

    A quote that cannot be found becomes an error of the run, never a question that is left out.

    Args:
        reader: the build's reader.
        golden: the golden set.
        tables: documents, document_texts, memories and versions of the build.
        settings: of the searches; None means the defaults.
        diagnose: whether to find out where what was missed got lost, by two deep searches for each such question.
        on_search: receives what was found.
        clock: seconds; tests replace it.
        others: see `search_queries`.
    """
    unresolved: tuple[Miss, ...] = ()
    try:
        search = search_golden(reader, golden, tables, settings, clock, others)
    except GoldenError as e:
        run = replace(empty_run(golden, settings or SearchSettings()), errors=(str(e),))
        if not diagnose:
            return run
        unresolved = unresolved_misses(golden, tables)
        ids = {m.question_id for m in unresolved}
        found = replace(golden, questions=tuple(q for q in golden.questions if q.id not in ids))
        search = search_golden(reader, found, tables, settings, clock, others)
        missed = score_golden(search, tables).missed_questions
    else:
        run = score_golden(search, tables)
        missed = run.missed_questions
    if on_search is not None:
        on_search(search)
    if not diagnose:
        return run
    return replace(run, misses=(*unresolved, *find_misses(others or reader, search, tables, missed)))


def score_golden(search: GoldenSearch, tables: Tables) -> GoldenRun:
    """Returns the run that the results make.

    `stale@5` is the share of the top five that contain a `stale` quote or, unless the question has a date to be
    answered as of, are not latest.

    Args:
        search: the questions and their results.
        tables: documents, document_texts, memories and versions of the build.
    """
    memories, sources = _BuildMemories(tables, search.golden.collection), Sources(tables)
    run = empty_run(search.golden, search.retrieval.settings)
    ranked: dict[str, list[tuple[str, float]]] = {}
    extra: dict[str, dict[str, float]] = {}
    hits: dict[str, tuple[Hit, ...]] = {}
    unanswerable: dict[str, float] = {}
    current: dict[str, float] = {}
    retired: dict[str, float] = {}
    precision: dict[str, float] = {}
    leaks: list[str] = []
    cited, bad_citations = 0, list[str]()
    for item in search.resolved:
        question, found = item.question, search.retrieval.results[item.question.id]
        leaks += [f"question {question.id!r}: {why}" for why in memories.leaks(item, found)]
        hits[question.id] = tuple(_hit(item, m, memories) for m in found.memories[:TOP])
        lines, wrong = check_citations(found.context, sources)
        cited += lines
        bad_citations += [f"question {question.id!r}: {why}" for why in wrong]
        if not question.answerable:
            unanswerable[question.id] = float(bool(found.memories))
            continue
        ranked[question.id] = [(name, 0.0) for name in item.rank_needs(found.memory_ids)]
        extra[question.id] = _extra_measures(item, found, hits[question.id]) | {RETIRED: 0.0}
        if question.as_of is None:  # what answers a question about a past day may be retired since
            lost = [memories.all_retired(ids) for ids in item.needs]
            retired[question.id] = extra[question.id][RETIRED] = sum(lost) / len(lost)
        if len(question.evidence) >= MIN_BROAD:
            precision[question.id] = sum(h.relevant for h in hits[question.id]) / TOP
        if question.as_of is None and question.stale:
            latest = {m.memory_id for m in found.memories[:TOP] if m.is_latest}
            current[question.id] = sum(bool(ids & latest) for ids in item.needs) / len(item.needs)
    qrels = {item.question.id: item.qrels() for item in search.resolved if item.question.answerable}
    scores = evaluate(ranked, qrels, LIBRARY_MEASURES).per_query if qrels else {}
    took_ms = search.retrieval.took_ms
    return replace(
        run,
        per_query={q: {m: round(v, DIGITS) for m, v in (values | extra[q]).items()} for q, values in scores.items()},
        results=hits,
        answered=sum(bool(ranked[q]) for q in qrels),
        unanswerable=unanswerable,
        current=current,
        retired=retired,
        precision=precision,
        cited=cited,
        bad_citations=tuple(bad_citations),
        leaks=tuple(leaks),
        latency_ms=percentiles(took_ms) if took_ms else {},
        unhindered_ms=[round(ms, 3) for ms in search.retrieval.unhindered_ms],
        steps_ms=search.retrieval.steps_ms,
        answer_probability={
            q: round(r.answer_probability, DIGITS)
            for q, r in search.retrieval.results.items()
            if r.answer_probability is not None
        },
    )


def _extra_measures(item: ResolvedQuestion, found: QueryResult, hits: Sequence[Hit]) -> dict[str, float]:
    """Returns the measures that no library has, as fractions; `RETIRED` apart."""
    in_context = item.needs_in_context(found.packed_ids, found.context)
    relevant = frozenset().union(*item.needs)
    returned = [m.memory_id in relevant for m in found.memories[:TOP] if m.memory_id in found.returned_ids]
    return {
        CONTEXT_TOKENS: float(found.context_tokens),
        CONTEXT_PRECISION: quoted_tokens(found.context, relevant)[0] / max(1, found.context_tokens),
        RETURNED_PRECISION: sum(returned) / len(returned) if returned else 0.0,
        STALE: sum(h.stale for h in hits) / len(hits) if hits else 0.0,
        DUPLICATES: duplicate_share(found.memories, found.folded, TOP),
        "packed_recall": sum(in_context) / len(in_context),
        PACKED_ALL: float(all(in_context)),
        EVIDENCE_RATE: 1000 * sum(in_context) / max(1, found.context_tokens),
        IRRELEVANT: irrelevant_share(found.context, relevant),
        FILLED: len(found.memories) / DEPTH,
        **{name: float(any(getattr(m, score, 0.0) for m in found.memories)) for name, score in SIGNALS.items()},
    }


def _hit(item: ResolvedQuestion, memory: RankedMemory, memories: "_BuildMemories") -> Hit:
    outdated = item.question.as_of is None and not memory.is_latest
    relevant = any(memory.memory_id in ids for ids in item.needs)
    source = memories.source(memory.memory_id)
    return Hit(memory.memory_id, source, relevant, outdated or memory.memory_id in item.stale)


class _BuildMemories:
    """Scope, source and version of each memory of a build."""

    def __init__(self, tables: Tables, collection: str):
        self._collection = collection
        rows = tables["memories"].join(tables["documents"].select("document_id", "uri"), on="document_id", how="left")
        columns = ("memory_id", *SCOPE, "uri", "char_start", "char_end")
        self._rows = {row[0]: row[1:] for row in rows.select(columns).iter_rows()}
        self._retired = retired_ids(tables)

    def leaks(self, item: ResolvedQuestion, found: QueryResult) -> list[str]:
        """Returns why memories must not have been returned to this user, who searched in a project or in none."""
        user_id, project_id = item.user_id, item.question.project or GENERAL
        allowed = {(self._collection, user_id, p) for p in (GENERAL, project_id)}
        leaks = []
        for memory_id in sorted({*found.memory_ids, *found.packed_ids}):
            if memory_id not in self._rows:
                leaks.append(f"memory {memory_id} is not of this build")
            elif (scope := self._rows[memory_id][: len(SCOPE)]) not in allowed:
                leaks.append(f"memory {memory_id} belongs to {'/'.join(scope_parts(*scope))}")
        return leaks

    def all_retired(self, memory_ids: frozenset[str]) -> bool:
        """Returns whether every one of them was retired."""
        return memory_ids <= self._retired

    def source(self, memory_id: str) -> str:
        """Returns `uri:start-end`."""
        if memory_id not in self._rows:
            return "unknown"
        uri, start, end = self._rows[memory_id][len(SCOPE) :]
        return f"{uri}:{start}-{end}"
