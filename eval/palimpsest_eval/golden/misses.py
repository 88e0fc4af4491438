"""Why a golden question failed: for each thing that was not found, the step of the query path where it was lost."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from palimpsest_eval.golden.golden_run import TOP, GoldenSearch, Miss
from palimpsest_eval.golden.questions import GoldenError, GoldenSet, Tables, retired_ids
from palimpsest_eval.golden.resolve import ResolvedQuestion, resolve
from palimpsest_eval.golden.retrieval_run import DEPTH, QueryResult, Searcher, SearchSettings, search_queries

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
_MAX_RANK = 100


def find_misses(
    reader: Searcher, search: GoldenSearch, tables: Tables, question_ids: Collection[str]
) -> tuple[Miss, ...]:
    """Returns where each need of the questions was lost, in the order of `question_ids`.

    What the run returned is read from it. A deep search gives the ranks of what it did not return; another one by
    vectors alone says more where a need was neither found nor cut off.

    Args:
        reader: the build's reader.
        search: the questions and what searching them returned.
        tables: `versions` of the build.
        question_ids: answerable questions of the search.
    """
    resolved = {item.question.id: item for item in search.resolved}
    items = [resolved[q] for q in question_ids]
    settings = replace(search.retrieval.settings, budget_tokens=0, depth=_MAX_RANK)
    shown = search.retrieval.results

    def further(
        open_items: Iterable[ResolvedQuestion], settings: SearchSettings, hops: int | None = None
    ) -> Mapping[str, QueryResult]:
        queries = [item.query(search.golden.collection) for item in open_items]
        return search_queries(reader, queries, settings, hops=hops, times=False).results

    deep = further((i for i in items if not all(_ranks(ids, shown[i.question.id]) for ids in i.needs)), settings)
    ranked = {item.question.id: deep.get(item.question.id, shown[item.question.id]) for item in items}
    unexplained = (i for i in items if not _is_explained(i, shown[i.question.id], ranked[i.question.id]))
    by_vectors = further(unexplained, replace(settings, strategy="flat"), 0)
    retired, strategy = retired_ids(tables), search.retrieval.settings.strategy
    misses: list[Miss] = []
    for item in items:
        q = item.question.id
        misses += _question_misses(item, shown[q], ranked[q], by_vectors.get(q), retired)
    return tuple(replace(miss, strategy=strategy) for miss in misses)


def unresolved_misses(golden: GoldenSet, tables: Tables) -> tuple[Miss, ...]:
    """Returns a miss for each question whose words are in no memory of the build."""
    misses = []
    for question in golden.questions:
        try:
            resolve(replace(golden, questions=(question,)), tables)
        except GoldenError:
            quote = (*question.evidence, *question.stale)[0].quote
            misses.append(Miss(question.id, question.question, quote, NOT_CHUNKED))
    return tuple(misses)


def _ranks(ids: Iterable[str], found: QueryResult | None) -> list[int]:
    ranks = found.ranks if found is not None else {}
    return [ranks[i] for i in ids if i in ranks]


def _is_explained(item: ResolvedQuestion, shown: QueryResult, deep: QueryResult) -> bool:
    """Returns whether the cause of each need is known without a search by vectors."""
    packed = item.needs_in_context(shown.packed_ids, shown.context)
    causes = (
        _cause(min(_ranks(ids, deep), default=None), None, in_context)
        for ids, in_context in zip(item.needs, packed, strict=True)
    )
    return all(cause in (FOUND, CUT_BY_BUDGET) for cause in causes)


def _question_misses(
    item: ResolvedQuestion,
    shown: QueryResult,
    deep: QueryResult,
    by_vectors: QueryResult | None,
    retired: frozenset[str],
) -> list[Miss]:
    if item.question.as_of is not None:
        retired = frozenset()  # what answers a question about a past day may be retired since
    misses = []
    in_context = item.needs_in_context(shown.packed_ids, shown.context)
    for ids, quotes, packed in zip(item.needs, item.quotes, in_context, strict=True):
        rank, vector_rank = (min(_ranks(ids, found), default=None) for found in (deep, by_vectors))
        cause = RETIRED if ids <= retired else _cause(rank, vector_rank, packed)
        need = " / ".join(sorted(quotes))
        misses.append(Miss(item.question.id, item.question.question, need, cause, rank, vector_rank))
    return misses


def _cause(rank: int | None, vector_rank: int | None, packed: bool) -> str:
    if rank is not None and rank <= TOP and packed:
        return FOUND
    if rank is not None and rank <= DEPTH and not packed:
        return CUT_BY_BUDGET
    if vector_rank is not None and vector_rank <= TOP:
        return LOST_IN_FUSION
    return NOT_NEAR
