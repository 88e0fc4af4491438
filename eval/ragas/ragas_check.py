"""RAGAS's ID-based context precision and recall beside our own: a cross-check by another library.

Its metrics are of sets: rank does not count and a list is taken whole, so ours are compared at the list's own depth. It
gives NaN for an empty retrieval and leaves that out of its mean; here, as in the gate, nothing found counts as 0.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palimpsest.eval.golden.golden_run import DEPTH
from palimpsest.eval.metrics.measures import MetricError, evaluate


@dataclass(frozen=True)
class CrossCheck:
    """Means over all queries by RAGAS and by us at `depth`, the largest difference of one query, and what was empty."""

    depth: int
    queries: int
    empty: int
    ragas: Mapping[str, float]
    ours: Mapping[str, float]
    largest_difference: float


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
    os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")
    from ragas.dataset_schema import SingleTurnSample
    from ragas.metrics import IDBasedContextPrecision, IDBasedContextRecall

    both = {"precision": IDBasedContextPrecision(), "recall": IDBasedContextRecall()}
    cut: dict[str, list] = {q: list(ranked.get(q, ()))[:depth] for q in sorted(relevant)}
    theirs: dict[str, dict[str, float]] = {}
    for q, ids in cut.items():
        # Not asked where nothing was retrieved: its answer would be NaN.
        sample = SingleTurnSample(retrieved_context_ids=ids, reference_context_ids=list(relevant[q])) if ids else None
        theirs[q] = {name: float(m.single_turn_score(sample)) if sample else 0.0 for name, m in both.items()}
    run = {q: [(i, 0.0) for i in ids] for q, ids in cut.items()}
    qrels = {q: dict.fromkeys(relevant[q], 1) for q in cut}
    scores = evaluate(run, qrels, (f"P@{depth}", f"R@{depth}")).per_query
    own = {
        q: {"precision": v[f"P@{depth}"] * depth / max(len(cut[q]), 1), "recall": v[f"R@{depth}"]}
        for q, v in scores.items()
    }
    return CrossCheck(
        depth,
        len(cut),
        sum(not ids for ids in cut.values()),
        _means(theirs),
        _means(own),
        max(abs(theirs[q][m] - own[q][m]) for q in cut for m in both),
    )


def crosscheck_text(check: CrossCheck) -> str:
    """Returns both means for people."""
    told = ", ".join(f"{m} {check.ragas[m]:.4f} (ours {check.ours[m]:.4f})" for m in check.ragas)
    return (
        f"RAGAS by ids, {check.queries} queries, {check.empty} without a result: {told};"
        f" largest difference of a query {check.largest_difference:.1e}"
    )


def _means(values: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    return {m: math.fsum(v[m] for v in values.values()) / len(values) for m in ("precision", "recall")}
