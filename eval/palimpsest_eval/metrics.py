"""Measures of retrieval, paired tests of their differences, latencies and the machine that they were measured on."""

import json
import math
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import NormalDist

import numpy as np

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonObject, JsonRecord, JsonValue


@dataclass(frozen=True)
class LatencyMs(JsonRecord):
    """Percentiles of a latency in milliseconds."""

    json_decimals = 3

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True)
class Machine(JsonRecord):
    """Processors, their model, the version of Python, and the load average of the last minute."""

    cpus: int | None
    cpu: str
    python: str
    load_1min: float


def this_machine() -> Machine:
    """Returns the machine of this process; NaN is the load where the system has no load average."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return Machine(os.cpu_count(), next(models, platform.processor()), platform.python_version(), load)


# Retrieval metrics by ir-measures: per query and mean, in the names that DESIGN.md uses.

Run = Mapping[str, Sequence[tuple[str, float]]]
Qrels = Mapping[str, Mapping[str, int]]

MEASURES: tuple[str, ...] = ("P@5", "R@5", "R@10", "Hit@5", "nDCG@10", "MRR@10")

# Our names -> the library's. Hit and MRR are the field's everyday words for Success and RR.
_LIBRARY = {"P": "P", "R": "R", "Hit": "Success", "nDCG": "nDCG", "MRR": "RR"}
_NAME = re.compile(r"(P|R|Hit|nDCG|MRR)@([1-9][0-9]*)")


class MetricError(PalimpsestError):
    """Nothing was judged or a value is not a number: no metric may be read from this run (invariant 10)."""


@dataclass(frozen=True)
class Scores:
    """Metric values as fractions: `per_query[query_id][measure]` and their plain means `mean[measure]`."""

    per_query: dict[str, dict[str, float]]
    mean: dict[str, float]


def evaluate(run: Run, qrels: Qrels, measures: Iterable[str] = MEASURES) -> Scores:
    """Scores every judged query of `qrels`; one with no results counts as 0, one that was not judged is left out.

    A list's order is its ranking: scores are replaced by strictly falling ones, because trec_eval breaks ties by
    document id, descending, which is not our order. nDCG uses the grade itself as gain and log2(rank + 1) as discount
    (trec_eval); a grade of 1 or more is relevant for the other measures.

    Raises:
        MetricError: no query is judged, a judged query has no relevant document, a value is NaN, or a run lists a
            document twice.
        PalimpsestError: a measure's name is unknown.
    """
    import ir_measures

    wanted = {_library_name(m): m for m in measures}
    if not wanted:
        raise MetricError("no measure was requested; name at least one, such as R@5")
    if not qrels:
        raise MetricError("no judged query: the relevance judgements are empty")
    for query_id, grades in sorted(qrels.items()):
        if not any(g >= 1 for g in grades.values()):
            raise MetricError(f"query {query_id!r} has no relevant document in the judgements; leave it out")
    ranked = {q: _falling(q, run[q]) for q in sorted(qrels) if run.get(q)}
    parsed = {ir_measures.parse_measure(name): ours for name, ours in wanted.items()}
    judged = {q: dict(grades) for q, grades in sorted(qrels.items())}
    # A run without one result is legal (all zero) but the library would see no query at all.
    values: dict[str, dict[str, float]] = {q: dict.fromkeys(wanted.values(), 0.0) for q in judged}
    for metric in ir_measures.iter_calc(list(parsed), judged, ranked) if ranked else ():
        values[metric.query_id][parsed[metric.measure]] = float(metric.value)
    return summarise(values)


def summarise(per_query: Mapping[str, Mapping[str, float]]) -> Scores:
    """Takes the mean of each measure over the queries; every query must have every measure.

    Raises:
        MetricError: there is no query, a measure is missing for one, or a value is not finite.
    """
    if not per_query:
        raise MetricError("no judged query: there is nothing to take a mean of")
    names = sorted({m for values in per_query.values() for m in values})
    for query_id, values in sorted(per_query.items()):
        for name in names:
            if not math.isfinite(values.get(name, math.nan)):
                raise MetricError(f"query {query_id!r}: {name} is missing or not a number")
    ordered = {q: {m: float(per_query[q][m]) for m in names} for q in sorted(per_query)}
    mean = {m: math.fsum(v[m] for v in ordered.values()) / len(ordered) for m in names}
    return Scores(ordered, mean)


def percentiles(values_ms: Sequence[float]) -> dict[str, float]:
    """Returns p50, p95 and p99 of milliseconds by the nearest-rank method (each is a value that was measured).

    Raises:
        MetricError: there is no value, or one is not finite.
    """
    if not values_ms or not all(math.isfinite(v) for v in values_ms):
        raise MetricError("latency: no value was measured, or one is not a number")
    ordered = sorted(values_ms)
    return {f"p{p}": ordered[max(math.ceil(p / 100 * len(ordered)), 1) - 1] for p in (50, 95, 99)}


def _library_name(measure: str) -> str:
    match = _NAME.fullmatch(measure)
    if match is None:
        raise PalimpsestError(f"measure {measure!r} is unknown; use P@k, R@k, Hit@k, nDCG@k or MRR@k")
    return f"{_LIBRARY[match[1]]}@{match[2]}"


def _falling(query_id: str, results: Sequence[tuple[str, float]]) -> dict[str, float]:
    ranked = {doc_id: float(len(results) - rank) for rank, (doc_id, _) in enumerate(results)}
    if len(ranked) != len(results):
        raise MetricError(f"query {query_id!r}: the run lists a document twice")
    return ranked


# JSON Lines files, read strictly: an error names file and line.


def numbered_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yields ("file line n", line) of each line that is not blank.

    Raises:
        PalimpsestError: the file is missing or not UTF-8.
    """
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield f"{path.name} line {number}", line.rstrip("\n")
    except OSError as e:
        raise PalimpsestError(f"suite {path}: {e.strerror or e}; a suite needs {path.name}") from None
    except UnicodeDecodeError:
        raise PalimpsestError(f"{path.name}: not UTF-8; save it as UTF-8 ({path})") from None


def json_rows(path: Path) -> Iterator[tuple[str, JsonObject]]:
    """Yields ("file line n", row) of a file of JSON objects.

    Raises:
        PalimpsestError: the file is missing, empty or not UTF-8, or a line is no JSON object.
    """
    count = 0
    for where, line in numbered_lines(path):
        try:
            row = json.loads(line)
        except RecursionError:
            raise PalimpsestError(f"{where}: not JSON: nested too deeply ({path})") from None
        except ValueError as e:
            raise PalimpsestError(f"{where}: not JSON: {e} ({path})") from None
        if not isinstance(row, dict):
            raise PalimpsestError(f"{where}: must be a JSON object ({path})")
        count += 1
        yield where, row
    if not count:
        raise PalimpsestError(f"{path.name}: empty; add at least one row ({path})")


def row_text(row: Mapping[str, JsonValue], key: str, where: str, may_be_empty: bool = False) -> str:
    """Returns a string field of a row.

    Raises:
        PalimpsestError: it is missing, no string, or empty; the message names file and line.
    """
    value = row.get(key)
    if not isinstance(value, str) or not (may_be_empty or value.strip()):
        raise PalimpsestError(f"{where}: {key} is required and must be a {'' if may_be_empty else 'non-empty '}string")
    return value


def share_above(values: Sequence[float], limit: float, quantile: float = 0.95) -> float:
    """Returns how often chance alone has as many values above a limit, if the quantile of all is the limit.

    Source: the exact binomial test of a quantile, `scipy.stats.quantile_test`.
    """
    from scipy.stats import quantile_test

    return float(quantile_test(np.asarray(values, float), q=limit, p=quantile, alternative="greater").pvalue)


# Is a loss significant? The minimum effect, a paired sign-flip test over queries, and the smallest detectable loss.

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

    In a set so small that even losing every query would not be significant, an answer that was lost closes, a value
    that fell to 0: else a gate over four questions could never close.

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
    significant = p < alpha or (testable is None and bool(((before > 0) & (after == 0)).any()))
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
    from scipy.stats import monte_carlo_test, permutation_test

    moved, rng = np.frombuffer(changes), np.random.default_rng(_SEED)
    if 2**moved.size <= _RESAMPLES:  # every flip is counted
        result = permutation_test(
            (moved,), np.sum, permutation_type="samples", alternative="less", axis=0, n_resamples=_RESAMPLES, rng=rng
        )
    else:  # the same test of flips that are drawn, without a loop over values
        result = monte_carlo_test(
            moved,
            lambda size: rng.choice((-1.0, 1.0), size) * moved,
            np.sum,
            alternative="less",
            n_resamples=_RESAMPLES,
            batch=1000,
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
