"""Measures that published benchmarks define and the library of measures does not have: of one ranking, at a cutoff."""

import math
from collections.abc import Callable, Sequence, Set

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
