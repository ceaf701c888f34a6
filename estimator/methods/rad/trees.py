"""Sums of regression trees, in flat arrays. Pure; fitting them is `estimator.methods.rad.fit.learners`' work."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

from estimator.breath import breathe
from estimator.store import ModelError

_LEAF: Final = 255


class Trees:
    """A start value and trees whose leaves are added to it.

    All nodes stand in the order of a walk that goes to smaller values first. radd asks for one prediction after a
    pause, with nothing in the processor's caches: what lies side by side comes faster than what is linked.
    """

    def __init__(self, model: Mapping[str, Any], width: int = _LEAF) -> None:
        """Read ``{"start": .., "trees": [{"feature": [..], "value": [..], "left": [..], "right": [..]}, ..]}``.

        Args:
            model: what was learned.
            width: how many features a row has.

        Raises:
            ModelError: the lists do not make trees.
        """
        # For each node: the feature to look at, or _LEAF; its threshold, or the leaf's value; how far it is to the
        # node for larger values. And where each tree begins.
        features: list[int] = []
        values: list[float] = []
        self._skips: list[int] = []
        self._roots: list[int] = []
        try:
            self._start = float(model["start"])
            for tree in model["trees"]:
                breathe()
                feature, value, left, right = read_tree(tree)
                order = _walk(feature, left, right)
                place = {node: at for at, node in enumerate(order)}
                self._roots.append(len(features))
                for at, node in enumerate(order):
                    leaf = feature[node] < 0
                    features.append(_LEAF if leaf else feature[node])
                    values.append(value[node])
                    self._skips.append(0 if leaf else place[right[node]] - at)
            if any(width <= feature < _LEAF for feature in features):
                raise ValueError("a feature that no row has")
            if not all(map(isfinite, (self._start, *values))):
                raise ValueError("a value that is no number")
            self._features = bytes(features)
            self._values = [value + 0.0 for value in values]  # new numbers, which lie in memory as they stand here
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ModelError(f"the trees of this model are damaged ({error!r}): roll back") from None

    def predict(self, row: list[float]) -> float:
        """Add up the leaves that a row of features falls into."""
        total = self._start
        features, values, skips = self._features, self._values, self._skips
        for root in self._roots:
            at = root
            feature = features[at]
            while feature != _LEAF:
                at += 1 if row[feature] <= values[at] else skips[at]
                feature = features[at]
            total += values[at]
        return total


def _walk(feature: list[int], left: list[int], right: list[int]) -> list[int]:
    """List a tree's nodes, each followed by those for smaller or equal values, then by those for larger."""
    order: list[int] = []
    stack = [0]
    while stack:
        node = stack.pop()
        order.append(node)
        if len(order) > len(feature):
            raise ValueError("a node has two parents")
        if feature[node] >= 0:
            stack += (right[node], left[node])
    return order


Tree = tuple[list[int], list[float], list[int], list[int]]


def read_tree(tree: Mapping[str, Any]) -> Tree:
    """Read one tree and make sure that walking down it ends.

    A node is a column: the feature to look at (-1 for a leaf), its threshold (a leaf's value), and the nodes for
    smaller or equal and for larger.

    Raises:
        ValueError: the lists have different lengths or a child does not come after its parent.
    """
    feature = [int(item) for item in tree["feature"]]
    value = [float(item) for item in tree["value"]]
    left = [int(item) for item in tree["left"]]
    right = [int(item) for item in tree["right"]]
    size = len(feature)
    if not size or not len(value) == len(left) == len(right) == size:
        raise ValueError("columns of different lengths")
    for at in range(size):
        if feature[at] >= 0 and not (at < left[at] < size and at < right[at] < size):
            raise ValueError("a child does not follow its parent")
        if feature[at] >= _LEAF:
            raise ValueError("too many features")
    return feature, value, left, right
