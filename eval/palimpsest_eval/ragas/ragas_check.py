"""RAGAS's ID-based context precision and recall next to our own: a cross-check by another library.

Its metrics are of sets: rank does not count and a list is taken whole, so ours are compared at the list's own depth. It
gives NaN for an empty retrieval and leaves that out of its mean; here, as in the gate, nothing found counts as 0.
"""

import importlib.util
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palimpsest.core.ids import JsonRecord
from palimpsest.core.imports import import_with_json_schema
from palimpsest_eval.golden.golden_run import DIGITS, TOP, GoldenSearch
from palimpsest_eval.golden.retrieval_run import DEPTH, QueryResult, RetrievalRun
from palimpsest_eval.metrics import MetricError, evaluate, json_rows, row_text
from palimpsest_eval.suites.run_suite import row_ranking
from palimpsest_eval.suites.suite import Suite

# What a judge of contexts, RAGAS or another, needs to know of each query of a run.


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


@dataclass(frozen=True)
class CrossCheck(JsonRecord):
    """Means over all queries by RAGAS and by us at `depth`, the largest difference of one query, and what was empty."""

    depth: int
    queries: int
    empty: int
    ragas: Mapping[str, float]
    ours: Mapping[str, float]
    largest_difference: float

    def text(self) -> str:
        """Returns both means for people."""
        means = ", ".join(f"{m} {self.ragas[m]:.4f} (ours {self.ours[m]:.4f})" for m in self.ragas)
        return (
            f"RAGAS by ids, {self.queries} queries, {self.empty} without a result: {means};"
            f" largest difference of a query {self.largest_difference:.1e}"
        )


def crosscheck_samples(samples: Sequence[RagasSample]) -> CrossCheck:
    """Scores the rankings of samples with both; see `crosscheck`."""
    return crosscheck({s.query_id: s.ranked for s in samples}, {s.query_id: s.relevant for s in samples})


def ragas_means(samples: Sequence[RagasSample]) -> dict[str, float]:
    """Returns RAGAS's precision and recall by ids; nothing where it is not installed, or there is no question."""
    if not samples or importlib.util.find_spec("ragas") is None:
        return {}
    return {name: round(mean, DIGITS) for name, mean in crosscheck_samples(samples).ragas.items()}


def import_ragas() -> None:
    """Imports RAGAS, which takes seconds, without its telemetry."""
    os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")
    import_with_json_schema("ragas")


def crosscheck(
    ranked: Mapping[str, Sequence[str]], relevant: Mapping[str, Sequence[str]], depth: int = DEPTH
) -> CrossCheck:
    """Scores rankings with both.

    RAGAS divides precision by what was retrieved, P@depth by the depth: ours is scaled by depth / retrieved.

    Args:
        ranked: document ids of each query, best first, each once.
        relevant: ids that each query needs; every query has one.
        depth: results that are scored.

    Raises:
        MetricError: there is no query.
    """
    if not relevant:
        raise MetricError("no judged query: there is nothing to cross-check")
    import_ragas()
    from ragas.dataset_schema import SingleTurnSample
    from ragas.metrics import IDBasedContextPrecision, IDBasedContextRecall

    both = {"precision": IDBasedContextPrecision(), "recall": IDBasedContextRecall()}
    top: dict[str, list[str]] = {q: list(ranked.get(q, ()))[:depth] for q in sorted(relevant)}
    theirs: dict[str, dict[str, float]] = {}
    for q, ids in top.items():
        # Not called where nothing was retrieved: its answer would be NaN.
        sample = (
            SingleTurnSample(retrieved_context_ids=[*ids], reference_context_ids=list(relevant[q])) if ids else None
        )
        theirs[q] = {name: float(m.single_turn_score(sample)) if sample else 0.0 for name, m in both.items()}
    run = {q: [(i, 0.0) for i in ids] for q, ids in top.items()}
    qrels = {q: dict.fromkeys(relevant[q], 1) for q in top}
    scores = evaluate(run, qrels, (f"P@{depth}", f"R@{depth}")).per_query
    ours = {
        q: {"precision": v[f"P@{depth}"] * depth / max(len(top[q]), 1), "recall": v[f"R@{depth}"]}
        for q, v in scores.items()
    }
    return CrossCheck(
        depth,
        len(top),
        sum(not ids for ids in top.values()),
        _means(theirs),
        _means(ours),
        max(abs(theirs[q][m] - ours[q][m]) for q in top for m in both),
    )


def _means(values: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    return {m: math.fsum(v[m] for v in values.values()) / len(values) for m in ("precision", "recall")}
