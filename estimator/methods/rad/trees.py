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

    radd asks for one prediction after a pause, with nothing in the processor's caches: what lies side by side comes
    faster than what is linked. So nodes are bytes, in the order of a walk that goes to smaller values first, and equal
    thresholds are one number.
    """

    def __init__(self, model: Mapping[str, Any], width: int = _LEAF) -> None:
        """Read ``{"start": .., "trees": [{"feature": [..], "value": [..], "left": [..], "right": [..]}, ..]}``.

        Args:
            model: what was learned.
            width: how many features a row has.

        Raises:
            ModelError: the lists do not make trees.
        """
        try:
            self._start = float(model["start"])
            trees = [_in_order(*read_tree(tree)) for tree in model["trees"]]
            if not all(map(isfinite, [self._start, *(value for tree in trees for _, value, _ in tree)])):
                raise ValueError("a value that is no number")
            if any(feature >= width for tree in trees for feature, _, _ in tree if feature != _LEAF):
                raise ValueError("a feature that no row has")
            # Where each tree begins. Of each node the feature to look at, or _LEAF; half of how far it is to the node
            # for larger values, or what a byte cannot hold of that; and its threshold, or what it adds.
            self._roots: list[int] = []
            self._far: dict[int, int] = {}
            self._values: list[float] = []
            nodes, skips = bytearray(), bytearray()
            numbers: dict[float, float] = {}  # new ones, which lie in memory in this order
            for tree in trees:
                breathe()
                self._roots.append(len(nodes))
                for feature, value, skip in tree:
                    near = skip // 2 if skip // 2 <= _LEAF else 0
                    if skip and not near:
                        self._far[len(nodes)] = skip
                    nodes.append(feature)
                    skips.append(near)
                    self._values.append(numbers.setdefault(value, value + 0.0))
            self._nodes, self._skips = bytes(nodes), bytes(skips)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ModelError(f"the trees of this model are damaged ({error!r}): roll back") from None

    def predict(self, row: list[float]) -> float:
        """Add up the leaves that a row of features falls into."""
        total = self._start
        nodes, skips, values = self._nodes, self._skips, self._values
        for root in self._roots:
            at = root
            feature = nodes[at]
            while feature != _LEAF:
                at += 1 if row[feature] <= values[at] else 2 * skips[at] or self._far[at]
                feature = nodes[at]
            total += values[at]
        return total


# A node: the feature to look at, or _LEAF; its threshold, or what it adds; how far it is to the node for larger values.
_Node = tuple[int, float, int]


def _in_order(feature: list[int], value: list[float], left: list[int], right: list[int]) -> list[_Node]:
    """List a tree's nodes in the order of a walk that goes to smaller values first.

    Raises:
        ValueError: they make no tree.
    """
    breathe()
    order = _walk(feature, left, right)
    place = {node: at for at, node in enumerate(order)}
    if len(place) < len(order):
        raise ValueError("a node has two parents")
    return [
        (_LEAF, value[node], 0) if feature[node] < 0 else (feature[node], value[node], place[right[node]] - at)
        for at, node in enumerate(order)
    ]


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
