"""Decision trees as flat arrays: made from scikit-learn's, kept as numbers, walked with numpy alone."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Trees:
    """Many trees in one set of arrays. A leaf has itself as both children; `value` has one column a class.

    Attributes:
        feature: the feature that a node asks for, 0 at a leaf.
        threshold: a node goes left where the feature is at most this.
        left, right: the nodes under a node.
        value: what a leaf adds for each class, shape (nodes, classes).
        roots: the first node of each tree.
        depth: of the deepest tree.
    """

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    roots: np.ndarray
    depth: int

    def total(self, rows: np.ndarray) -> np.ndarray:
        """Returns the sum of the leaves that each row falls into, shape (len(rows), classes) float64."""
        out = np.zeros((len(rows), self.value.shape[1]))
        for start in range(0, len(rows), 512):
            block = rows[start : start + 512]
            at = np.tile(self.roots, (len(block), 1))
            lines = np.arange(len(block))[:, None]
            for _ in range(self.depth):
                goes_left = block[lines, self.feature[at]] <= self.threshold[at]
                at = np.where(goes_left, self.left[at], self.right[at])
            out[start : start + 512] = self.value[at].sum(axis=1)
        return out

    def arrays(self, prefix: str) -> dict[str, np.ndarray]:
        """Returns the arrays under names, to be saved."""
        return {f"{prefix}{name}": np.asarray(value) for name, value in self.__dict__.items()}

    @classmethod
    def load(cls, arrays: dict[str, np.ndarray], prefix: str) -> "Trees":
        """Returns the trees that `arrays` made."""
        fields: dict[str, Any] = {name: arrays[prefix + name] for name in cls.__dataclass_fields__}
        return cls(**(fields | {"depth": int(fields["depth"])}))


def from_boosting(model: Any) -> tuple[Trees, np.ndarray]:
    """Returns (trees, start) of a fitted HistGradientBoostingClassifier; the sum and the start are its raw scores."""
    parts = []
    for stage in model._predictors:
        for of_class, predictor in enumerate(stage):
            nodes = predictor.nodes
            leaf = nodes["is_leaf"].astype(bool)
            value = np.zeros((len(nodes), len(stage)))
            value[leaf, of_class] = nodes["value"][leaf]
            parts.append((leaf, nodes["feature_idx"], nodes["num_threshold"], nodes["left"], nodes["right"], value))
    return _joined(parts), np.asarray(model._baseline_prediction, float).reshape(-1)


def from_forest(model: Any) -> Trees:
    """Returns the trees of a fitted forest; the sum is its mean probability of each class."""
    parts = []
    for estimator in model.estimators_:
        t = estimator.tree_
        value = t.value[:, 0, :] / t.value[:, 0, :].sum(axis=1, keepdims=True) / len(model.estimators_)
        leaf = t.children_left < 0
        parts.append((leaf, t.feature, t.threshold, t.children_left, t.children_right, value * leaf[:, None]))
    return _joined(parts)


def _joined(parts: list[tuple]) -> Trees:
    sizes = [len(p[0]) for p in parts]
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
    fields: dict[str, list[np.ndarray]] = {k: [] for k in ("feature", "threshold", "left", "right", "value")}
    depth = 0
    for base, (leaf, feature, threshold, left, right, value) in zip(roots, parts, strict=True):
        own = np.arange(len(leaf))
        left, right = np.where(leaf, own, left), np.where(leaf, own, right)
        depth = max(depth, _depth(left, right))
        fields["feature"].append(np.where(leaf, 0, feature).astype(np.int16))
        fields["threshold"].append(np.where(leaf, 0.0, threshold).astype(np.float64))
        fields["left"].append((left + base).astype(np.int32))
        fields["right"].append((right + base).astype(np.int32))
        fields["value"].append(value.astype(np.float32))
    return Trees(**{k: np.concatenate(v) for k, v in fields.items()}, roots=roots, depth=depth)


def _depth(left: np.ndarray, right: np.ndarray) -> int:
    at, depth = np.zeros(1, np.int64), 0
    while (inner := at[left[at] != at]).size:
        at = np.concatenate([left[inner], right[inner]])
        depth += 1
    return depth
