"""Where nodes are drawn: a position in the plane for each node of a scope, computed once by the build.

Distances in the graph to a few pivots give coordinates (Brandes and Pich, 2006: PivotMDS); then nodes that are linked
draw together and those that overlap push apart, as in force-directed drawing. Parts that nothing links are laid beside
one another, the largest in the middle; nodes without any link are a grid below them.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree

from palimpsest.core.ids import SCOPE, by_scope
from palimpsest.store.tables import conform

_PIVOTS = 24
_STEPS = 60
_NEIGHBORS = 9
_SPACING = 1.0
"""Of two nodes that do not overlap; all distances are in this unit."""
_PULL, _PUSH = 0.12, 0.5
_GRID_GAP = 4.0
_GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))


def node_positions(nodes: pl.DataFrame, edges: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Returns the table `node_positions`, sorted by id.

    Args:
        nodes: the nodes.
        edges: links of nodes.
        facts: those with an object link nodes too.
    """
    links = pl.concat(
        [
            edges.select(a="source_id", b="target_id"),
            facts.filter(pl.col("object_id").is_not_null()).select(a="subject_id", b="object_id"),
        ]
    ).filter(pl.col("a") != pl.col("b"))
    found = []
    for own in by_scope(nodes.select(*SCOPE, "node_id").sort("node_id")).values():
        row = own.select("node_id").with_row_index("row")
        ends = links.join(row.rename({"node_id": "a", "row": "i"}), on="a").join(
            row.rename({"node_id": "b", "row": "j"}), on="b"
        )
        at = lay_out(own.height, ends["i"].to_numpy(), ends["j"].to_numpy())
        found.append(own.with_columns(x=pl.Series(at[:, 0]), y=pl.Series(at[:, 1])))
    return conform("node_positions", pl.concat(found) if found else nodes.select(*SCOPE, "node_id")).sort("node_id")


def lay_out(count: int, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Returns the position of each of `count` nodes, shape (count, 2), rounded to 2 decimals.

    Args:
        count: of nodes.
        sources: one end of each link, shape (m,).
        targets: the other end.
    """
    ones = np.ones(len(sources), np.float64)
    graph = coo_matrix((ones, (sources, targets)), (count, count))
    graph = csr_matrix(graph + graph.T)
    graph.data[:] = 1.0
    parts = [p for p in _parts(graph) if len(p) > 1]
    shapes = [_lay_out_part(graph[part][:, part]) for part in parts]
    at = np.zeros((count, 2))
    for part, shape, center in zip(parts, shapes, _centers([_radius(s) for s in shapes]), strict=True):
        at[part] = shape + center
    single = np.flatnonzero(graph.getnnz(axis=1) == 0)
    at[single] = _grid(len(single), float(np.delete(at[:, 1], single).min(initial=0.0)) - _GRID_GAP * bool(parts))
    return np.round(at, 2) + 0.0


def _parts(graph: csr_matrix) -> list[np.ndarray]:
    """Returns the rows of each connected part, the largest first, ties by the first row."""
    _, labels = connected_components(graph, directed=False)
    order = np.argsort(labels, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1) if len(order) else []
    return sorted(parts, key=lambda p: (-len(p), p[0]))


def _lay_out_part(graph: csr_matrix) -> np.ndarray:
    """Returns positions of one connected part around the origin."""
    count = graph.shape[0]
    if count == 2:
        return np.array([[0.0, 0.0], [_SPACING, 0.0]])
    at = _pivot_coordinates(graph)
    # What has the same distances would lie on one point: a spiral around it is the same in every run.
    at = at * np.sqrt(count) * _SPACING / max(float(np.abs(at).max()), 1e-9) + 0.2 * _spiral(count) / np.sqrt(count)
    rows, columns = graph.nonzero()
    degree = np.maximum(np.asarray(graph.sum(axis=1)).ravel(), 1.0)
    for step in range(_STEPS):
        at = at + (1.0 - step / _STEPS) * _forces(at, rows, columns, degree)
    return at - at.mean(axis=0)


def _pivot_coordinates(graph: csr_matrix) -> np.ndarray:
    """Returns the two main axes of the distances to pivots, each pivot far from those before it; shape (n, 2)."""
    count = graph.shape[0]
    pivot = int(np.argmax(np.asarray(graph.sum(axis=1)).ravel()))
    nearest = np.full(count, np.inf)
    distances = []
    for _ in range(min(_PIVOTS, count)):
        distances.append(dijkstra(graph, directed=False, unweighted=True, indices=pivot))
        nearest = np.minimum(nearest, distances[-1])
        pivot = int(np.argmax(nearest))
    squared = np.array(distances).T ** 2
    centered = squared - squared.mean(axis=0) - squared.mean(axis=1, keepdims=True) + squared.mean()
    _, vectors = np.linalg.eigh(centered.T @ centered)
    axes = vectors[:, ::-1][:, :2] if vectors.shape[1] > 1 else np.hstack([vectors, np.zeros_like(vectors)])
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), range(2)] < 0, -1.0, 1.0)  # a fixed sign of each axis
    return np.asarray(centered @ axes)


def _forces(at: np.ndarray, rows: np.ndarray, columns: np.ndarray, degree: np.ndarray) -> np.ndarray:
    """Returns how each node moves: towards the mean of its neighbors, and away from nodes nearer than the spacing."""
    count = len(at)
    pull = np.stack([np.bincount(rows, at[columns, axis], count) for axis in range(2)], axis=1) / degree[:, None] - at
    away, near = cKDTree(at).query(at, k=min(_NEIGHBORS, count))
    gap = at[:, None, :] - at[near]
    away = np.maximum(away, 1e-6)
    strength = np.where(away < 2 * _SPACING, (2 * _SPACING - away) / away, 0.0)
    push = (gap * strength[:, :, None])[:, 1:].sum(axis=1)
    move = _PULL * pull + _PUSH * push / _NEIGHBORS * 2
    length = np.linalg.norm(move, axis=1, keepdims=True)
    return np.asarray(move / np.maximum(length, 1e-9) * np.minimum(length, 2 * _SPACING))


def _grid(count: int, top: float) -> np.ndarray:
    """Returns positions in rows of a grid, twice as wide as high, below `top` and in the middle; shape (count, 2)."""
    columns = max(1, int(np.ceil(np.sqrt(2 * count))))
    number = np.arange(count)
    return np.stack([number % columns - (min(columns, count) - 1) / 2, top - number // columns], axis=1) * _SPACING


def _radius(shape: np.ndarray) -> float:
    return float(np.linalg.norm(shape, axis=1).max()) + _SPACING if len(shape) else _SPACING


def _centers(radii: Sequence[float]) -> np.ndarray:
    """Returns where the middle of each part is: in a spiral, so that what they cover grows with each."""
    if not radii:
        return np.zeros((0, 2))
    areas = np.square(np.asarray(radii) * 1.25)
    areas[0] = radii[0] ** 2
    distance = np.sqrt(np.cumsum(areas)) + np.asarray(radii) * 0.5
    distance[0] = 0.0
    angle = np.arange(len(radii)) * _GOLDEN_ANGLE
    return np.stack([distance * np.cos(angle), distance * np.sin(angle)], axis=1)


def _spiral(count: int) -> np.ndarray:
    number = np.arange(count)
    radius = np.sqrt(number + 0.5)
    return np.stack([radius * np.cos(number * _GOLDEN_ANGLE), radius * np.sin(number * _GOLDEN_ANGLE)], axis=1)
