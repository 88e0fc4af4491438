"""What a judge of contexts, RAGAS or another, needs to know of each query of a run."""

from collections.abc import Sequence
from dataclasses import dataclass

from palimpsest_eval.golden.golden_run import TOP
from palimpsest_eval.golden.retrieval_run import QueryResult, RetrievalRun
from palimpsest_eval.golden.search_golden import GoldenSearch
from palimpsest_eval.metrics.rows import json_rows, row_text
from palimpsest_eval.suites.run_suite import row_ranking
from palimpsest_eval.suites.suite import Suite


@dataclass(frozen=True)
class RagasSample:
    """One query with its reference and what was retrieved.

    Attributes:
        query_id: its id.
        question: its words.
        reference: the words that answer it: golden quotes, or the texts of a suite's relevant rows, one a line.
        relevant: ids of what it needs.
        ranked: ids of what was found, best first, each once.
        contexts: texts of the top five.
        packed: the packed context.
    """

    query_id: str
    question: str
    reference: str
    relevant: tuple[str, ...]
    ranked: tuple[str, ...]
    contexts: tuple[str, ...]
    packed: str


def golden_samples(search: GoldenSearch) -> list[RagasSample]:
    """Returns a sample for each answerable golden question; `relevant` and `ranked` name needs."""
    samples = []
    for item in search.resolved:
        if item.question.answerable:
            result = search.retrieval.results[item.question.id]
            quotes = [e.quote for e in item.question.evidence]
            samples.append(_sample(result, quotes, sorted(item.qrels()), item.rank_needs(result.memory_ids)))
    return samples


def suite_samples(suite: Suite, run: RetrievalRun) -> list[RagasSample]:
    """Returns a sample for each judged query of a suite; `relevant` and `ranked` are ids of rows."""
    relevant = {q.query_id: sorted(suite.relevant(q.query_id)) for q in suite.judged}
    needed = {c for ids in relevant.values() for c in ids}
    texts: dict[str, str] = {}
    for path in suite.corpus_files:
        rows = ((row_text(row, "_id", where), row, where) for where, row in json_rows(path))
        texts |= {c: row_text(row, "text", where, may_be_empty=True) for c, row, where in rows if c in needed}
    return [
        _sample(run.results[q], [texts[c] for c in ids], ids, [row for row, _ in row_ranking(run.results[q])])
        for q, ids in relevant.items()
    ]


def _sample(
    result: QueryResult, reference: Sequence[str], relevant: Sequence[str], ranked: Sequence[str]
) -> RagasSample:
    return RagasSample(
        result.query.query_id,
        result.query.text,
        "\n".join(reference),
        tuple(relevant),
        tuple(ranked),
        tuple(m.text for m in result.memories[:TOP]),
        result.context,
    )
