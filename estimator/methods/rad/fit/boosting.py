"""Boosted trees, grown by scikit-learn on histograms, whose bins are made here.

Bins are made once for each fit, without weights: scikit-learn 1.9 sorts a column anew for each bin where examples have
weights, which takes longer than all trees. So it is shown the numbers of bins, which it takes as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor

Floats = NDArray[np.float64]

_LEAVES = 16
_DEPTH = 6
_BINS = 255


class Boosted:
    """A sum of trees with sixteen leaves each."""

    def __init__(self, trees: int, least: int, **options: Any) -> None:
        """Choose how trees are grown.

        Args:
            trees: how many.
            least: no leaf holds fewer examples.
            options: of `HistGradientBoostingRegressor`.
        """
        self._trees = HistGradientBoostingRegressor(
            max_iter=trees,
            max_leaf_nodes=_LEAVES,
            max_depth=_DEPTH,
            max_bins=_BINS,
            min_samples_leaf=least,
            early_stopping=False,
            random_state=0,
            **options,
        )
        self._edges: list[Floats] = []

    def fit(self, rows: Floats, target: Floats, weights: Floats | None = None) -> Boosted:
        """Grow the trees.

        Args:
            rows: features of the examples, of shape (examples, features).
            target: what is to be told from them.
            weights: how much each example counts; without them all count the same.
        """
        self._edges = [_edges(column) for column in rows.T]
        self._trees.fit(self._binned(rows), target, weights)
        return self

    def predict(self, rows: Floats) -> Floats:
        """Add up the leaves that each row falls into."""
        said: Floats = self._trees.predict(self._binned(rows))
        return said

    def written(self) -> dict[str, Any]:
        """Write the trees as `estimator.methods.rad.trees` reads them.

        scikit-learn shows them in attributes of its own alone; their names are the same from version 1.4 to 1.9.
        """
        return {
            "start": float(np.ravel(self._trees._baseline_prediction)[0]),
            "trees": [self._tree(predictor.nodes) for (predictor,) in self._trees._predictors],
        }

    def _tree(self, nodes: Any) -> dict[str, list[Any]]:
        feature = np.where(nodes["is_leaf"], -1, nodes["feature_idx"].astype(np.int64))
        values = [
            leaf if at < 0 else self._edges[at][int(number)]  # numbers of bins up to this one go to the left
            for at, number, leaf in zip(feature, nodes["num_threshold"], nodes["value"], strict=True)
        ]
        return columns(feature, values, nodes["left"], nodes["right"])

    def _binned(self, rows: Floats) -> Floats:
        columns = zip(self._edges, rows.T, strict=True)
        return np.column_stack([np.searchsorted(edges, column) for edges, column in columns]).astype(np.float64)


def columns(feature: Any, value: Any, left: Any, right: Any) -> dict[str, list[Any]]:
    """Write a tree as lists, see `estimator.methods.rad.trees.read_tree`."""
    return {
        "feature": [int(max(item, -1)) for item in feature],
        "value": [_short(item) for item in value],
        "left": [int(item) for item in left],
        "right": [int(item) for item in right],
    }


def _edges(column: Floats) -> Floats:
    """Give the largest value of each bin but the last, as it is written down."""
    values = np.unique(column)
    between = (values[1:] + values[:-1]) / 2
    edges = between if len(values) <= _BINS else np.quantile(column, np.arange(1, _BINS) / _BINS)
    return np.unique([_short(edge) for edge in edges])


def _short(value: float) -> float:
    return float(f"{value:.6g}")
