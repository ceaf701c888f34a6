"""Fits the trees that say with copies of what cuDNN's convolutions work, see `estimator.methods.rad.convolutions`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from estimator.methods.rad.convolutions import COPIES, OTHER, copies, described
from estimator.methods.rad.fit.boosting import columns
from estimator.methods.rad.fit.learners import WORKSPACES, tree_of
from estimator.methods.rad.measured_convolutions import Measured, read
from estimator.methods.rad.workspace import DIRECTIONS, total_bytes

OTHERS: Final = WORKSPACES.with_name("workspaces_h100.csv.xz")
"""Convolutions that are no square kernels on square pictures."""
_SAME, _ROUNDED = 0.02, 65536
_LEAST: Final = 3
_LEAVES: Final = 1500
_SMALLEST: Final = 0.001


def fit_convolutions(paths: Sequence[Path] = (WORKSPACES, OTHERS)) -> dict[str, Any]:
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
        kinds = np.where(off.min(axis=1) <= _SAME * found + _ROUNDED, off.argmin(axis=1), OTHER)
        which = DecisionTreeClassifier(min_samples_leaf=_LEAST, max_leaf_nodes=_LEAVES, random_state=0)
        which.fit(rows, kinds)
        other = DecisionTreeRegressor(min_samples_leaf=_LEAST, max_leaf_nodes=_LEAVES, random_state=0)
        none = kinds == OTHER if (kinds == OTHER).any() else np.full(len(kinds), True)
        other.fit(rows[none], np.log(np.maximum(found[none] / totals[none], _SMALLEST)))
        made[name] = {
            "copies": {"start": 0.0, "trees": [_choosing(which)]},
            "other": {"start": 0.0, "trees": [tree_of(other.tree_)]},
        }
    return made


def _row(item: Measured) -> list[float]:
    conv = item.conv
    assert conv.extents is not None
    return described(conv, conv.extents, item.batch, item.precision)


def _choosing(classifier: DecisionTreeClassifier) -> dict[str, list[Any]]:
    """Write a tree whose leaves hold the place of what it chooses in `COPIES`, or `OTHER`."""
    tree = classifier.tree_
    chosen = classifier.classes_[tree.value[:, 0, :].argmax(axis=1)]
    assert chosen.max() <= len(COPIES)
    values = np.where(tree.feature < 0, chosen, tree.threshold)
    return columns(tree.feature, values, tree.children_left, tree.children_right)
