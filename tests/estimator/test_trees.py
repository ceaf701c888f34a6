"""Trees, and the workspaces that they tell."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from estimator.methods.rad.forest import Forest
from estimator.methods.rad.program import Conv
from estimator.methods.rad.trees import Trees
from estimator.methods.rad.workspace import Workspaces, total_bytes
from estimator.methods.rad.workspace import features as conv_features
from estimator.store import ModelError
from tests.estimator.accounts import NOTHING, TREE


@pytest.mark.parametrize("sort", [Trees, Forest])
def test_trees_add_their_leaves(sort: type[Trees | Forest]) -> None:
    trees = sort({"start": 1.0, "trees": [TREE, TREE]})
    assert trees.predict([1.0, 0.0]) == 21.0
    assert trees.predict([2.0, 0.5]) == 41.0
    assert trees.predict([2.0, 0.6]) == 61.0


def grown(drawn: random.Random, leaves: int) -> dict[str, list[Any]]:
    """A tree that splits leaves that were drawn, by thresholds of which many are equal."""
    feature, value, left, right = [-1], [drawn.random()], [-1], [-1]
    while feature.count(-1) < leaves:
        at = drawn.choice([at for at, number in enumerate(feature) if number < 0])
        feature[at], value[at], left[at], right[at] = drawn.randrange(5), drawn.randrange(9), len(left), len(left) + 1
        feature += [-1, -1]
        value += [drawn.random(), drawn.random()]
        left += [-1, -1]
        right += [-1, -1]
    return {"feature": feature, "value": value, "left": left, "right": right}


@pytest.mark.parametrize("most", [1, 2, 16, 17, 64])
def test_a_forest_says_what_a_walk_through_its_trees_says(most: int) -> None:
    drawn = random.Random(most)
    model = {"start": 0.25, "trees": [grown(drawn, drawn.randint(1, most)) for _ in range(9)] + [grown(drawn, most)]}
    forest, walked = Forest(model, 5), Trees(model, 5)
    for _ in range(500):
        row = [drawn.choice((drawn.randrange(-1, 10), 10 * drawn.random(), math.inf, -math.inf)) for _ in range(5)]
        assert forest.predict(row) == walked.predict(row)


def test_a_forest_has_small_trees() -> None:
    with pytest.raises(ModelError, match="65 leaves"):
        Forest({"start": 0.0, "trees": [grown(random.Random(0), 65)]})
    assert Forest({"start": 0.5, "trees": []}).predict([]) == 0.5


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
@pytest.mark.parametrize("sort", [Trees, Forest])
def test_damaged_trees_are_refused(tree: dict[str, Any], sort: type[Trees | Forest]) -> None:
    with pytest.raises(ModelError, match="damaged"):
        sort({"start": 0.0, "trees": [tree]}, 7)
    with pytest.raises(ModelError, match="damaged"):
        sort({"start": math.inf, "trees": []})


def test_workspaces_are_ratios_of_the_tensors() -> None:
    conv = Conv(16, 32, 9, 1, 1, 1024, 1024)
    half = {"start": 0.5, "trees": []}
    spaces = Workspaces({"forward": half, "input": {"start": 2.0, "trees": []}, "weight": NOTHING})
    total = total_bytes(conv, 4, "fp32")
    assert total == 4 * (4 * (16 + 32) * 1024 + 16 * 32 * 9)
    assert spaces.of(conv, 4, "fp32") == (0.5 * total, 2.0 * total)
    assert spaces.of(conv._replace(transposed=True), 4, "fp32") == (2.0 * total, 0.5 * total)
    assert len(conv_features(conv, 4, "bf16")) == 19
    with pytest.raises(ModelError, match="damaged"):
        Workspaces({"forward": half})
