"""What is learned with scikit-learn, and how it is written down for `estimator.methods.rad.trees`."""

from __future__ import annotations

import csv
import lzma
from io import StringIO
from pathlib import Path
from typing import Any, cast

import numpy as np
from sklearn.tree import DecisionTreeRegressor

from estimator.methods.rad.features import MIB
from estimator.methods.rad.fit.boosting import Boosted, columns
from estimator.methods.rad.program import Conv
from estimator.methods.rad.workspace import features as conv_features
from estimator.methods.rad.workspace import total_bytes
from estimator.types import Precision

WORKSPACES = Path(__file__).parents[1] / "data" / "workspaces_h200.csv.xz"
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
    rows = list(csv.DictReader(StringIO(lzma.decompress(path.read_bytes()).decode())))
    convs = []
    for row in rows:
        kernel, stride, side = int(row["kernel"]), int(row["stride"]), int(row["side"])
        out = (side + 2 * (kernel // 2) - kernel) // stride + 1
        convs.append(
            Conv(
                int(row["channels_in"]),
                int(row["channels_out"]),
                kernel * kernel,
                stride,
                int(row["groups"]),
                side * side,
                out * out,
            )
        )
    described = [
        (conv_features(conv, batch, precision), total_bytes(conv, batch, precision))
        for conv, batch, precision in (
            (conv, int(row["batch"]), cast("Precision", row["precision"]))
            for conv, row in zip(convs, rows, strict=True)
        )
    ]
    inputs = np.array([item[0] for item in described], dtype=np.float64)
    totals = np.array([item[1] for item in described], dtype=np.float64)
    weights = np.sqrt(totals / MIB)
    made = {}
    for name in ("forward", "input", "weight"):
        ratio = np.minimum(np.array([float(row[name]) for row in rows]) / totals, 8.0)
        tree = DecisionTreeRegressor(max_depth=12, min_samples_leaf=6, max_leaf_nodes=400, random_state=0)
        tree.fit(inputs, ratio, weights)
        made[name] = {"start": 0.0, "trees": [tree_of(tree.tree_)]}
    return made


def tree_of(tree: Any) -> dict[str, list[Any]]:
    """Write one of scikit-learn's decision trees as columns, see `estimator.methods.rad.trees`."""
    leaf = tree.feature < 0
    values = np.where(leaf, tree.value[:, 0, 0], tree.threshold)
    return columns(tree.feature, values, tree.children_left, tree.children_right)
