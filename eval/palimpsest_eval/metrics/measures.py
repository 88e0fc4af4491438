"""Retrieval metrics by ir-measures: per query and mean, in the names that DESIGN.md uses."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from palimpsest.core.errors import PalimpsestError

Run = Mapping[str, Sequence[tuple[str, float]]]
Qrels = Mapping[str, Mapping[str, int]]

MEASURES: tuple[str, ...] = ("P@5", "R@5", "R@10", "Hit@5", "nDCG@10", "MRR@10")

# Our names -> the library's. Hit and MRR are the field's everyday words for Success and RR.
_LIBRARY = {"P": "P", "R": "R", "Hit": "Success", "nDCG": "nDCG", "MRR": "RR"}
_NAME = re.compile(r"(P|R|Hit|nDCG|MRR)@([1-9][0-9]*)")


class MetricError(PalimpsestError):
    """Nothing was judged or a value is not a number: no metric may be read from this run (invariant 10)."""


@dataclass(frozen=True)
class Scores:
    """Metric values as fractions: `per_query[query_id][measure]` and their plain means `mean[measure]`."""

    per_query: dict[str, dict[str, float]]
    mean: dict[str, float]


def evaluate(run: Run, qrels: Qrels, measures: Iterable[str] = MEASURES) -> Scores:
    """Scores every judged query of `qrels`; one with no results counts as 0, one that was not judged is left out.

    A list's order is its ranking: scores are replaced by strictly falling ones, because trec_eval breaks ties by
    document id, descending, which is not our order. nDCG uses the grade itself as gain and log2(rank + 1) as discount
    (trec_eval); a grade of 1 or more is relevant for the other measures.

    Raises:
        MetricError: no query is judged, a judged query has no relevant document, a value is NaN, or a run lists a
            document twice.
        PalimpsestError: a measure's name is unknown.
    """
    import ir_measures

    wanted = {_library_name(m): m for m in measures}
    if not wanted:
        raise MetricError("no measure was requested; name at least one, such as R@5")
    if not qrels:
        raise MetricError("no judged query: the relevance judgements are empty")
    for query_id, grades in sorted(qrels.items()):
        if not any(g >= 1 for g in grades.values()):
            raise MetricError(f"query {query_id!r} has no relevant document in the judgements; leave it out")
    ranked = {q: _falling(q, run[q]) for q in sorted(qrels) if run.get(q)}
    parsed = {ir_measures.parse_measure(name): ours for name, ours in wanted.items()}
    judged = {q: dict(grades) for q, grades in sorted(qrels.items())}
    # A run without one result is legal (all zero) but the library would see no query at all.
    values: dict[str, dict[str, float]] = {q: dict.fromkeys(wanted.values(), 0.0) for q in judged}
    for metric in ir_measures.iter_calc(list(parsed), judged, ranked) if ranked else ():
        values[metric.query_id][parsed[metric.measure]] = float(metric.value)
    return summarise(values)


def summarise(per_query: Mapping[str, Mapping[str, float]]) -> Scores:
    """Takes the mean of each measure over the queries; every query must have every measure.

    Raises:
        MetricError: there is no query, a measure is missing for one, or a value is not finite.
    """
    if not per_query:
        raise MetricError("no judged query: there is nothing to take a mean of")
    names = sorted({m for values in per_query.values() for m in values})
    for query_id, values in sorted(per_query.items()):
        for name in names:
            if not math.isfinite(values.get(name, math.nan)):
                raise MetricError(f"query {query_id!r}: {name} is missing or not a number")
    ordered = {q: {m: float(per_query[q][m]) for m in names} for q in sorted(per_query)}
    mean = {m: math.fsum(v[m] for v in ordered.values()) / len(ordered) for m in names}
    return Scores(ordered, mean)


def percentiles(values_ms: Sequence[float]) -> dict[str, float]:
    """Returns p50, p95 and p99 of milliseconds by the nearest-rank method (each is a value that was measured).

    Raises:
        MetricError: there is no value, or one is not finite.
    """
    if not values_ms or not all(math.isfinite(v) for v in values_ms):
        raise MetricError("latency: no value was measured, or one is not a number")
    ordered = sorted(values_ms)
    return {f"p{p}": ordered[max(math.ceil(p / 100 * len(ordered)), 1) - 1] for p in (50, 95, 99)}


def _library_name(measure: str) -> str:
    match = _NAME.fullmatch(measure)
    if match is None:
        raise PalimpsestError(f"measure {measure!r} is unknown; use P@k, R@k, Hit@k, nDCG@k or MRR@k")
    return f"{_LIBRARY[match[1]]}@{match[2]}"


def _falling(query_id: str, results: Sequence[tuple[str, float]]) -> dict[str, float]:
    ranked = {doc_id: float(len(results) - rank) for rank, (doc_id, _) in enumerate(results)}
    if len(ranked) != len(results):
        raise MetricError(f"query {query_id!r}: the run lists a document twice")
    return ranked
