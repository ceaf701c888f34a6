"""Fits the trees that say with copies of what cuDNN's convolutions work, see `estimator.methods.rad.convolutions`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from estimator.methods.rad.convolutions import BASE, MORE, OTHER, copies, described
from estimator.methods.rad.fit.boosting import columns
from estimator.methods.rad.fit.holdout import Floats
from estimator.methods.rad.fit.learners import WORKSPACES, tree_of
from estimator.methods.rad.measured_convolutions import Measured, read
from estimator.methods.rad.workspace import DIRECTIONS, total_bytes

MEASURED: Final = (
    WORKSPACES,
    WORKSPACES.with_name("workspaces_h100.csv.xz"),
    WORKSPACES.with_name("workspaces_films.csv.xz"),
    WORKSPACES.with_name("workspaces_any.csv.xz"),
    WORKSPACES.with_name("workspaces_models.csv.xz"),
)
"""Square kernels on square pictures, others, films, pictures of any side, and those of the data set's models."""
_SAME, _ROUNDED = 0.0005, 65536
_LITTLE: Final = 0.12
_LEAST: Final = 3
_LEAVES: Final = 4000
_SMALLEST: Final = 0.001


def fit_convolutions(paths: Sequence[Path] = MEASURED) -> dict[str, Any]:
    """Fit the trees.

    Args:
        paths: what `estimator.methods.rad.measure_workspaces` wrote.
    """
    measured = [item for path in paths for item in read(path)]
    rows = np.array([_row(item) for item in measured])
    sizes = np.array([copies(item.conv, item.batch, item.precision) for item in measured])
    totals = np.array([total_bytes(item.conv, item.batch, item.precision) for item in measured])
    made = {}
    for name in DIRECTIONS:
        found = np.array([float(getattr(item, name)) for item in measured])
        off = np.abs(sizes - found[:, None])
        beside = found / np.maximum(sizes[:, BASE], 1.0) - 1.0
        kinds = np.where((beside > 0) & (beside <= _LITTLE), MORE, OTHER)
        kinds = np.where(off.min(axis=1) <= np.maximum(_SAME * found, _ROUNDED), off.argmin(axis=1), kinds)
        which = DecisionTreeClassifier(min_samples_leaf=_LEAST, max_leaf_nodes=_LEAVES, random_state=0)
        which.fit(rows, kinds)
        made[name] = {
            "copies": {"start": 0.0, "trees": [_choosing(which)]},
            "more": _sized(rows, beside, kinds == MORE),
            "other": _sized(rows, found / totals, kinds == OTHER),
        }
    return made


def _sized(rows: Floats, ratios: Floats, among: NDArray[np.bool_]) -> dict[str, Any]:
    """Fit a tree to the logarithms of ratios; where there are none, to all."""
    chosen = among if among.any() else np.full(len(rows), True)
    tree = DecisionTreeRegressor(min_samples_leaf=_LEAST, max_leaf_nodes=_LEAVES, random_state=0)
    tree.fit(rows[chosen], np.log(np.maximum(ratios[chosen], _SMALLEST)))
    return {"start": 0.0, "trees": [tree_of(tree.tree_)]}


def _row(item: Measured) -> list[float]:
    conv = item.conv
    assert conv.extents is not None
    return described(conv, conv.extents, item.batch, item.precision)


def _choosing(classifier: DecisionTreeClassifier) -> dict[str, list[Any]]:
    """Write a tree whose leaves hold the place of what it chooses in `COPIES`, or `OTHER`."""
    tree = classifier.tree_
    chosen = classifier.classes_[tree.value[:, 0, :].argmax(axis=1)]
    assert chosen.max() <= OTHER
    values = np.where(tree.feature < 0, chosen, tree.threshold)
    return columns(tree.feature, values, tree.children_left, tree.children_right)
