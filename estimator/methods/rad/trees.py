"""Sums of small regression trees, as plain lists. Pure; fitting them is `estimator.methods.rad.fit`'s work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from estimator.store import ModelError


class Trees:
    """A start value and trees whose leaves are added to it."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        """Read ``{"start": .., "trees": [{"feature": [..], "value": [..], "left": [..], "right": [..]}, ..]}``.

        Raises:
            ModelError: the lists do not make trees.
        """
        try:
            self._start = float(model["start"])
            self._trees = [_linked(*read_tree(tree)) for tree in model["trees"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"the trees of this model are damaged ({error!r}): roll back") from None

    def predict(self, row: Sequence[float]) -> float:
        """Add up the leaves that a row of features falls into."""
        total = self._start
        for node in self._trees:
            while node.__class__ is tuple:
                branch: _Branch = node
                feature, value, smaller, larger = branch
                node = smaller if row[feature] <= value else larger  # noqa: PLW2901
            leaf: float = node
            total += leaf
        return total


# A leaf is its value; else feature, threshold, and the nodes for smaller or equal and for larger.
Node = Any
_Branch = tuple[int, float, Node, Node]


def _linked(feature: list[int], value: list[float], left: list[int], right: list[int]) -> Node:
    """Turn a tree's columns into nested tuples, which Python walks down faster than lists."""
    made: list[Node] = [None] * len(feature)
    for at in reversed(range(len(feature))):
        leaf = feature[at] < 0
        made[at] = value[at] if leaf else (feature[at], value[at], made[left[at]], made[right[at]])
    return made[0]


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
    return feature, value, left, right
