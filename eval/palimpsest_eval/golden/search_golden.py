"""Golden questions searched once in a build: what scores, misses and judges of contexts start from."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from palimpsest.core.progress import tracked
from palimpsest_eval.golden.build_tables import Tables
from palimpsest_eval.golden.questions import GoldenSet
from palimpsest_eval.golden.resolve import ResolvedQuestion, resolve
from palimpsest_eval.golden.retrieval_run import RetrievalRun, Searcher, SearchSettings, search_queries


@dataclass(frozen=True)
class GoldenSearch:
    """Golden questions, the memories of a build that they need, and what searching them returned."""

    golden: GoldenSet
    resolved: Sequence[ResolvedQuestion]
    retrieval: RetrievalRun


def search_golden(
    reader: Searcher,
    golden: GoldenSet,
    tables: Tables,
    settings: SearchSettings | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> GoldenSearch:
    """Searches every question once, inside its own scope.

    Args:
        reader: the build's reader.
        golden: the golden set.
        tables: documents, document_texts and memories of the build.
        settings: of the searches; None means the defaults.
        clock: seconds; tests replace it.

    Raises:
        GoldenError: a quote cannot be found in the build.
    """
    resolved = resolve(golden, tables)
    queries = tracked([item.query(golden.collection) for item in resolved], "search", "questions")
    return GoldenSearch(golden, resolved, search_queries(reader, queries, settings, clock=clock))
