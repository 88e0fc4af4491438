"""A run of a suite's queries scored as a benchmark defines it."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal

from palimpsest.core.ids import JsonRecord, JsonValue
from palimpsest_eval.golden.golden_run import by_type, types_text
from palimpsest_eval.golden.retrieval_run import RetrievalRun
from palimpsest_eval.metrics import Machine, MetricError, evaluate, summarise
from palimpsest_eval.suites.run_suite import score_suite
from palimpsest_eval.suites.suite import Suite

# The benchmarks by name: the data set, what is ranked, and the measures, as each defines them.

Unit = Literal["turn", "session"]


@dataclass(frozen=True)
class Ranking:
    """What is ranked, and how that is measured.

    Attributes:
        unit: `turn`, a row of the corpus, or `session`, ranked by its best turn.
        measures: names in `measures.OWN` or `measures.LIBRARY`.
        cutoffs: of every measure.
    """

    unit: Unit
    measures: tuple[str, ...]
    cutoffs: tuple[int, ...]


@dataclass(frozen=True)
class Benchmark:
    """A published benchmark.

    Attributes:
        data_set: the name that the loaders have for its files.
        rankings: what is measured.
        stale_unit: the unit in which it states what is superseded; None where it states none.
    """

    data_set: str
    rankings: tuple[Ranking, ...]
    stale_unit: Unit | None = None


_LONGMEMEVAL = ("recall_any", "recall_all", "ndcg_any")

BENCHMARKS: dict[str, Benchmark] = {
    "longmemeval": Benchmark(
        "LongMemEval", (Ranking("session", _LONGMEMEVAL, (5, 10)), Ranking("turn", _LONGMEMEVAL, (5, 10, 50)))
    ),
    "beam": Benchmark("BEAM", (Ranking("turn", ("R", "nDCG"), (5, 10)),), "turn"),
    "locomo": Benchmark("LoCoMo", (Ranking("turn", ("R",), (5, 10)), Ranking("session", ("R",), (5, 10)))),
    "lmeb": Benchmark("LMEB", (Ranking("turn", ("nDCG", "R_cap"), (10,)),)),
    "memconflict": Benchmark("MemConflict", (Ranking("turn", ("SEH", "SRS"), (2, 3, 5)),), "session"),
}


# The figures of a published benchmark, for people and as JSON.


@dataclass(frozen=True)
class ScoreTable(JsonRecord):
    """Means over the queries that can be judged in a unit.

    Attributes:
        queries: how many.
        metrics: fractions by measure.
        by_type: `queries` and the same means by type of query.
    """

    queries: int
    metrics: Mapping[str, float]
    by_type: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class BenchmarkResult(JsonRecord):
    """What a strategy reaches on a benchmark.

    Attributes:
        benchmark: its name.
        suite: name of the data.
        queries: judged queries, all of which were searched.
        unjudged: queries without evidence, such as those that must not be answered.
        strategy: strategy of the searches.
        tables: by `turn`, `session` and `superseded`.
        build: summary of the build that was searched.
        machine: where it was measured.
        embedder: name of the embedder.
    """

    benchmark: str
    suite: str
    queries: int
    unjudged: int
    strategy: str
    tables: Mapping[str, ScoreTable]
    build: Mapping[str, JsonValue] | None = None
    machine: Machine | None = None
    embedder: str | None = None

    def text(self) -> str:
        """Returns the tables for people: a line for all queries of each, then one for each type."""
        lines = [f"{self.benchmark} ({self.suite}): {self.queries} queries, {self.unjudged} without evidence left out"]
        for name, table in self.tables.items():
            rows = {"all": {"queries": table.queries, **table.metrics}}
            lines += ["", *types_text(rows | dict(table.by_type), list(table.metrics), name)]
        return "\n".join(lines)


# Measures that published benchmarks define and the library of measures does not have: of one ranking, at a cutoff.

Measure = Callable[[Sequence[str], Set[str], int], float]
"""Takes (ids, best first; relevant ids, at least one; cutoff); returns a fraction."""


def recall_all(ranked: Sequence[str], relevant: Set[str], k: int) -> float:
    """Returns 1 where all relevant ids are among the first k. Source: LongMemEval, `src/retrieval/eval_utils.py`."""
    return float(relevant <= set(ranked[:k]))


def ndcg_any(ranked: Sequence[str], relevant: Set[str], k: int) -> float:
    """Returns nDCG with ranks 1 and 2 undiscounted, then 1 / log2(rank).

    Source: LongMemEval, `src/retrieval/eval_utils.py`; the discount of Järvelin and Kekäläinen, SIGIR 2000. The
    library's discount is 1 / log2(rank + 1).
    """
    found = math.fsum(_undiscounted_first(rank) for rank, i in enumerate(ranked[:k], 1) if i in relevant)
    return found / math.fsum(_undiscounted_first(rank) for rank in range(1, min(k, len(relevant)) + 1))


def _undiscounted_first(rank: int) -> float:
    return 1.0 / max(math.log2(rank), 1.0)


def capped_recall(ranked: Sequence[str], relevant: Set[str], k: int) -> float:
    """Returns the share of the relevant ids, of k at most, among the first k. Source: LMEB, `metric.py`."""
    return len(relevant & set(ranked[:k])) / min(len(relevant), k)


def support_rank_score(ranked: Sequence[str], relevant: Set[str], k: int) -> float:
    """Returns 1 / log2(rank + 1) of the first relevant id, 0 where it is not among the first k.

    Source: MemConflict, `Evaluation/eval_scoring.py`.
    """
    rank = next((rank for rank, i in enumerate(ranked[:k], 1) if i in relevant), None)
    return 0.0 if rank is None else 1.0 / math.log2(rank + 1)


OWN: dict[str, Measure] = {
    "recall_all": recall_all,
    "ndcg_any": ndcg_any,
    "R_cap": capped_recall,
    "SRS": support_rank_score,
}
"""By the name that a benchmark uses."""

LIBRARY = {"R": "R", "nDCG": "nDCG", "recall_any": "Hit", "SEH": "Hit"}
"""The name of the library's measure that is meant, by the name that a benchmark uses."""


def stale_scores(ranked: Sequence[str], current: Set[str], stale: Set[str], k: int) -> dict[str, float]:
    """Returns how a ranking treats what is current and what is superseded.

    `current` and `stale` are the shares of either among the first k. `fama` is the first minus the second, weighted by
    the share of stale ids in all, at least 0. `current_first` is 1 where a current id is among the first k and no
    stale one is before it.

    Source: FAMA of Memora (Uddin et al., arXiv 2604.20006; geniesinc/Memora, `evals/README.md`), where a language
    model judges answers: max(0, MPA - λ (1 - FAA)), λ = stale / (current + stale). Here what is served is judged.

    Args:
        ranked: ids, best first.
        current: ids that answer; at least one.
        stale: ids that would answer wrongly; at least one, none of them current.
        k: cutoff.
    """
    served = list(ranked[:k])
    found, misused = len(current & set(served)) / len(current), len(stale & set(served)) / len(stale)
    first = next((i for i in served if i in current or i in stale), None)
    return {
        f"current@{k}": found,
        f"stale@{k}": misused,
        f"fama@{k}": max(0.0, found - misused * len(stale) / (len(current) + len(stale))),
        f"current_first@{k}": float(first in current),
    }


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
