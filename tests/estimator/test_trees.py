"""Trees, and the workspaces that they tell."""

from __future__ import annotations

import math
from typing import Any

import pytest

from estimator.methods.rad.program import Conv
from estimator.methods.rad.trees import Trees
from estimator.methods.rad.workspace import Workspaces, total_bytes
from estimator.methods.rad.workspace import features as conv_features
from estimator.store import ModelError
from tests.estimator.accounts import NO_WORKSPACE, NOTHING, TREE


def test_trees_add_their_leaves() -> None:
    trees = Trees({"start": 1.0, "trees": [TREE, TREE]})
    assert trees.predict([1.0, 0.0]) == 21.0
    assert trees.predict([2.0, 0.5]) == 41.0
    assert trees.predict([2.0, 0.6]) == 61.0


def test_large_trees_are_walked_as_they_stand() -> None:
    """More nodes for smaller values than a byte counts."""
    size = 600
    # A row of nodes, each with a leaf for larger values; and the same with a leaf for smaller ones.
    down = [size - number for number in range(size)]
    values = [float(value) for number in range(size) for value in (down[number], 1000 + number)] + [7.0]
    inner = [2 * (number // 2 + 1) if number % 2 == 0 else -1 for number in range(2 * size)] + [-1]
    leaf = [number + 1 if number % 2 == 0 else -1 for number in range(2 * size)] + [-1]
    feature = [0 if number % 2 == 0 else -1 for number in range(2 * size)] + [-1]
    small = {"feature": feature, "value": values, "left": inner, "right": leaf}
    for row in (-1.0, 0.5, 1.0, 1.5, 255.0, 255.5, 300.0, 599.5, 600.0, 601.0):
        first = next((number for number in range(size) if row > down[number]), None)
        expected = 7.0 if first is None else 1000.0 + first
        assert Trees({"start": 0.0, "trees": [small]}, 1).predict([row]) == expected
    large = {**small, "left": leaf, "right": inner}
    values[:-1:2] = [float(number) for number in range(size)]
    for row in (-1.0, 0.0, 0.5, 254.0, 254.5, 255.0, 256.0, 511.5, 599.0, 599.5):
        first = next((number for number in range(size) if row <= number), None)
        expected = 7.0 if first is None else 1000.0 + first
        assert Trees({"start": 0.0, "trees": [large, large]}, 1).predict([row]) == 2 * expected


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {**TREE, "right": [1, -1, 4, -1, -1]},
        {**TREE, "left": [0, -1, 3, -1, -1]},
        {**TREE, "right": [9, -1, 4, -1, -1]},
        {**TREE, "value": [1.0]},
        {**TREE, "feature": ["x"] * 5},
        {"feature": [], "value": [], "left": [], "right": []},
        {"feature": [0, 0, -1], "value": [1.0] * 3, "left": [1, 2, -1], "right": [1, 2, -1]},
        {**TREE, "feature": [255, -1, 1, -1, -1]},
        {**TREE, "feature": [7, -1, 1, -1, -1]},
        {**TREE, "feature": [math.inf, -1, 1, -1, -1]},
        {**TREE, "value": [1.5, math.nan, 0.5, 20.0, 30.0]},
        {**TREE, "value": [10**400, 10.0, 0.5, 20.0, 30.0]},
    ],
)
def test_damaged_trees_are_refused(tree: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="damaged"):
        Trees({"start": 0.0, "trees": [tree]}, 7)
    with pytest.raises(ModelError, match="damaged"):
        Trees({"start": math.inf, "trees": []})


def test_workspaces_are_ratios_of_the_tensors() -> None:
    conv = Conv(16, 32, 9, 1, 1, 1024, 1024)
    half = {"start": 0.5, "trees": []}
    trees = {"forward": half, "input": {"start": 2.0, "trees": []}, "weight": NOTHING, "copies": NOTHING}
    spaces = Workspaces(trees)
    total = total_bytes(conv, 4, "fp32")
    assert total == 4 * (4 * (16 + 32) * 1024 + 16 * 32 * 9)
    assert spaces.of(conv, 4, "fp32") == (0.5 * total, 2.0 * total)
    assert spaces.of(conv._replace(transposed=True), 4, "fp32") == (2.0 * total, 0.5 * total)
    assert len(conv_features(conv, 4, "bf16")) == 19
    for name in trees:
        with pytest.raises(ModelError, match="damaged"):
            Workspaces({other: tree for other, tree in trees.items() if other != name})


def test_convolutions_of_one_pixel_copy_their_weights_for_each_sample() -> None:
    spaces = Workspaces({**NO_WORKSPACE, "copies": {"start": 0.6, "trees": []}})
    conv = Conv(512, 2048, 1, 1, 1, 16, 16)
    assert spaces.of(conv, 64, "fp32") == (0.0, 64 * 4 * 512 * 2048)
    assert spaces.of(conv, 64, "bf16") == (0.0, 0.0)
    for other in (conv._replace(area=9), conv._replace(stride=2), conv._replace(groups=4)):
        assert spaces.of(other, 64, "fp32") == (0.0, 0.0)
    rarely = Workspaces({**NO_WORKSPACE, "copies": {"start": 0.4, "trees": []}})
    assert rarely.of(conv, 64, "fp32") == (0.0, 0.0)
