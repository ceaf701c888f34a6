"""What is learned with scikit-learn, and how it is written down for `estimator.methods.rad.trees`."""

from __future__ import annotations

import csv
import lzma
from io import StringIO
from pathlib import Path
from typing import Any, cast

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

from estimator.methods.rad.features import MIB
from estimator.methods.rad.program import Conv
from estimator.methods.rad.workspace import features as conv_features
from estimator.methods.rad.workspace import total_bytes
from estimator.types import Precision

WORKSPACES = Path(__file__).parents[1] / "data" / "workspaces_h200.csv.xz"
TREES = 150
"""Trees of the correction; those for the size of errors are two thirds of it."""


def boosted(trees: int) -> GradientBoostingRegressor:
    """Make what learns the correction."""
    return GradientBoostingRegressor(
        loss="absolute_error",
        n_estimators=trees,
        max_depth=4,
        learning_rate=0.1,
        subsample=0.5,
        max_features=0.4,
        min_samples_leaf=20,
        random_state=0,
    )


def spreading(trees: int, quantile: float) -> GradientBoostingRegressor:
    """Make what learns the size of errors: this share of them is smaller."""
    return GradientBoostingRegressor(
        loss="quantile",
        alpha=quantile,
        n_estimators=max(2 * trees // 3, 1),
        max_depth=4,
        learning_rate=0.08,
        subsample=0.5,
        max_features=0.3,
        min_samples_leaf=60,
        random_state=0,
    )


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
        made[name] = {"start": 0.0, "trees": [tree_of(tree.tree_, 1.0)]}
    return made


def trees_of(model: GradientBoostingRegressor) -> dict[str, Any]:
    """Write scikit-learn's boosted trees as `estimator.methods.rad.trees` reads them."""
    start = float(np.ravel(model.init_.predict(np.zeros((1, model.n_features_in_))))[0])
    return {
        "start": start,
        "trees": [tree_of(tree[0].tree_, model.learning_rate) for tree in model.estimators_],
    }


def tree_of(tree: Any, rate: float) -> dict[str, list[Any]]:
    """Write one of scikit-learn's trees as columns, see `estimator.methods.rad.trees`."""
    leaf = tree.feature < 0
    values = np.where(leaf, tree.value[:, 0, 0] * rate, tree.threshold)
    return {
        "feature": [int(max(item, -1)) for item in tree.feature],
        "value": [float(f"{item:.6g}") for item in values],
        "left": [int(item) for item in tree.children_left],
        "right": [int(item) for item in tree.children_right],
    }
