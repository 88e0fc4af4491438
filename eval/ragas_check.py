"""RAGAS's ID-based context precision and recall beside our own: a cross-check by another library.

Its metrics are of sets: rank does not count and a list is taken whole, so ours are compared at the list's own depth. It
gives NaN for an empty retrieval and leaves that out of its mean; here, as in the gate, nothing found counts as 0.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eval.golden import Question, resolve
from eval.golden_run import BUDGET_TOKENS, DEPTH, Searcher
from eval.metrics import MetricError, evaluate
from pipelines.query.types import Scope
from pipelines.store.tables import empty

__all__ = ["CrossCheck", "ask_again", "crosscheck"]


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
        depth, len(cut), sum(not ids for ids in cut.values()), _means(theirs), _means(own),
        max(abs(theirs[q][m] - own[q][m]) for q in cut for m in both),
    )  # fmt: skip


def ask_again(
    reader: Searcher, questions: Sequence[Question], tables: Mapping, collection: str, default_user: str,
    *, strategy: str = "auto", depth: int = DEPTH,
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:  # fmt: skip
    """Returns the rankings of the answerable golden questions and what they need, both by name of the need."""
    judged = resolve(questions, {"versions": empty("versions"), **tables}, collection, default_user)
    ranked, relevant = {}, {}
    for item in judged:
        q = item.question
        if not q.answerable:
            continue
        asked = {"as_of": q.as_of} if q.as_of else {}
        filters = {"k": depth, "strategy": strategy, "budget_tokens": BUDGET_TOKENS} | asked
        found = reader.search(q.question, Scope(collection, item.user_id), **filters)
        ranked[q.id] = item.collapse(str(m.memory_id) for m in found.memories)
        relevant[q.id] = sorted(item.qrels())
    return ranked, relevant


def _means(values: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    return {m: math.fsum(v[m] for v in values.values()) / len(values) for m in ("precision", "recall")}
