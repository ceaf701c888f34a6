"""What is learned with scikit-learn, and how it is written down for `estimator.methods.rad.trees`."""

from __future__ import annotations

import csv
import lzma
from io import StringIO
from pathlib import Path
from typing import Any, cast

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

from estimator.methods.rad.features import MIB
from estimator.methods.rad.program import Conv
from estimator.methods.rad.workspace import features as conv_features
from estimator.methods.rad.workspace import total_bytes
from estimator.types import Precision

WORKSPACES = Path(__file__).parents[1] / "data" / "workspaces_h200.csv.xz"
TREES = 150
"""Trees of the correction; those for the size of errors are two thirds of it."""

_LEAVES = 16
_DEPTH = 6


def boosted(trees: int) -> HistGradientBoostingRegressor:
    """Make what learns the correction."""
    return _boosted(trees, 20, loss="absolute_error", learning_rate=0.1, max_features=0.4)


def spreading(trees: int, quantile: float) -> HistGradientBoostingRegressor:
    """Make what learns the size of errors: this share of them is smaller."""
    trees = max(2 * trees // 3, 1)
    return _boosted(trees, 60, loss="quantile", quantile=quantile, learning_rate=0.08, max_features=0.3)


def _boosted(trees: int, least: int, **options: Any) -> HistGradientBoostingRegressor:
    """Make boosted trees of sixteen leaves, no leaf of fewer than ``least`` examples.

    They are grown on histograms, which takes a tenth of the time of exact splits and errs no more.
    """
    return HistGradientBoostingRegressor(
        max_iter=trees,
        max_leaf_nodes=_LEAVES,
        max_depth=_DEPTH,
        min_samples_leaf=least,
        early_stopping=False,
        random_state=0,
        **options,
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
        made[name] = {"start": 0.0, "trees": [tree_of(tree.tree_)]}
    return made


def trees_of(model: HistGradientBoostingRegressor) -> dict[str, Any]:
    """Write scikit-learn's boosted trees as `estimator.methods.rad.trees` reads them.

    scikit-learn shows them in attributes of its own alone; their names are the same from version 1.4 to 1.9.
    """
    nodes = [predictor.nodes for (predictor,) in model._predictors]
    return {
        "start": float(np.ravel(model._baseline_prediction)[0]),
        "trees": [
            _columns(
                np.where(tree["is_leaf"], -1, tree["feature_idx"].astype(np.int64)),
                np.where(tree["is_leaf"], tree["value"], _rounded_up(tree["num_threshold"])),
                tree["left"],
                tree["right"],
            )
            for tree in nodes
        ],
    }


def _rounded_up(threshold: Any) -> Any:
    """Leave room for six digits: thresholds are values that examples have, and these stay on their side."""
    return threshold + np.abs(threshold) * 5e-6


def tree_of(tree: Any) -> dict[str, list[Any]]:
    """Write one of scikit-learn's decision trees as columns, see `estimator.methods.rad.trees`."""
    leaf = tree.feature < 0
    values = np.where(leaf, tree.value[:, 0, 0], tree.threshold)
    return _columns(tree.feature, values, tree.children_left, tree.children_right)


def _columns(feature: Any, value: Any, left: Any, right: Any) -> dict[str, list[Any]]:
    return {
        "feature": [int(max(item, -1)) for item in feature],
        "value": [float(f"{item:.6g}") for item in value],
        "left": [int(item) for item in left],
        "right": [int(item) for item in right],
    }
