"""Is a loss significant? The minimum effect, a paired sign-flip test over queries, and the smallest detectable loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

ALPHA = 0.05
MINIMUM_EFFECT = 0.02
_RESAMPLES = 9999
_BOOTSTRAPS, _BATCH = 2000, 100
_SEED = 20240229


@dataclass(frozen=True)
class Comparison:
    """New against old on the same queries. `difference` is new minus old; `p` is one-sided, for a loss.

    `smallest_loss` is the smallest mean loss that would have been called one here, None where none could be: the old
    values are all zero. `lost` says whether this is a loss.
    """

    old: float
    new: float
    difference: float
    p: float
    smallest_loss: float | None
    lost: bool


def compare_paired(
    old: Sequence[float], new: Sequence[float], minimum_effect: float = MINIMUM_EFFECT, alpha: float = ALPHA
) -> Comparison:
    """Calls a loss where the mean fell by `minimum_effect` or more and chance gives as much less often than `alpha`.

    A set so small that even losing every query would not be significant is judged by the minimum effect alone: else a
    gate over four questions could never close.

    Source: Smucker, Allan & Carterette, CIKM 2007 (the randomisation test for retrieval experiments).

    Args:
        old: metric of each query, finite.
        new: the same queries in the same order.
        minimum_effect: absolute loss of the mean below which nothing is called a loss.
        alpha: level of the one-sided test.
    """
    before, after = np.asarray(old, float), np.asarray(new, float)
    change = np.round(after - before, 6)  # what is less is no change, but a last digit
    p = loss_probability(change)
    effect = -float(change.mean())
    testable = _smallest_loss(before, change, minimum_effect, alpha)
    smallest = testable if testable is not None else _smallest_loss(before, change, minimum_effect, 1.1)
    significant = p < alpha or testable is None
    lost = round(effect, 9) >= minimum_effect and effect > 0 and significant
    return Comparison(float(before.mean()), float(after.mean()), -effect, p, smallest, lost)


def loss_probability(change: np.ndarray) -> float:
    """Returns the share of sign flips of the per-query changes whose sum is as low as the one seen; exact for a few."""
    moved = change[np.abs(change) > 1e-12]
    if not moved.size:
        return 1.0
    if moved.size == 1:
        return 0.5 if moved[0] < 0 else 1.0
    return _as_low(moved.tobytes())


@lru_cache(maxsize=1024)  # the smallest loss is searched for each metric, and most of its trials are the same
def _as_low(changes: bytes) -> float:
    from scipy.stats import permutation_test

    moved = np.frombuffer(changes)
    result = permutation_test(
        (moved,),
        np.sum,
        permutation_type="samples",
        alternative="less",
        vectorized=True,
        axis=0,
        n_resamples=_RESAMPLES,
        batch=1000,
        rng=np.random.default_rng(_SEED),
    )
    return float(result.pvalue)


def _smallest_loss(before: np.ndarray, change: np.ndarray, minimum_effect: float, alpha: float) -> float | None:
    """Lets ever more queries fall to zero, on top of the noise seen, until the test calls it a loss."""
    order = np.random.default_rng(_SEED).permutation(np.flatnonzero(before > 0))
    noise = _balanced(change)

    def losing(count: int) -> float | None:
        trial = noise.copy()
        trial[order[:count]] = -before[order[:count]]
        effect = -float(trial.mean())
        called = round(effect, 9) >= minimum_effect and effect > 0 and (alpha > 1 or loss_probability(trial) < alpha)
        return round(effect, 9) if called else None

    if not order.size or losing(order.size) is None:
        return None
    low, high, step = 0, order.size, 1  # `high` queries lost are seen, `low` are not
    guess = _detectable(before[order], noise, minimum_effect, alpha)
    while high - low > 1:
        # The guess is mostly right to a few queries: the search widens around it, for each trial is a whole test.
        seen = losing(guess) is not None
        low, high = (low, guess) if seen else (guess, high)
        guess = max(low + (high - low) // 2, high - step) if seen else min(low + (high - low) // 2, low + step)
        step *= 2
    return losing(high)


def _detectable(lost: np.ndarray, noise: np.ndarray, minimum_effect: float, alpha: float) -> int:
    """Returns about how many of the queries must fall to zero, in their order, to be called a loss: by a normal law."""
    sums, squares = np.cumsum(lost), np.cumsum(np.square(lost)) + float(np.square(noise).sum())
    is_large = sums >= minimum_effect * len(noise)
    is_rare = sums >= NormalDist().inv_cdf(1 - min(alpha, 0.5)) * np.sqrt(squares)
    found = np.flatnonzero(is_large & is_rare)
    return min(max(int(found[0]) + 1 if len(found) else len(lost) // 2, 1), len(lost) - 1)


def _balanced(change: np.ndarray) -> np.ndarray:
    """Returns the changes without their net effect: what is noise, and not the loss or gain that is being judged."""
    noise = change.copy()
    direction = np.sign(noise.sum())
    for i in np.random.default_rng(_SEED).permutation(np.flatnonzero(noise * direction > 0)):
        if noise.sum() * direction <= 1e-12:
            break
        noise[i] = 0.0
    return noise


def paired_interval(old: Sequence[float], new: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Returns the bootstrap interval (percentiles) of the mean change over queries; a point where none moved.

    Args:
        old: metric of each query, finite.
        new: the same queries in the same order.
        level: coverage.
    """
    change = np.round(np.asarray(new, float) - np.asarray(old, float), 6)
    if not change.size or not np.ptp(change):
        mean = float(change.mean()) if change.size else 0.0
        return mean, mean
    rng = np.random.default_rng(_SEED)
    means = np.concatenate(
        [rng.choice(change, (_BATCH, change.size)).mean(axis=1) for _ in range(_BOOTSTRAPS // _BATCH)]
    )
    low, high = np.percentile(means, [50 * (1 - level), 50 * (1 + level)])
    return float(low), float(high)
