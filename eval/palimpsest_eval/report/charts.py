"""Geometry of the report's charts: numbers in, points and boxes out; the templates draw them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT, PAD = 120.0, 28.0, 3.0
BINS = 24
_LETTER = 5.5  # width of a letter of 10 px


@dataclass(frozen=True)
class Spark:
    """A line over builds in a box of `WIDTH` x `HEIGHT`; one point where there is one value."""

    points: str
    last_x: float
    last_y: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Bar:
    """A bar of a histogram: share of the box's height, how many values, and between which."""

    height: float
    count: int
    low: float
    high: float


@dataclass(frozen=True)
class Histogram:
    """Values in equal bins from 0 to the 99th percentile; what is above it is in the last bar."""

    bars: tuple[Bar, ...]
    high: float
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True)
class Column:
    """A column of a chart: left edge and width in its box, share of its height, and whether it has room for words."""

    x: float
    width: float
    height: float
    label: str
    value: int
    is_labelled: bool


@dataclass(frozen=True)
class ColumnChart:
    """Counts side by side in a box of `width` x 110."""

    width: float
    columns: tuple[Column, ...]


def columns(counts: Sequence[tuple[str, int]], width: float = 320.0) -> ColumnChart | None:
    """Returns the chart of counts by label; where labels would overlap, every second or third has one. None without."""
    if not any(count for _, count in counts):
        return None
    step, largest = width / len(counts), max(count for _, count in counts)
    letters = max(len(label) for label, _ in counts) + 1
    every = max(1, math.ceil(letters * _LETTER / step))
    last = len(counts) - 1
    made = [
        Column(i * step + 1, step - 2, count / largest, label, count, (last - i) % every == 0)
        for i, (label, count) in enumerate(counts)
    ]
    return ColumnChart(width, tuple(made))


def spark(values: Sequence[float]) -> Spark | None:
    """Returns the line of values, oldest first; None without any. What is not a number is left out."""
    points = [(i, v) for i, v in enumerate(values) if v is not None and math.isfinite(v)]
    if not points:
        return None
    low, high = min(v for _, v in points), max(v for _, v in points)
    span, steps = (high - low) or 1.0, max(len(values) - 1, 1)
    line = [
        (
            round(PAD + (WIDTH - 2 * PAD) * (i / steps if len(values) > 1 else 1.0), 1),
            round(HEIGHT - PAD - (HEIGHT - 2 * PAD) * ((v - low) / span if high > low else 0.5), 1),
        )
        for i, v in points
    ]
    return Spark(" ".join(f"{x},{y}" for x, y in line), *line[-1], low, high, len(points))


def histogram(values: Sequence[float], marks: Mapping[str, float], bins: int = BINS) -> Histogram | None:
    """Returns the histogram of values with its percentiles `p50`, `p95`, `p99`; None without values."""
    if not values:
        return None
    high = max(marks["p99"], 1e-9)
    counts = [0] * bins
    for value in values:
        counts[min(int(value / high * bins), bins - 1)] += 1
    largest, step = max(counts), high / bins
    bars = tuple(Bar(c / largest, c, i * step, (i + 1) * step) for i, c in enumerate(counts))
    return Histogram(bars, high, marks["p50"], marks["p95"], marks["p99"])
