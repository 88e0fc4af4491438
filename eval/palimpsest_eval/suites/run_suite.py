"""A suite measured through a reader: each judged query searched once inside its scope, then scored."""

import time
from collections.abc import Callable, Collection, Iterable

from palimpsest.query.request.types import Scope
from palimpsest_eval.golden.answers import quoted_tokens
from palimpsest_eval.golden.golden_run import (
    CONTEXT_PRECISION,
    CONTEXT_TOKENS,
    EVIDENCE_RATE,
    PACKED_ALL,
    by_type,
    time_kind,
)
from palimpsest_eval.golden.retrieval_run import (
    QueryResult,
    RetrievalQuery,
    RetrievalRun,
    Searcher,
    SearchSettings,
    search_queries,
)
from palimpsest_eval.metrics import MEASURES, LatencyMs, MetricError, evaluate, percentiles
from palimpsest_eval.suites.suite import SHARED_USER, Suite, collection_name, corpus_id
from palimpsest_eval.suites.suite_result import QueryScores, SuiteResult


def run_suite(
    reader: Searcher,
    suite: Suite,
    settings: SearchSettings | None = None,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> SuiteResult:
    """Searches each judged query of a suite and scores what came back; see `score_suite`.

    Args:
        reader: reader of the suite's home.
        suite: the suite.
        settings: strategy, budget and depth of the searches; None means the defaults.
        clock: seconds; tests replace it.

    Raises:
        MetricError: no query is judged, none got a result, or a search returned a row of another scope.
    """
    return score_suite(suite, search_queries(reader, suite_queries(suite), settings, clock=clock))


def suite_queries(suite: Suite) -> list[RetrievalQuery]:
    """Returns the judged queries, each with the scope it is searched in.

    Raises:
        MetricError: no query is judged.
    """
    if not suite.judged:
        raise MetricError(f"suite {suite.name}: no judged query; qrels.tsv has no relevant row")
    name = collection_name(suite)
    return [
        RetrievalQuery(q.query_id, q.text, Scope(name, q.scope or SHARED_USER), {"as_of": q.as_of} if q.as_of else {})
        for q in suite.judged
    ]


def score_suite(suite: Suite, run: RetrievalRun) -> SuiteResult:
    """Scores a run of the judged queries of a suite.

    `packed_recall` is the share of a query's evidence that the packed context quotes, in the words of its own row.
    Where the suite states no evidence for a query, it is the share of its relevant rows whose whole text is in the
    context: a row that is quoted in part does not count, for nobody judged which part answers; so do `packed_all` and
    `evidence_per_1000_tokens`, and `context_precision` counts the tokens of relevant rows. Queries without a
    relevant row are not searched; `unjudged` counts them.

    Raises:
        MetricError: no query got a result, or a search returned a row of another scope.
    """
    rankings = {q: row_ranking(result) for q, result in run.results.items()}
    packed = {q: _packed_rows(result) for q, result in run.results.items()}
    scopes = {q.query_id: q.scope for q in suite.judged}
    leaks = sum(suite.scopes.get(row, "") != scopes[q] for q in scopes for row in {*dict(rankings[q]), *packed[q]})
    if leaks:
        raise MetricError(f"suite {suite.name}: {leaks} results are outside their query's scope")
    if not any(rankings.values()):
        raise MetricError(f"suite {suite.name}: no judged query was answered; the home is empty or of another corpus")
    scores = evaluate(rankings, {q: suite.qrels[q] for q in scopes})
    recall = {
        q: _evidence_recall(run.results[q], suite.evidence[q], packed[q])
        if q in suite.evidence
        else len(suite.relevant(q) & packed[q]) / len(suite.relevant(q))
        for q in scopes
    }
    per_query = {
        q: {
            **scores.per_query[q],
            "packed_recall": recall[q],
            PACKED_ALL: float(recall[q] == 1.0),
            EVIDENCE_RATE: 1000 * recall[q] * pieces / max(1, run.results[q].context_tokens),
            **_context_measures(run.results[q], suite.relevant(q)),
        }
        for q in scopes
        for pieces in [len(suite.evidence.get(q, suite.relevant(q)))]
    }
    added = ("packed_recall", PACKED_ALL, EVIDENCE_RATE, CONTEXT_PRECISION, CONTEXT_TOKENS)
    return SuiteResult(
        suite=suite.name,
        queries=len(scopes),
        unjudged=len(suite.queries) - len(scopes),
        strategy=run.settings.strategy,
        budget_tokens=run.settings.budget_tokens,
        metrics={m: scores.mean[m] for m in MEASURES}
        | {m: sum(values[m] for values in per_query.values()) / len(per_query) for m in added},
        by_type=by_type(per_query, {q.query_id: q.type for q in suite.judged}),
        by_time=by_type(per_query, {q.query_id: time_kind(q.text) for q in suite.judged}),
        latency_ms=LatencyMs(**percentiles(run.took_ms)),
        per_query=tuple(
            QueryScores(
                q,
                ranked=tuple(row for row, _ in rankings[q]),
                metrics=per_query[q],
                scores=tuple(score for _, score in rankings[q]),
                ms=run.results[q].ms,
            )
            for q in sorted(per_query)
        ),
    )


def row_ranking(result: QueryResult) -> list[tuple[str, float]]:
    """Returns (corpus id, score) of a result, best first, each row once by its best memory."""
    best: dict[str, float] = {}
    for memory in result.memories:
        best.setdefault(corpus_id(memory.uri or ""), float(memory.score))
    return list(best.items())


def _context_measures(result: QueryResult, relevant: Collection[str]) -> dict[str, float]:
    """Returns the tokens of a context, and the share of them that is of relevant rows, judged or not line by line."""
    known = [*result.memories, *result.neighbors]
    ids = {m.memory_id for m in known if corpus_id(m.uri or "") in relevant}
    of_relevant, _ = quoted_tokens(result.context, ids)
    tokens = float(result.context_tokens)
    return {CONTEXT_TOKENS: tokens, CONTEXT_PRECISION: of_relevant / max(1.0, tokens)}


def _packed_rows(result: QueryResult) -> set[str]:
    """Returns the corpus ids whose whole text is in the packed context.

    A row with the text of a better one is folded into it: its whole text is in the context all the same.
    """
    packed = set(result.packed_ids)
    rows = {
        corpus_id(m.uri or "")
        for m in result.memories
        if m.memory_id in packed or (result.context and " ".join(m.text.split()) in result.context)
    }
    return rows | {corpus_id(m.uri or "") for m in result.neighbors if m.memory_id in packed}


def _evidence_recall(result: QueryResult, evidence: Iterable[tuple[str, str]], whole_rows: set[str]) -> float:
    """Returns the share of the evidence that a packed context contains, each in the words quoted of its own row.

    Args:
        result: the result of the query.
        evidence: (corpus id, words).
        whole_rows: rows whose whole text is in the context.
    """
    parts: dict[str, list[str]] = {}
    memories = {m.memory_id: m for m in result.memories}
    for quote in result.quotes:
        memory = memories[quote.memory_id]
        first = memory.char_start or 0
        parts.setdefault(corpus_id(memory.uri or ""), []).extend(
            " ".join(memory.text[a - first : b - first].split()) for a, b in quote.spans
        )
    hits = [row in whole_rows or any(words in part for part in parts.get(row, ())) for row, words in evidence]
    return sum(hits) / len(hits)
