"""The benchmarks by name: the data set, what is ranked, and the measures, as each defines them."""

from dataclasses import dataclass
from typing import Literal

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
