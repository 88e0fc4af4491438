"""The graph of a scope in numbers and as a drawing: its largest nodes, its growth, and the nodes without an edge."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from palimpsest.core.ids import SCOPE, scope_parts

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
