"""Geometry of the report's charts: numbers in, points and boxes out; the templates draw them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from palimpsest.core.ids import SCOPE, scope_parts

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


# The graph of a scope in numbers and as a drawing: its largest nodes, its growth, and the nodes without an edge.

SIZE = 440.0
_RADIUS = 165.0
_DAYS = "created_at"


@dataclass(frozen=True)
class GraphDot:
    """A node of the drawing; `radius` grows with its importance."""

    node_id: str
    name: str
    type: str
    x: float
    y: float
    radius: float


@dataclass(frozen=True)
class GraphLine:
    """An edge of the drawing, between two dots."""

    source_id: str
    target_id: str
    type: str
    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True)
class GraphChart:
    """The graph of the scope with the most nodes.

    Attributes:
        scope: its name.
        dots: the most important nodes, on a circle.
        lines: edges between these.
        nodes, edges: how many, by type.
        orphans: how many nodes have no edge, by type.
        growth: (day, nodes by then), by the day on which the first memory of each was read.
    """

    scope: str
    dots: tuple[GraphDot, ...]
    lines: tuple[GraphLine, ...]
    nodes: Mapping[str, int]
    edges: Mapping[str, int]
    orphans: Mapping[str, int]
    growth: tuple[tuple[str, int], ...]


def graph_chart(nodes: pl.DataFrame, edges: pl.DataFrame, shown: int = 24) -> GraphChart | None:
    """Returns the graph of the scope with the most nodes, None where there is none.

    Args:
        nodes: the nodes table.
        edges: the edges table.
        shown: nodes to draw.
    """
    if nodes.is_empty():
        return None
    scope = nodes.group_by(SCOPE).len().sort("len", *SCOPE, descending=[True, *[False] * len(SCOPE)]).row(0)[:-1]
    at = dict(zip(SCOPE, scope, strict=True))
    mine, ties = nodes.filter(**at), edges.filter(**at)
    order = [True, False]
    best = mine.sort("importance", "node_id", descending=order, nulls_last=True).head(shown).sort("type", "node_id")
    dots = {
        node_id: _dot(node_id, name, kind, importance or 0.0, 2 * math.pi * n / best.height)
        for n, (node_id, name, kind, importance) in enumerate(
            best.select("node_id", "name", "type", "importance").iter_rows()
        )
    }
    lines = tuple(
        GraphLine(a, b, kind, dots[a].x, dots[a].y, dots[b].x, dots[b].y)
        for a, b, kind in ties.select("source_id", "target_id", "type").sort(pl.all()).iter_rows()
        if a in dots and b in dots
    )
    growth = mine.drop_nulls(_DAYS).group_by(pl.col(_DAYS).dt.date().cast(pl.String).alias("day")).len().sort("day")
    return GraphChart(
        "/".join(scope_parts(*scope)),
        tuple(dots.values()),
        lines,
        _counts(mine),
        _counts(ties),
        _counts(orphan_nodes(mine, ties)),
        tuple(growth.select("day", pl.col("len").cum_sum()).iter_rows()),
    )


def orphan_nodes(nodes: pl.DataFrame, edges: pl.DataFrame) -> pl.DataFrame:
    """Returns the nodes that no edge leads from or to, the most important first."""
    ends = pl.concat([edges.select(node_id="source_id"), edges.select(node_id="target_id")]).unique()
    return nodes.join(ends, on="node_id", how="anti").sort("importance", "node_id", descending=[True, False])


def _dot(node_id: str, name: str, kind: str, importance: float, angle: float) -> GraphDot:
    middle = SIZE / 2
    x, y = middle + _RADIUS * math.cos(angle), middle + _RADIUS * math.sin(angle)
    return GraphDot(node_id, name, kind, round(x, 1), round(y, 1), round(3 + 6 * importance, 1))


def _counts(frame: pl.DataFrame) -> dict[str, int]:
    return dict(frame.group_by("type").len().sort("len", "type", descending=[True, False]).iter_rows())
