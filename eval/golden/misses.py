"""Why a golden question failed: for each thing that was not found, where on its way it was lost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from palimpsest.eval.golden.golden_run import BUDGET_TOKENS, DEPTH, TOP, GateRun, Searcher
from palimpsest.eval.golden.questions import GoldenError, Judged, Question, resolve
from palimpsest.query.request.types import Scope

NOT_CHUNKED = "not chunked"
RETIRED = "retired"
NOT_NEAR = "not near"
LOST_IN_FUSION = "lost in fusion"
CUT_BY_BUDGET = "cut by the budget"
FOUND = "found"
CAUSES: Mapping[str, str] = {
    NOT_CHUNKED: "no memory of the build covers the words",
    RETIRED: "every memory that says it was retired",
    NOT_NEAR: "neither vectors nor words bring it near the top",
    LOST_IN_FUSION: "vectors alone have it among the top, the fused ranking has not",
    CUT_BY_BUDGET: "it was found, and did not fit the packed context",
    FOUND: "it is among the top results and in the context",
}
_DEEP = 100


@dataclass(frozen=True)
class Miss:
    """One thing that a question needs. Ranks count from 1; None is beyond the first hundred."""

    question_id: str
    question: str
    need: str
    cause: str
    rank: int | None = None
    vector_rank: int | None = None
    strategy: str = ""


def missed(run: GateRun) -> list[str]:
    """Returns the ids of a run's questions that miss something among the top five or in the context, worst first."""
    keys = (f"R@{TOP}", "packed_recall", "nDCG@10")
    told = {q: tuple(v[k] for k in keys) for q, v in run.per_query.items() if min(v[keys[0]], v[keys[1]]) < 1.0}
    return sorted(told, key=lambda q: (told[q], q))


def why_missed(
    reader: Searcher,
    questions: Sequence[Question],
    tables: Mapping[str, pl.DataFrame],
    collection: str,
    default_user: str,
    *,
    strategy: str = "auto",
    budget_tokens: int = BUDGET_TOKENS,
) -> list[Miss]:
    """Asks each question again, deep and by vectors alone, and says of each thing it needs where that was lost.

    Args:
        reader: the build's reader.
        questions: answerable ones; others are passed over.
        tables: documents, document_texts, memories and versions of the build.
        collection: name of the collection.
        default_user: user of the questions that name none.
        strategy: strategy of the run that missed.
        budget_tokens: budget of that run.
    """
    retired = frozenset(tables["versions"].filter(~pl.col("is_latest"))["memory_id"])
    found = []
    for question, judged in _resolved([q for q in questions if q.answerable], tables, collection, default_user):
        if judged is None:
            found.append(Miss(question.id, question.question, question.evidence[0].quote, NOT_CHUNKED))
        else:
            found += _lost(reader, judged, collection, retired, strategy, budget_tokens)
    return found


def _resolved(
    questions: Sequence[Question], tables: Mapping[str, pl.DataFrame], collection: str, default_user: str
) -> list[tuple[Question, Judged | None]]:
    """Returns each question with the memories it needs; None where its words are in no memory."""
    try:
        return list(zip(questions, resolve(questions, tables, collection, default_user), strict=True))
    except GoldenError:
        if len(questions) == 1:
            return [(questions[0], None)]
        return [pair for q in questions for pair in _resolved([q], tables, collection, default_user)]


def _lost(
    reader: Searcher, item: Judged, collection: str, retired: frozenset[str], strategy: str, budget_tokens: int
) -> list[Miss]:
    question, scope = item.question, Scope(collection, item.user_id)
    asked: dict[str, Any] = {"budget_tokens": budget_tokens} | question.filters
    shown = reader.search(question.question, scope, k=DEPTH, strategy=strategy, **asked)
    deep = reader.search(question.question, scope, k=_DEEP, strategy=strategy, **(asked | {"budget_tokens": 0}))
    near = reader.search(question.question, scope, k=_DEEP, strategy="flat", hops=0, **(asked | {"budget_tokens": 0}))
    ranks, vector_ranks = (
        {str(m.memory_id): rank for rank, m in enumerate(answer.memories, 1)} for answer in (deep, near)
    )
    packed, words = {str(i) for i in shown.packed_ids}, " ".join(shown.context.split())
    told = []
    for ids, quotes in zip(item.needs, item.quotes, strict=True):
        rank = min((ranks[i] for i in ids if i in ranks), default=None)
        vector_rank = min((vector_ranks[i] for i in ids if i in vector_ranks), default=None)
        whole = bool(ids & packed) or all(q in words for q in quotes)
        told.append(
            Miss(
                question.id,
                question.question,
                " / ".join(sorted(quotes)),
                _cause(ids, retired if question.as_of is None else frozenset(), rank, vector_rank, whole),
                rank,
                vector_rank,
                strategy,
            )
        )
    return told


def _cause(ids: frozenset[str], retired: frozenset[str], rank: int | None, vector_rank: int | None, whole: bool) -> str:
    if ids <= retired:
        return RETIRED
    if rank is not None and rank <= TOP and whole:
        return FOUND
    if rank is not None and rank <= DEPTH and not whole:
        return CUT_BY_BUDGET
    if vector_rank is not None and vector_rank <= TOP:
        return LOST_IN_FUSION
    return NOT_NEAR
