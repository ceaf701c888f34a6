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
    WORKSPACES.with_name("workspaces_first.csv.xz"),
    WORKSPACES.with_name("workspaces_series.csv.xz"),
    WORKSPACES.with_name("workspaces_models.csv.xz"),
)
"""Square kernels on square pictures, others, films, pictures of any side, first layers, series, the models' own."""
_SAME, _ROUNDED = 0.0005, 65536
_LITTLE: Final = 0.12
_LEAST: Final = 3
_LEAVES: Final = 4000
_SMALLEST: Final = 0.001
_SELDOM: Final = 0.05  # what is there less often is left out


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
        mixes, tree = _mixed(which)
        made[name] = {
            "mix": {"start": 0.0, "trees": [tree]},
            "mixes": mixes,
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


def _mixed(classifier: DecisionTreeClassifier) -> tuple[list[list[tuple[int, float]]], dict[str, list[Any]]]:
    """List what leaves hold, and write a tree whose leaves hold places in that list.

    Such a mix is of places in `COPIES`, `MORE` and `OTHER`, the most frequent first, and of how often they are there.
    """
    tree = classifier.tree_
    shares = tree.value[:, 0, :] / tree.value[:, 0, :].sum(axis=1, keepdims=True)
    places: dict[tuple[tuple[int, float], ...], int] = {}
    values = tree.threshold.copy()
    for leaf in np.flatnonzero(tree.feature < 0):
        often = [(float(share), int(kind)) for share, kind in zip(shares[leaf], classifier.classes_, strict=True)]
        often.sort(key=lambda item: (-item[0], item[1]))
        mix = tuple((kind, max(round(share, 2), _SELDOM)) for share, kind in often if share >= _SELDOM)
        values[leaf] = places.setdefault(mix, len(places))
    return [list(mix) for mix in places], columns(tree.feature, values, tree.children_left, tree.children_right)
