"""Ages and confidences of memories, relations and facts in fixed groups."""

import datetime as dt
from dataclasses import dataclass

import polars as pl

AGE_GROUPS = ((1, "day"), (7, "week"), (30, "month"), (90, "quarter"), (365, "year"), (None, "older"))
"""Most days, and the name."""
BINS = 10
_DAY_S = 86_400.0


@dataclass(frozen=True)
class Ages:
    """How old the latest memories are, by when they were observed.

    Attributes:
        groups: how many by group, in the order of `AGE_GROUPS`; a memory is in the first that it fits.
        undated: how many have no date.
        median_days: of the dated ones; None without one, as is p90_days.
    """

    groups: tuple[tuple[str, int], ...]
    undated: int
    median_days: float | None
    p90_days: float | None


@dataclass(frozen=True)
class Confidence:
    """Confidences from 0 to 1: how many in each tenth, and their mean; None without one."""

    bins: tuple[int, ...]
    mean: float | None


def ages(observed_at: pl.Series, now: dt.datetime) -> Ages:
    """Returns the ages of memories; one that is dated later than now has age 0."""
    days = ((pl.lit(now) - pl.col("t")).dt.total_seconds() / _DAY_S).clip(lower_bound=0.0)
    dated = observed_at.drop_nulls().alias("t").to_frame().select(days.alias("days"))["days"]
    groups, below = [], 0
    for most, name in AGE_GROUPS:
        reached = len(dated) if most is None else int((dated <= most).sum())
        groups.append((name, reached - below))
        below = reached
    return Ages(tuple(groups), observed_at.null_count(), _rounded(dated.median()), _rounded(dated.quantile(0.9)))


def confidence(values: pl.Series) -> Confidence:
    """Returns the tenths and the mean of confidences; what has none is left out."""
    known = values.drop_nulls()
    tenths = (known * BINS).floor().clip(0, BINS - 1).cast(pl.Int64)
    counts = dict(tenths.value_counts().iter_rows()) if len(known) else {}
    return Confidence(tuple(counts.get(i, 0) for i in range(BINS)), _rounded(known.mean(), 3))


def _rounded(value: object, digits: int = 1) -> float | None:
    return round(float(value), digits) if isinstance(value, int | float) else None
