"""What is learned with scikit-learn, and how it is written down for `estimator.methods.rad.trees`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeRegressor

from estimator.methods.rad.fit.boosting import Boosted, columns
from estimator.methods.rad.measured_convolutions import read
from estimator.methods.rad.workspace import DIRECTIONS, MOST, copies_bytes, total_bytes
from estimator.methods.rad.workspace import features as conv_features

WORKSPACES = Path(__file__).parents[1] / "data" / "workspaces_h200.csv.xz"
# A workspace that is so near to the weights' copies is these, rounded by the allocator.
_SAME, _ROUNDED = 0.01, 4096
TREES = 150
"""Trees of the correction; those for the size of errors are two thirds of it."""


def boosted(trees: int) -> Boosted:
    """Make what learns the correction."""
    return Boosted(trees, 20, loss="absolute_error", learning_rate=0.1, max_features=0.4)


def spreading(trees: int, quantile: float) -> Boosted:
    """Make what learns the size of errors: this share of them is smaller."""
    trees = max(2 * trees // 3, 1)
    return Boosted(trees, 60, loss="quantile", quantile=quantile, learning_rate=0.08, max_features=0.3)


def fit_workspaces(path: Path = WORKSPACES) -> dict[str, Any]:
    """Fit the trees for workspaces to measured convolutions.

    Args:
        path: what `estimator.methods.rad.measure_workspaces` wrote.
    """
    measured = read(path)
    inputs = np.array([conv_features(item.conv, item.batch, item.precision) for item in measured], dtype=np.float64)
    totals = np.array([total_bytes(item.conv, item.batch, item.precision) for item in measured])
    copies = np.array([copies_bytes(item.conv, item.batch, item.precision) for item in measured])
    off = np.abs(np.array([item.weight for item in measured]) - copies)
    copied = (copies > 0) & (off <= _SAME * copies + _ROUNDED)
    made = {}
    for name in DIRECTIONS:
        ratio = np.minimum(np.array([getattr(item, name) for item in measured]) / totals, MOST)
        rows = ~copied if name == "weight" else np.full(len(measured), True)
        tree = DecisionTreeRegressor(max_depth=14, min_samples_leaf=6, max_leaf_nodes=800, random_state=0)
        tree.fit(inputs[rows], ratio[rows], totals[rows])
        made[name] = {"start": 0.0, "trees": [tree_of(tree.tree_)]}
    tree = DecisionTreeRegressor(max_depth=10, min_samples_leaf=10, max_leaf_nodes=60, random_state=0)
    tree.fit(inputs[copies > 0], copied[copies > 0].astype(float))
    made["copies"] = {"start": 0.0, "trees": [tree_of(tree.tree_)]}
    return made


def tree_of(tree: Any) -> dict[str, list[Any]]:
    """Write one of scikit-learn's decision trees as columns, see `estimator.methods.rad.trees`."""
    leaf = tree.feature < 0
    values = np.where(leaf, tree.value[:, 0, 0], tree.threshold)
    return columns(tree.feature, values, tree.children_left, tree.children_right)
