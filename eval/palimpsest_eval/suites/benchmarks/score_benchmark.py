"""A run of a suite's queries scored as a benchmark defines it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from palimpsest_eval.golden.by_type import by_type
from palimpsest_eval.golden.retrieval_run import RetrievalRun
from palimpsest_eval.metrics.measures import MetricError, evaluate, summarise
from palimpsest_eval.suites.benchmarks.benchmark_result import BenchmarkResult, ScoreTable
from palimpsest_eval.suites.benchmarks.benchmarks import Benchmark, Ranking, Unit
from palimpsest_eval.suites.benchmarks.measures import LIBRARY, OWN, stale_scores
from palimpsest_eval.suites.run_suite import score_suite
from palimpsest_eval.suites.suite import Suite

DEPTH = 100
"""Turns that are searched for each query: sessions are ranked by the turns among them."""
STALE_CUTOFFS = (5, 10)

_Ids = Mapping[str, Collection[str]]


def score_benchmark(
    suite: Suite, run: RetrievalRun, name: str, benchmark: Benchmark, cutoffs: Sequence[int] = ()
) -> BenchmarkResult:
    """Scores a run of the judged queries of a suite as a benchmark does.

    A session is relevant where one of its turns is, and ranked by its best turn. What is superseded is measured on the
    queries that state both what is current and what is not.

    Args:
        suite: the suite that the benchmark's files became.
        run: its queries, searched `DEPTH` deep.
        name: the benchmark's name.
        benchmark: the benchmark.
        cutoffs: replace the benchmark's own; none means these.

    Raises:
        MetricError: no query got a result, a search returned a row of another scope, or the benchmark ranks sessions
            and no relevant row names its session.
    """
    checked = score_suite(suite, run)  # refuses leaks and a run without a result
    ranked = {query.query_id: query.ranked for query in checked.per_query}
    relevant = {q: suite.relevant(q) for q in ranked}
    tables: dict[str, ScoreTable] = {}
    for ranking in benchmark.rankings:
        used = replace(ranking, cutoffs=tuple(cutoffs)) if cutoffs else ranking
        in_units, judged = _in_units(suite, ranked, ranking.unit), _in_units(suite, relevant, ranking.unit)
        tables[ranking.unit] = _table(suite, _scores(in_units, judged, used))
    if benchmark.stale_unit and suite.stale:
        per_query = _stale_scores(suite, ranked, benchmark.stale_unit, cutoffs or STALE_CUTOFFS)
        if per_query:
            tables["superseded"] = _table(suite, per_query)
    settings = run.settings
    return BenchmarkResult(name, suite.name, checked.queries, checked.unjudged, settings.strategy, tables)


def _in_units(suite: Suite, rows: _Ids, unit: Unit) -> dict[str, list[str]]:
    """Returns the rows of each query, or the sessions that they are of, each once; rows of no session are left out."""
    if unit == "turn":
        return {q: list(ids) for q, ids in rows.items()}
    return {
        q: list(dict.fromkeys(session for i in ids if (session := suite.sessions.get(i)) is not None))
        for q, ids in rows.items()
    }


def _scores(ranked: _Ids, relevant: _Ids, ranking: Ranking) -> dict[str, dict[str, float]]:
    judged = {q: set(ids) for q, ids in relevant.items() if ids}
    if not judged:
        raise MetricError(f"no judged query: no relevant row names its {ranking.unit}")
    wanted = {f"{m}@{k}": (m, k) for m in ranking.measures for k in ranking.cutoffs}
    of_library = {f"{LIBRARY[m]}@{k}" for m, k in wanted.values() if m in LIBRARY}
    runs = {q: [(i, 0.0) for i in ranked[q]] for q in judged}
    library: dict[str, dict[str, float]] = {q: {} for q in judged}
    if of_library:
        library = evaluate(runs, {q: dict.fromkeys(ids, 1) for q, ids in judged.items()}, sorted(of_library)).per_query
    return {
        q: {
            name: OWN[m](list(ranked[q]), ids, k) if m in OWN else library[q][f"{LIBRARY[m]}@{k}"]
            for name, (m, k) in wanted.items()
        }
        for q, ids in judged.items()
    }


def _stale_scores(suite: Suite, ranked: _Ids, unit: Unit, cutoffs: Sequence[int]) -> dict[str, dict[str, float]]:
    """Returns the scores of the queries that state what is current and what is superseded."""
    current = _in_units(suite, {q: suite.relevant(q) - suite.stale[q] for q in ranked if q in suite.stale}, unit)
    stale = _in_units(suite, {q: suite.stale[q] for q in current}, unit)
    in_units = _in_units(suite, {q: ranked[q] for q in current}, unit)
    found = {}
    for q, answers in current.items():
        wrong = set(stale[q]) - set(answers)
        if answers and wrong:
            scores = [stale_scores(in_units[q], set(answers), wrong, k) for k in cutoffs]
            found[q] = {name: value for at_k in scores for name, value in at_k.items()}
    return found


def _table(suite: Suite, per_query: Mapping[str, Mapping[str, float]]) -> ScoreTable:
    types, mean = {q.query_id: q.type for q in suite.judged}, summarise(per_query).mean
    names = next(iter(per_query.values()))  # in the benchmark's order
    return ScoreTable(len(per_query), {name: mean[name] for name in names}, by_type(per_query, types))
