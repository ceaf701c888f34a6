"""Sums of many small regression trees, asked all at once. Pure; fitting them is `estimator.methods.rad.fit`'s work.

A node turns those rows away from the leaves of its smaller values whose feature is above its threshold. So for each
feature, and each number of its thresholds that a row is above, the leaves that are left are noted as bits of one
integer, of all trees together. These integers of all features, joined by "and", leave in each tree the leaf that a
walk would end in as the first of those that are left (Lucchese et al., QuickScorer, SIGIR 2015, section 3).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping
from struct import Struct
from typing import Any, Final

from estimator.breath import breathe
from estimator.methods.rad.trees import LEAF, damaged, read

# Bits of one tree, and how `struct` calls so many.
_WIDTHS: Final = ((16, "H"), (64, "Q"))


class Forest:
    """A start value and trees of no more than 64 leaves, of which one each is added to it.

    radd asks for one prediction after a pause, with nothing in the processor's caches. This looks at a few numbers of
    each feature, at one integer for it, and at one leaf of each tree; a walk would look at each node on its way.
    """

    def __init__(self, model: Mapping[str, Any], width: int = LEAF) -> None:
        """Take what `estimator.methods.rad.trees.read` reads.

        Args:
            model: what was learned.
            width: how many features a row has.

        Raises:
            ModelError: the lists do not make trees, or one has too many leaves.
        """
        self._start, trees = read(model, width)
        leaves = [[value for feature, value, _ in tree if feature == LEAF] for tree in trees]
        most = max(map(len, leaves), default=0)
        bits, form = next((each for each in _WIDTHS if most <= each[0]), (0, ""))
        if not bits:
            raise damaged(f"a tree of {most} leaves")
        self._packed = Struct(f"<{len(trees)}{form}")
        # What leaves add, as many for each tree; where a tree's begin, less one, as bits are counted from one.
        self._values = array("d", [0.0]) * (len(trees) * bits)
        self._before = [number * bits - 1 for number in range(len(trees))]
        for before, values in zip(self._before, leaves, strict=True):
            self._values[before + 1 : before + 1 + len(values)] = array("d", values)
        self._all = sum([((1 << len(values)) - 1) << number * bits for number, values in enumerate(leaves)])
        self._first = sum([1 << number * bits for number in range(len(trees))])
        # By feature and threshold, the leaves that a row is turned away from.
        turned: dict[int, dict[float, int]] = {}
        for number, tree in enumerate(trees):
            breathe()
            before = 0  # leaves
            for at, (feature, value, skip) in enumerate(tree):
                if feature == LEAF:
                    before += 1
                    continue
                smaller = sum([inner == LEAF for inner, _, _ in tree[at + 1 : at + skip]])
                thresholds = turned.setdefault(feature, {})
                thresholds[value] = thresholds.get(value, 0) | ((1 << smaller) - 1) << number * bits + before
        # Features, each with its thresholds and, by how many of them a row is above, the leaves that are left.
        self._features: list[tuple[int, array[float], list[int]]] = []
        for feature, thresholds in sorted(turned.items()):
            breathe()
            edges = sorted(thresholds)
            left = [self._all]
            for edge in edges:
                left.append(left[-1] & ~thresholds[edge])
            self._features.append((feature, array("d", edges), left))

    def predict(self, row: list[float]) -> float:
        """Add up the leaves that a row of features falls into."""
        left = self._all
        for feature, edges, by_edge in self._features:
            left &= by_edge[bisect_left(edges, row[feature])]
        ends = left & ~(left - self._first)  # the first bit of each tree
        total = self._start
        packed = self._packed.unpack(ends.to_bytes(self._packed.size, "little"))
        values = self._values
        for end, before in zip(packed, self._before, strict=True):
            total += values[before + end.bit_length()]
        return total
