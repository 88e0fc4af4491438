"""What the pictures of report and health page show: numbers in, pictures out; and the lines of their tiles."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from palimpsest.core.ids import SCOPE, scope_parts
from palimpsest_eval.labels.label_metrics import ReliabilityBin
from palimpsest_eval.report.pictures import (
    ArcLink,
    ArcNode,
    Bar,
    Interval,
    arc_chart,
    bar_chart,
    interval_chart,
    reliability_chart,
)

if TYPE_CHECKING:
    from palimpsest_eval.report.pictures import Chart

WIDTH, HEIGHT, PAD = 120.0, 28.0, 3.0
_FILE_WIDTH = 480
_TYPE_MEASURES = (("R@5", "R@5"), ("packed_recall", "packed"), ("nDCG@10", "nDCG@10"))


@dataclass(frozen=True)
class Spark:
    """A line over builds in a box of `WIDTH` x `HEIGHT`, without words or axes; one point where there is one value."""

    points: str
    last_x: float
    last_y: float
    count: int


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
    return Spark(" ".join(f"{x},{y}" for x, y in line), *line[-1], len(points))


def types_chart(types: Sequence[Mapping[str, Any]]) -> "Chart":
    """Returns R@5, recall after packing and nDCG@10 of each type of question, with a mark where the baseline is."""
    bars = [
        Bar(f"{t['type']} ({t['queries']})", t[measure], name, t["before"].get(measure))
        for t in types
        for measure, name in _TYPE_MEASURES
    ]
    return bar_chart(bars, "mean", form=".3f", name="type (questions)")


def recall_chart(collections: Mapping[str, Sequence[Mapping[str, Any]]], title: str) -> "Chart":
    """Returns R@5 of each type of question of each collection, with a mark where the baseline is."""
    bars = [
        Bar(f"{name}: {t['type']} ({t['queries']})", t["R@5"], before=t["before"].get("R@5"))
        for name, types in collections.items()
        for t in types
    ]
    chart = bar_chart(bars, "R@5; mark: baseline", form=".3f", chars=40)
    return chart.properties(title=title, width=_FILE_WIDTH)


def latency_chart(steps: Sequence[Interval]) -> "Chart":
    """Returns the milliseconds of each step of the query path: a line from p50 to p99 with a point at p95."""
    return interval_chart(steps, "ms: p50 to p99, point: p95")


def calibration_chart(bins: Sequence[ReliabilityBin]) -> "Chart":
    """Returns how often a label of a confidence is right."""
    return reliability_chart([(b.confidence, b.accuracy, b.pairs) for b in bins])


# The graph of a scope in numbers and as a drawing: its largest nodes, its growth, and the nodes without an edge.

_DAYS = "created_at"


@dataclass(frozen=True)
class GraphChart:
    """The graph of the scope with the most nodes.

    Attributes:
        scope: its name.
        dots: the most important nodes, by type and importance.
        lines: edges between these.
        nodes, edges: how many, by type.
        orphans: how many nodes have no edge, by type.
        growth: (day, nodes by then), by the day on which the first memory of each was read.
    """

    scope: str
    dots: tuple[ArcNode, ...]
    lines: tuple[ArcLink, ...]
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
    best = mine.sort("importance", "node_id", descending=[True, False], nulls_last=True).head(shown)
    best = best.sort("type", "importance", "node_id", descending=[False, True, False], nulls_last=True)
    dots = tuple(
        ArcNode(node_id, name, kind, importance or 0.0)
        for node_id, name, kind, importance in best.select("node_id", "name", "type", "importance").iter_rows()
    )
    drawn = {dot.node_id for dot in dots}
    lines = tuple(
        ArcLink(a, b, kind)
        for a, b, kind in ties.select("source_id", "target_id", "type").sort(pl.all()).iter_rows()
        if a in drawn and b in drawn
    )
    growth = mine.drop_nulls(_DAYS).group_by(pl.col(_DAYS).dt.date().cast(pl.String).alias("day")).len().sort("day")
    return GraphChart(
        "/".join(scope_parts(*scope)),
        dots,
        lines,
        _counts(mine),
        _counts(ties),
        _counts(orphan_nodes(mine, ties)),
        tuple(growth.select("day", pl.col("len").cum_sum()).iter_rows()),
    )


def nodes_chart(graph: GraphChart) -> "Chart":
    """Returns the largest nodes of a scope with the edges between them."""
    return arc_chart(graph.dots, graph.lines, "node", "edge")


def orphan_nodes(nodes: pl.DataFrame, edges: pl.DataFrame) -> pl.DataFrame:
    """Returns the nodes that no edge leads from or to, the most important first."""
    ends = pl.concat([edges.select(node_id="source_id"), edges.select(node_id="target_id")]).unique()
    return nodes.join(ends, on="node_id", how="anti").sort("importance", "node_id", descending=[True, False])


def _counts(frame: pl.DataFrame) -> dict[str, int]:
    return dict(frame.group_by("type").len().sort("len", "type", descending=[True, False]).iter_rows())
